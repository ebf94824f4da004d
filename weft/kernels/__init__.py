"""Partial functions and window kernels.

A window is a run of slices; Spark reduces each slice to partials, one for every group key. What is left to do is here:
to keep the partials of open windows, and to combine them into answers, with as few operations as the function's
algebra allows. From the bottom up:

    machine_code.py         what Numba is told
    cells.py                operations on numbered cells, and what an algorithm is
    arithmetic.py           these operations, compiled
    algorithms/             the techniques, one file each, written once in these operations

    statistic.py            what a kernel keeps: records of columns, with identity, combine, inverse; ordered values
    monoids.py              the statistics: COUNT, sums, extremes, moments
    aggregate_functions.py  SUM, AVG, STDDEV, …: which statistics they share, and how answers are lowered from them

    execution.py            the loop around an algorithm, and a statistic's arithmetic for it
    kernel.py               a kernel with its memory
    grouped.py              all kernels of a tree, over keys that come and go
    sparse.py               the same for very many keys, by the partials that exist, and when that is better

    kernel_cost.py          what the queries of a tree ask of its kernel, and what kernels cost
    kernel_choice.py        which one to take, and why
"""
