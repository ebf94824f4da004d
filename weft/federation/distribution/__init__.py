"""Which provider runs which query.

topology.py             sites, links, and the shortest ways between sites
model.py                the network graph, queries with their substreams, and the edge cut of a placement
stream_interest.py      what queries want of streams: rows, columns and substreams, found from their conditions
coordinator_tree.py     clusters of providers: join, split
query_graph.py          queries, or bundles of queries, with weights and interests; coarsening, and the compiled loops
rounds.py               rounds of redistribution: bundles up the tree, decisions down it
coordinator.py          the coordinator that all of this belongs to: where new queries go, what a round moves, and why
"""
