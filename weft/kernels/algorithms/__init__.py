"""The kernels, by name."""

from __future__ import annotations

from collections.abc import Mapping

from weft.kernels.algorithms.b_int import B_INT
from weft.kernels.algorithms.daba import DABA
from weft.kernels.algorithms.flatfat import FLATFAT
from weft.kernels.algorithms.flatfit import FLATFIT
from weft.kernels.algorithms.panes import PANES
from weft.kernels.algorithms.panes_inv import PANES_INV
from weft.kernels.algorithms.prefix import PREFIX
from weft.kernels.algorithms.slickdeque_inv import SLICKDEQUE_INV
from weft.kernels.algorithms.slickdeque_noninv import SLICKDEQUE_NONINV
from weft.kernels.algorithms.two_stacks import TWO_STACKS
from weft.kernels.compiled.cells import Algorithm

_ALL = (PANES, PANES_INV, FLATFAT, B_INT, FLATFIT, TWO_STACKS, DABA, SLICKDEQUE_INV, SLICKDEQUE_NONINV, PREFIX)
ALGORITHMS: Mapping[str, Algorithm] = {algorithm.name: algorithm for algorithm in _ALL}
