"""Compiling ahead: no cycle of a running engine should wait for a compiler."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.aggregation.grouped import make_kernel
from weft.aggregation.kernel import why_not
from weft.aggregation.kernels import ALGORITHMS
from weft.aggregation.statistic import Statistic


def warm_up(statistics: Iterable[Statistic], kernels: Iterable[str] = tuple(ALGORITHMS), keys: int = 2) -> None:
    """Compiles (or loads from disk) what these kernels need for these statistics; `keys` = 1 for ungrouped queries.

    Kernels of grouped queries are compiled once for all statistics, in a second or two each, the first time ever.
    """
    chosen = tuple(kernels)
    for statistic in statistics:
        for name in chosen:
            if why_not(ALGORITHMS[name], statistic) is None:
                kernel = make_kernel(name, statistic, capacity=1, width=keys)
                kernel.slide(statistic.empty(1, keys), np.zeros((1, 1)))
