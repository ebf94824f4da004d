"""Weaving: which window aggregates of a cohort share a tree, decided by cost.

costing      what queries ask of a tree, and what that costs, exactly and in floats
edge_meter   E of every union of two trees, many at a time
trees        trees by number: what they cost, and the benefits of merging pairs of them
dendrogram   all merges with their costs, and the plan for any rate as a cut of them
weave        the merging: from a tree for each query to one tree for all
"""
