"""The optimizer: what queries share, how it is computed and where it is kept.

optimizer.py     the rules in their order: from queries and facts to the shared plan
rules            one rule a file; facts.py is what rules know
network          selections and joins that share nodes, and the order of joins
weave            window aggregates that share a tree, and the kernels of trees
aggregates       what aggregates need of rows
sets             set operators that share operands
group_results    queries for subscribers that one representative query answers
"""
