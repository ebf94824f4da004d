"""Windows cut into slices: where the edges are, how many there are, and what is due when.

slicing.py        edges, as residue classes; from windows to edges; edges and instances in the order of time
counting.py       how many edges per tick, exactly, whatever their common period
join_windows.py   which windows of joins contain which; how far apart the clocks of rows that meet may be
"""
