"""The network that all queries share: selections and joins, each computed once.

wanted.py            a select as the network sees it
nodes.py             the nodes, and the index that finds them
sizes.py             how many rows logs and nodes have: given, measured and expected
choose_joins.py      which joins a select uses
planner.py           register and deregister: nodes that a select still lacks, and weaker joins in the place of two
redeciding.py        what the joins of selects cost, and joins chosen again while they run
nearest.py           why a node is not shared
"""
