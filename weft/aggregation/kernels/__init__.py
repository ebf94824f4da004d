"""The kernels, by name."""

from __future__ import annotations

from collections.abc import Mapping

from weft.aggregation.algorithm import Algorithm
from weft.aggregation.kernels.b_int import B_INT
from weft.aggregation.kernels.daba import DABA
from weft.aggregation.kernels.flatfat import FLATFAT
from weft.aggregation.kernels.flatfit import FLATFIT
from weft.aggregation.kernels.panes import PANES
from weft.aggregation.kernels.panes_inv import PANES_INV
from weft.aggregation.kernels.prefix import PREFIX
from weft.aggregation.kernels.slickdeque_inv import SLICKDEQUE_INV
from weft.aggregation.kernels.slickdeque_noninv import SLICKDEQUE_NONINV
from weft.aggregation.kernels.two_stacks import TWO_STACKS

ALGORITHMS: Mapping[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        PANES,
        PANES_INV,
        FLATFAT,
        B_INT,
        FLATFIT,
        TWO_STACKS,
        DABA,
        SLICKDEQUE_INV,
        SLICKDEQUE_NONINV,
        PREFIX,
    )
}
