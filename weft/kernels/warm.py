"""Compiling ahead: no cycle of a running engine should wait for a compiler.

Compiled code is kept on disk, beside the sources or, where these cannot be written to, in the user's cache directory;
so a machine compiles once, and after that a process only loads, in a fraction of a second per kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.algebra.types import BIGINT, DOUBLE
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.grouped import KernelPartials, make_kernel
from weft.kernels.kernel import why_not
from weft.kernels.monoids import COUNT, MOMENTS, SUM_OF_DOUBLES, extreme
from weft.kernels.sparse import SparseWindows
from weft.kernels.statistic import Statistic

#: One statistic for each arithmetic there is on rows; all others use the same.
EVERY_ARITHMETIC: tuple[Statistic, ...] = (
    COUNT,
    SUM_OF_DOUBLES,
    MOMENTS,
    *(extreme(type_, greatest) for type_ in (BIGINT, DOUBLE) for greatest in (False, True)),
)


def warm_up(
    statistics: Iterable[Statistic] = EVERY_ARITHMETIC, kernels: Iterable[str] = tuple(ALGORITHMS), keys: int = 2
) -> None:
    """Compiles (or loads from disk) what these kernels need for these statistics; `keys` = 1 for kernels of one key.

    Without arguments, all that `GroupedWindows` and `SparseWindows` can ever call. A kernel is compiled once for all
    statistics, in a second or two, the first time ever.
    """
    chosen = tuple(kernels)
    for statistic in statistics:
        for name in chosen:
            if why_not(ALGORITHMS[name], statistic) is None:
                kernel = make_kernel(name, statistic, capacity=1, width=keys)
                kernel.slide(statistic.empty(1, keys), np.zeros((1, 1)))
        _warm_up_sparse(statistic)


def _warm_up_sparse(statistic: Statistic) -> None:
    """Windows short enough to be added up one by one, and windows long enough for a tree."""
    for slices in (2, 200):
        ones = KernelPartials(np.arange(slices), np.zeros(slices, np.int64), {"x": statistic.empty(slices)})
        SparseWindows({"x": statistic}).slide(ones, slices, np.zeros((slices, 1)))
