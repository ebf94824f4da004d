"""Group keys and their columns: keys come and go, columns are used again.

A key is a small integer that the caller hands out, so that finding the columns of a million keys is one look into an
array. The caller may give the number of a key that has gone to another; the array is as long as the largest number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Columns to begin with. One column would be the compiled code of an ungrouped query.
FEWEST_COLUMNS = 8

_NOBODY = -1
_NEVER = -1


class KeyColumns:
    """Which column each live key has. The lowest free columns are taken first, so that live ones stay together."""

    def __init__(self) -> None:
        self._column_of = np.full(FEWEST_COLUMNS, _NOBODY, dtype=np.int64)
        self._hold(np.full(FEWEST_COLUMNS, _NOBODY, dtype=np.int64), np.full(FEWEST_COLUMNS, _NEVER, dtype=np.int64))

    def __len__(self) -> int:
        return int(np.count_nonzero(self._key_of != _NOBODY))

    @property
    def width(self) -> int:
        return len(self._key_of)

    @property
    def last_seen(self) -> NDArray[np.int64]:
        """For each column the number of the newest partial that came for its key; −1 for none."""
        return self._last_seen

    def live(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The live keys and their columns, which ascend."""
        columns = np.flatnonzero(self._key_of != _NOBODY)
        return self._key_of[columns], columns

    def columns_of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The columns of keys; a new key gets one. Widens as needed."""
        if len(keys) == 0:
            return np.empty(0, dtype=np.int64)
        lowest, highest = int(keys.min()), int(keys.max())
        if lowest < 0:
            raise ValueError(f"a key is a number from 0 on, not {lowest}")
        if highest >= len(self._column_of):
            self._column_of = _extended(self._column_of, max(highest + 1, 2 * len(self._column_of)), _NOBODY)
        columns = self._column_of[keys]
        strangers = np.unique(keys[columns == _NOBODY])
        if len(strangers):
            self._admit(strangers)
            columns = self._column_of[keys]
        return columns

    def see(self, columns: NDArray[np.int64], sequences: NDArray[np.int64]) -> None:
        """Notes that partials of these numbers have come for these columns."""
        np.maximum.at(self._last_seen, columns, sequences)

    def release(self, first: int) -> NDArray[np.intp]:
        """Forgets the keys that no partial from number `first` on came for. Their columns must be cleared."""
        gone = np.flatnonzero((self._key_of != _NOBODY) & (self._last_seen < first))
        self._column_of[self._key_of[gone]] = _NOBODY
        self._key_of[gone] = _NOBODY
        self._last_seen[gone] = _NEVER
        return gone

    def compact(self) -> NDArray[np.intp] | None:
        """Moves live keys together if they fill less than a quarter: what each new column was before, −1 for none."""
        keys, columns = self.live()
        width = max(FEWEST_COLUMNS, 1 << (2 * len(keys) - 1).bit_length())
        if 4 * len(keys) >= self.width or width >= self.width:
            return None
        self._hold(_extended(keys, width, _NOBODY), _extended(self._last_seen[columns], width, _NEVER))
        return _extended(columns, width, _NOBODY)

    def table(self) -> NDArray[np.int64]:
        """Keys and when they were last seen, by column: all there is to remember."""
        return np.stack((self._key_of, self._last_seen))

    def restore(self, table: NDArray[np.int64]) -> None:
        """Makes these keys what those were that the table is of."""
        keys = table[0]
        self._column_of = np.full(max(FEWEST_COLUMNS, int(keys.max()) + 1), _NOBODY, dtype=np.int64)
        self._hold(keys.copy(), table[1].copy())

    def _hold(self, key_of: NDArray[np.int64], last_seen: NDArray[np.int64]) -> None:
        self._key_of, self._last_seen = key_of, last_seen
        keys, columns = self.live()
        self._column_of[keys] = columns

    def _admit(self, keys: NDArray[np.int64]) -> None:
        """Gives columns to new keys."""
        free = np.flatnonzero(self._key_of == _NOBODY)
        if len(free) < len(keys):
            width = 1 << (self.width - len(free) + len(keys) - 1).bit_length()
            free = np.append(free, np.arange(self.width, width))
            self._key_of = _extended(self._key_of, width, _NOBODY)
            self._last_seen = _extended(self._last_seen, width, _NEVER)
        self._key_of[free[: len(keys)]] = keys
        self._column_of[keys] = free[: len(keys)]


def _extended(values: NDArray[np.int64], length: int, filler: int) -> NDArray[np.int64]:
    extended = np.full(length, filler, dtype=np.int64)
    extended[: len(values)] = values
    return extended
