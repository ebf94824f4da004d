"""The optimizer: what queries share, and in which order they do it.

weave                  window aggregates that share a tree
network                selections and joins that share nodes, and the order of joins
group_results          queries for subscribers that one representative query answers
share_set_operators    set operators that share operands, in part by columns (share_set_columns)
"""
