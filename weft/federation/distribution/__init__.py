"""Which provider runs which query.

graph.py            the query graph: queries, or bundles of queries, with weights, interests and fixed edges
coarsening.py       bundles that overlap much, by heavy-edge matching under a cap on their weight
mapping.py          a query graph onto targets: greedy, then refined as Fiduccia and Mattheyses do
kernels.py          … the loops of both
centralised.py      all queries onto all providers at once
hierarchical.py     the same down a tree of coordinators, a few targets at a time
routing.py          where new queries go, many at a time
diffusion.py        how much load must flow between whom
adaptation.py       a round of redistribution: load first, then cost
migration.py        what has to move once all is decided, and what that costs
"""
