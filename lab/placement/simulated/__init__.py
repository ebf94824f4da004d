"""A provider's cluster, tuple by tuple: streams, queries, nodes that work, one network, and fragments on the move.

workload.py     streams, and queries over them, drawn at the parameters of the experiments
units.py        the queries of a workload as arrays of units: whole fragments, or single operators
kernel.py       tuples on their way through nodes and network, compiled
tuples.py       … and how to change the world while they are on their way
cluster.py      nodes that measure, tell, ask and give, by the decisions of `lab.placement`
"""
