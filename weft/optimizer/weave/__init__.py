"""Weaving: which window aggregates of a cohort share a tree, decided by cost.

acq          a query as weaving sees it; equal ones are counted, not kept
costing      what kernels cost, exactly and in floats
edge_meter   E of every union of two trees, many at a time
trees        trees by number: what they cost, and the benefits of merging pairs of them
dendrogram   all merges with their costs, and the plan for any rate as a cut of them
weave        the merging: from a tree for each query to one tree for all
"""
