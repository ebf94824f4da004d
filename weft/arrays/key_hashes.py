"""Keys as 64-bit hashes: rows with equal keys have equal hashes. The other way round it is only likely.

No key is remembered, and every process gives a key the same hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.arrays.ordinals import Mask, Numbers, is_text_array, ordinals, whole_array

#: Spread over all 64 bits: the multipliers of a well-known mixer of numbers (MurmurHash3's last step).
_FIRST, _SECOND, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)


class KeyHashes:
    """The hashes of keys of the rows of one table; each column is hashed once, in however many keys it is."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._columns: dict[str, tuple[NDArray[np.uint64], Mask]] = {}

    @property
    def bytes_held(self) -> int:
        return sum(hashes.nbytes + valid.nbytes for hashes, valid in self._columns.values())

    def of(self, columns: Sequence[str]) -> tuple[Numbers, Mask]:
        """The hash of each row's key, and which rows have all columns of it: NULL is equal to nothing."""
        hashes = np.zeros(self._table.num_rows, dtype=np.uint64)
        present = np.ones(self._table.num_rows, dtype=bool)
        for column in columns:
            hashes_of_column, valid = self.of_column(column)
            hashes = _mixed(hashes ^ hashes_of_column)
            present &= valid
        return hashes.view(np.int64), present

    def of_column(self, column: str) -> tuple[NDArray[np.uint64], Mask]:
        """The hash of each row's value in a column, spread over all 64 bits, and which rows have one."""
        if column not in self._columns:
            values = self._table[column]
            self._columns[column] = _hashes(values), np.asarray(pc.is_valid(values))
        return self._columns[column]


def _hashes(values: pa.ChunkedArray) -> NDArray[np.uint64]:
    if not is_text_array(values.type):
        return _mixed(ordinals(values)[0].view(np.uint64))
    encoded = whole_array(values).dictionary_encode()
    # Python's own hash is another one in every process, and with it the order of answers would be.
    distinct = np.array([0, *map(_hash, encoded.dictionary.to_pylist())], dtype=np.uint64)
    return np.asarray(distinct[1 + np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), -1))])


def _hash(value: str | bytes) -> int:
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> _HALF)) * _FIRST
    numbers = (numbers ^ (numbers >> _HALF)) * _SECOND
    return numbers ^ (numbers >> _HALF)
