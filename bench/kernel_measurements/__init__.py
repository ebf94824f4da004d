"""The measurements of `bench/kernels.py`, one file each, and what they share.

subjects.py       the aggregate functions, random partials, and kernels with full windows
rounds.py         contestants take turns; the best of several rounds counts
single_query.py   one query: slides per second of every kernel, by window; and the memory they hold
multi_query.py    all ranges 1 … n at once
limits.py         against loops that do the arithmetic and nothing else (numba_loops.py, cpp_loops.py)
latency.py        every single push under a clock
papers.py         what the papers' figures claim, beside what was measured
pictures.py       the charts
"""
