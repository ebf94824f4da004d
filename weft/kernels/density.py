"""Whether the windows of a tree are better kept dense or sparse: the same answers, at other prices.

Dense windows cost as much as keys times fragments, in memory, and a few nanoseconds for each key and new fragment.
Sparse ones cost as much as there are partials, in memory, and some tens of nanoseconds for each of them whenever
anything is taken in. Measured over fifty fragments, seventeen ranges and a hundred thousand keys, sparse windows were
faster with a partial in one fragment of fifty, and dense ones with a partial in one of ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.kernels.statistic import Statistic

#: Windows of so few keys are dense, and so are those whose dense form is smaller than this: answers for whole rows of
#: keys cost a nanosecond or two each, and one by one some tens of them.
FEW = 256
SMALL = 64 << 20

#: Up to this size, and once there have been some fragments, places that time has not reached yet do not count: windows
#: that have only begun are as full as they look. Beyond it a guess would cost too much memory.
LARGE, ENOUGH = 1 << 30, 8

#: Dense windows become sparse when fewer than one place in so many has a partial, and sparse ones dense when more than
#: one in so many has. In between they stay what they are.
SPARSE_BELOW, DENSE_ABOVE = 32, 8


@dataclass(frozen=True)
class Crowd:
    """Who is in the windows of a tree: so many keys with so many partials, in so many fragments now, and at most."""

    keys: int
    partials: int
    fragments: int
    capacity: int
    #: The bytes of one key in dense windows, and those of one partial in sparse ones.
    dense_key: int
    sparse_partial: int

    @property
    def dense_bytes(self) -> int:
        # Columns are made for the next power of two.
        return self.dense_key << max(0, self.keys - 1).bit_length()

    @property
    def sparse_bytes(self) -> int:
        # Merging new partials in takes a second copy for a while.
        return 2 * self.sparse_partial * self.partials

    def is_better_sparse(self, sparse_now: bool) -> bool:
        """Whether the windows should be sparse, given what they are."""
        size = self.dense_bytes
        if self.keys <= FEW or size <= (SMALL // 2 if sparse_now else SMALL):
            return False
        has_begun = size <= LARGE and self.fragments >= ENOUGH
        places = self.keys * (min(self.fragments, self.capacity) if has_begun else self.capacity)
        return self.partials * (DENSE_ABOVE if sparse_now else SPARSE_BELOW) < places


def bytes_per_partial(statistics: Mapping[str, Statistic]) -> int:
    """The memory of one partial in sparse windows: its key, its fragment, and its records."""
    fields = [field for each in statistics.values() if not each.rare for field in each.fields]
    return 16 + sum(field.dtype.itemsize * max(1, field.wide) for field in fields)
