"""Group keys as numbers: trees keep arrays by number, and only answers need the values again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_HALF = 32

#: So many repetitions are made at once, and repeated as a whole.
_STRETCH = 64


class Numbering:
    """Distinct values in the order in which they were first seen. NULL is a value like others."""

    def __init__(self) -> None:
        self._known: pa.Array | None = None

    def __len__(self) -> int:
        return 0 if self._known is None else len(self._known)

    def numbers(self, values: pa.Array) -> NDArray[np.int64]:
        """The number of each value; one that is new gets the next."""
        if self._known is None:
            self._known = pc.unique(values)
        found = pc.index_in(values, value_set=self._known)
        if found.null_count:
            fresh = pc.unique(values.filter(pc.is_null(found)))
            self._known = pa.concat_arrays([self._known, fresh])
            found = pc.index_in(values, value_set=self._known)
        return np.asarray(found.to_numpy()).astype(np.int64)

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """The values that have these numbers."""
        assert self._known is not None
        return self._known.take(pa.array(numbers))


class _PairNumbering:
    """The same for whole numbers, of which there may be very many: a look-up costs what is looked for.

    They are kept in order beside their numbers. `Numbering` has Arrow put all that are known into a table every time.
    """

    def __init__(self) -> None:
        self._known = np.zeros(0, dtype=np.int64)
        self._ordered, self._numbers = self._known, self._known

    def __len__(self) -> int:
        return len(self._known)

    def numbers(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each value; one that is new gets the next."""
        places = np.searchsorted(self._ordered, values)
        is_known = np.zeros(len(values), dtype=bool)
        inside = places < len(self._ordered)
        is_known[inside] = self._ordered[places[inside]] == values[inside]
        if not is_known.all():
            self._add(values[~is_known])
            places = np.searchsorted(self._ordered, values)
        return np.asarray(self._numbers[places])

    def _add(self, values: NDArray[np.int64]) -> None:
        fresh, first = np.unique(values, return_index=True)
        seen = np.argsort(first)
        numbers = np.empty(len(fresh), dtype=np.int64)
        numbers[seen] = np.arange(len(self), len(self) + len(fresh))
        places = np.searchsorted(self._ordered, fresh)
        self._ordered = np.insert(self._ordered, places, fresh)
        self._numbers = np.insert(self._numbers, places, numbers)
        self._known = np.concatenate([self._known, fresh[seen]])

    def values(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values that have these numbers."""
        return np.asarray(self._known[numbers])


class KeyNumbers:
    """Keys of several columns as one number: the columns' numbers two by two, as in (((a, b), c), d)."""

    def __init__(self, columns: int) -> None:
        self._columns = [Numbering() for _ in range(columns)]
        self._pairs = [_PairNumbering() for _ in range(columns - 1)]

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0]) if self._columns else 1

    def numbers(self, columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.int64]:
        """The numbers of some keys, given column by column. Without columns there is one key, number 0."""
        if not self._columns:
            return np.zeros(rows, dtype=np.int64)
        parts = [each.numbers(_plain(values)) for each, values in zip(self._columns, columns, strict=True)]
        whole = parts[0]
        for part, pairs in zip(parts[1:], self._pairs, strict=True):
            whole = pairs.numbers(whole << _HALF | part)
        return whole

    def values(self, numbers: NDArray[np.int64], times: int = 1) -> list[pa.Array]:
        """The keys that have these numbers, column by column; all of them so many times over."""
        if not self._columns:
            return []
        parts: list[NDArray[np.int64]] = []
        for pairs in reversed(self._pairs):
            both = pairs.values(numbers)
            parts.append(both & ((1 << _HALF) - 1))
            numbers = both >> _HALF
        parts.append(numbers)
        return [_repeated(each.values(part), times) for each, part in zip(self._columns, reversed(parts), strict=True)]


def _repeated(values: pa.Array, times: int) -> pa.Array:
    if times == 1:
        return values
    # A few long arrays are put together sooner than many short ones.
    stretch = pa.concat_arrays([values] * min(times, _STRETCH))
    whole, rest = divmod(times, _STRETCH)
    return pa.concat_arrays([*[stretch] * whole, stretch.slice(0, rest * len(values))])


def _plain(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
