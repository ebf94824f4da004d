"""Windows cut into slices: where the edges are, how many there are, and what is due when.

slicing.py        edges that repeat for ever, as residue classes; Panes, Pairs and Cutty: from windows to edges
counting.py       how many edges per tick, exactly, whatever their common period
schedule.py       edges, slices and instances of windows, in the order of time
join_windows.py   which windows of joins contain which; how far apart the clocks of rows that meet may be
"""
