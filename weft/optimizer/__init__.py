"""The optimizer: what queries share, and in which order they do it.

It weaves: which windows, groupings and predicates go into one tree.

acq                   a query as weaving sees it; equal ones are counted, not kept
plan_cost             what a plan costs, with rows read by every tree or by one finest cut
weave                 the dendrogram of all merges, and the plan for any rate as a cut of it
weave_polish          … and leaves that are better off elsewhere
woven_plan            a plan: groups of queries, their edges, their kernels, their cost
weave_explain         what each query shares, what it would cost alone, and why it shares no more
weave_incremental     queries that come and go
weave_groupings       groupings that are rolled up from others
weave_signatures      predicates that are evaluated once
weave_generalised     windows, groupings and predicates together
weave_averages        queries of several measures, apart or whole
measures              which measures an aggregate function needs
factor_windows        cuts that no query asked for, because they make others cheaper
baselines             the plans that weaving is held against
workloads             queries to plan: the papers', and dashboards

edge_meter, fast_cost, cost_lookup, trees and fabric are how weaving gets it done in time.

The network of selections and joins has a room of its own (`network/`, and in it `redeciding.py` for orders that are
chosen anew from what was seen), and so have result groups.
"""
