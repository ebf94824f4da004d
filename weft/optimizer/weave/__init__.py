"""Weaving: which window aggregates of a cohort share a tree, decided by cost.

acq          a query as weaving sees it; equal ones are counted, not kept
costing      the cost of reading and of kernels
weave        the merging: from a tree for each query to one tree for all
dendrogram   all merges with their costs, and the plan for any rate as a cut of them
woven_plan   a plan: groups of queries, their edges, kernels and cost

edge_meter, fast_cost and trees hold what makes weaving fast: edges of unions, costs of many unions at once, and the
benefits of all pairs.
"""
