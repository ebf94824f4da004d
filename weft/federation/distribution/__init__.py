"""Which provider runs which query.

topology.py             sites, links, and the shortest ways between sites
model.py                the network graph, queries with their substreams, and the edge cut of a placement
substreams.py           substreams and interests, found from the conditions of real queries
coordinator_tree.py     clusters of providers: join, leave, split, merge
query_graph.py          queries, or bundles of queries, with weights and interests; coarsening
placement_loops.py      the compiled loops of mapping and redistribution
bundles.py              targets of a coordinator, and the bundles that it decides about
routing.py              where new queries go
rounds.py               rounds of redistribution, and what has to move
coordinator.py          the coordinator that all of this belongs to, and why it decides as it does
"""
