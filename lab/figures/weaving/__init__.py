"""The papers' experiments on planning, one file per family of figures; `python -m lab.figures.weaving` runs them all.

sharing        Guirguis, Figures 6, 12 to 14, 16 to 18: when to share, and what weaving gains (shown by sharing_shown)
effort         Figures 19 and 45: what the optimizer itself costs
incremental    Figures 20 to 23: queries that come one by one
three_levels   Figures 31 to 35: TriOps and TriWeave
roll_ups       trees that read one another: Factor Windows on top of weaving
kernels        Shein and Chrysanthis, Experiments 1 to 5 and the number of trees: plans that know their kernel
counting       Figure 16 of the same: counting edges with and without a bit set
optimum        how far from the best plan there is
scale          a million queries; one more query
woven, rivals  query sets and plans that several figures need
charts         how the pictures look

"Guirguis" is "Scalable Processing of Multiple Aggregate Continuous Queries", "Shein and Chrysanthis" is "Multi-Query
Optimization of Incrementally Evaluated Sliding-Window Aggregations". Their plots are not at hand: what is compared is
what their texts state in words.
"""
