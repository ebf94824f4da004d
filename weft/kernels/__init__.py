"""Partial functions and window kernels.

A window is a run of fragments; Spark reduces each fragment to partials, one for every group key. What is left to do is
here: to keep the partials of open windows, and to combine them into answers, with as few operations as the function's
algebra allows.

    statistic.py    what a kernel keeps: records of columns, with identity, combine, inverse
    statistics.py   COUNT, sums, extremes, moments, sketches, multisets
    functions.py    SUM, AVG, STDDEV, …: which statistics they share, and how answers are lowered from them; `define`
    laws.py         the laws that all of this must keep

    kernels/        the techniques, one file each, written once
    cells.py        what they are written in: operations on numbered cells
    machine/        these operations compiled, for rows of all keys and for single numbers (rows.py, pointers.py)
    arithmetic.py   what a statistic gives to these operations (interpreted.py: without a compiler)
    driver.py       the loop around a kernel
    kernel.py       a kernel with its memory: slide, push, evict, query, amend, snapshot (deques.py for SlickDeque)
    grouped.py      all kernels of a tree, over keys that come and go (keys.py)
    sparse.py       the same for very many keys, by the partials that there are (spans.py); density.py says when
    warm.py         compiling ahead

    cost.py         what kernels cost (demand.py)
    calibration.py  what an operation costs on this machine
    choice.py       which one to take, and why
    counting.py     what they really do

Modules are imported by name: planning needs no compiler.
"""
