"""Group keys and their columns: keys come and go, columns are used again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

#: Columns to begin with. One column would be the compiled code of an ungrouped query.
FEWEST_COLUMNS = 8


class KeyColumns:
    """Which column each live key has. The lowest free column is taken first, so that live ones stay together."""

    def __init__(self) -> None:
        self.width = FEWEST_COLUMNS
        self._columns: dict[Hashable, int] = {}
        self._free = list(range(FEWEST_COLUMNS))
        self._last_seen = np.full(FEWEST_COLUMNS, -1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._columns)

    def live(self) -> tuple[list[Hashable], NDArray[np.intp]]:
        """The live keys and their columns."""
        return list(self._columns), np.fromiter(self._columns.values(), dtype=np.intp, count=len(self._columns))

    def columns_of(self, keys: Sequence[Hashable], sequences: NDArray[np.int64]) -> NDArray[np.intp]:
        """The columns of keys that partials with these numbers came for; a new key gets one. Widens as needed."""
        columns = np.fromiter((self._column_of(key) for key in keys), dtype=np.intp, count=len(keys))
        np.maximum.at(self._last_seen, columns, sequences)
        return columns

    def release(self, first: int) -> list[int]:
        """Forgets the keys that no partial from number `first` on came for. Their columns must be cleared."""
        if not self._columns:
            return []
        gone = [key for key, column in self._columns.items() if self._last_seen[column] < first]
        released = [self._columns.pop(key) for key in gone]
        for column in released:
            self._last_seen[column] = -1
            heappush(self._free, column)
        return released

    def compact(self) -> NDArray[np.intp] | None:
        """Moves live keys together if they fill less than a quarter: what each new column was before, −1 for none."""
        width = max(FEWEST_COLUMNS, 1 << (2 * len(self._columns) - 1).bit_length())
        if 4 * len(self._columns) >= self.width or width >= self.width:
            return None
        before = np.full(width, -1, dtype=np.intp)
        last_seen = np.full(width, -1, dtype=np.int64)
        for column, (key, old) in enumerate(self._columns.items()):
            before[column], last_seen[column] = old, self._last_seen[old]
            self._columns[key] = column
        self.width, self._last_seen = width, last_seen
        self._free = list(range(len(self._columns), width))
        heapify(self._free)
        return before

    def _column_of(self, key: Hashable) -> int:
        column = self._columns.get(key)
        if column is None:
            if not self._free:
                self._widen()
            column = self._columns[key] = heappop(self._free)
        return column

    def _widen(self) -> None:
        self._free = list(range(self.width, 2 * self.width))
        self._last_seen = np.append(self._last_seen, np.full(self.width, -1, dtype=np.int64))
        self.width *= 2
