"""Rows as bytes that are equal when the rows are, rows numbered by their bytes, and keys as 64-bit hashes.

Two rows are equal in all columns, as SQL has it, iff their bytes are:

    nulls     one bit for each column
    fixed     numbers, dates, times and truth values as they are stored; of texts and bytes the length
    the rest  texts and bytes, one after the other

A row (7, NULL, 'abc') of an INT, a BIGINT and a STRING:

    40 │ 07 00 00 00 │ 00 00 00 00 00 00 00 00 │ 03 00 00 00 │ 61 62 63

NULLs are equal, so a NULL has zeros for a value. NaNs are equal and -0.0 is 0.0, so each has one form.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.arrays.ordinals import (
    Mask,
    Numbers,
    decimal_words,
    distinct_texts,
    is_text_array,
    ordinals,
    positions_in_ranges,
)

Bytes = NDArray[np.uint8]

_LENGTH = np.dtype(np.uint32)
#: The separator of the parts of a row.
_NOTHING = pa.scalar(b"", pa.large_binary())

#: About what Python needs for a number, and for a string of bytes beside the bytes themselves.
_INTEGER, _BYTES = 32, sys.getsizeof(b"") + 8


@dataclass(frozen=True)
class RowEncoding:
    """How rows of some columns become bytes, and come back from them."""

    columns: tuple[pa.Field, ...]

    def encoded(self, rows: pa.Table) -> pa.LargeBinaryArray:
        arrays = [_whole(rows[each.name]) for each in self.columns]
        nulls = np.stack([np.asarray(each.is_null()) for each in arrays], axis=1)
        fixed = np.concatenate([np.packbits(nulls, axis=1), *(_fixed(each) for each in arrays)], axis=1)
        texts = [_filled(each, b"") for each in arrays if is_text_array(each.type)]
        return pc.binary_join_element_wise(_binary(fixed), *texts, _NOTHING) if texts else _binary(fixed)

    def decoded(self, encoded: Sequence[bytes]) -> list[pa.Array]:
        """The columns of the rows that have these bytes."""
        rows = len(encoded)
        data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        lengths = np.fromiter(map(len, encoded), np.int64, rows)
        begins = np.cumsum(lengths) - lengths
        head = (len(self.columns) + 7) // 8
        nulls = np.unpackbits(_gathered(data, begins, head), axis=1)[:, : len(self.columns)].astype(bool)
        place, texts, result = begins + head, begins + head + sum(_width(each.type) for each in self.columns), []
        for position, each in enumerate(self.columns):
            width = _width(each.type)
            fixed = _gathered(data, place, width)
            place = place + width
            if is_text_array(each.type):
                lengths = fixed.view(_LENGTH).reshape(rows).astype(np.int64)
                result.append(_text(data, texts, lengths, nulls[:, position], each.type))
                texts = texts + lengths
            else:
                result.append(_value(fixed, nulls[:, position], each.type))
        return result


def _width(type_: pa.DataType) -> int:
    """How many bytes the fixed part of a value takes."""
    if pa.types.is_null(type_):
        return 0
    if is_text_array(type_):
        return _LENGTH.itemsize
    return 1 if pa.types.is_boolean(type_) else int(type_.byte_width)


def _whole(values: pa.ChunkedArray) -> pa.Array:
    # Chunks of texts can be more than one array with offsets of 32 bits has room for.
    return (values.cast(pa.large_binary()) if is_text_array(values.type) else values).combine_chunks()


def _fixed(values: pa.Array) -> Bytes:
    """The fixed part of each value, as a row of bytes."""
    width, type_ = _width(values.type), values.type
    if not width or not len(values):
        return np.empty((len(values), width), dtype=np.uint8)
    if is_text_array(type_):
        numbers = np.asarray(pc.binary_length(_filled(values, b""))).astype(_LENGTH)
    elif pa.types.is_decimal(type_):
        numbers = np.where(np.asarray(values.is_valid())[:, None], decimal_words(values), 0)
    elif pa.types.is_boolean(type_):
        numbers = np.asarray(_filled(values, False)).astype(np.uint8)
    elif pa.types.is_floating(type_):
        floats = np.asarray(_filled(values, 0.0))
        numbers = np.where(np.isnan(floats), floats.dtype.type(np.nan), floats + floats.dtype.type(0.0))
    else:
        numbers = np.asarray(
            _filled(values.view({1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[width]), 0)
        )
    return np.ascontiguousarray(numbers).view(np.uint8).reshape(len(values), width)


def _filled(values: pa.Array, nothing: bytes | float) -> pa.Array:
    return values.fill_null(nothing) if values.null_count else values


def _binary(fixed: Bytes) -> pa.LargeBinaryArray:
    rows, width = fixed.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(fixed))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows, buffers)


def _gathered(data: Bytes, places: Numbers, width: int) -> Bytes:
    """`width` bytes from each place on, as rows."""
    return np.asarray(data[places[:, None] + np.arange(width)])


def _text(data: Bytes, places: Numbers, lengths: Numbers, nulls: Mask, type_: pa.DataType) -> pa.Array:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    content = data[positions_in_ranges(places, lengths)]
    buffers = [_validity(nulls), pa.py_buffer(offsets), pa.py_buffer(content)]
    wide = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(nulls), buffers)
    return wide.cast(type_)


def _value(fixed: Bytes, nulls: Mask, type_: pa.DataType) -> pa.Array:
    if pa.types.is_null(type_):
        return pa.nulls(len(nulls))
    if pa.types.is_boolean(type_):
        return pa.array(fixed.reshape(-1).astype(bool), mask=nulls)
    return pa.Array.from_buffers(type_, len(nulls), [_validity(nulls), pa.py_buffer(np.ascontiguousarray(fixed))])


def _validity(nulls: Mask) -> pa.Buffer | None:
    return pa.array(~nulls).buffers()[1] if nulls.any() else None


class RowNumbers:
    """Distinct rows, numbered from 0 on in the order in which they were first seen.

    The bytes of a row are looked up in a dictionary, so to number the rows of a cycle costs what is new, and rows can
    be forgotten.
    """

    def __init__(self, columns: Sequence[pa.Field]) -> None:
        self._encoding = RowEncoding(tuple(columns))
        self._begin([])

    def _begin(self, encoded: Sequence[bytes]) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(None, zip(encoded, range(len(encoded)), strict=True))
        self._numbers.default_factory = self._numbers.__len__
        self._content = sum(map(len, encoded))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def bytes_held(self) -> int:
        return sys.getsizeof(self._numbers) + self._content + len(self) * (_INTEGER + _BYTES)

    def numbers(self, rows: pa.Table) -> Numbers:
        """The number of each row; one that is new gets the next."""
        distinct = self._encoding.encoded(rows).dictionary_encode()
        encoded = distinct.dictionary.to_numpy(zero_copy_only=False)
        before = len(self)
        numbers = np.fromiter(map(self._numbers.__getitem__, encoded), np.int64, len(encoded))
        self._content += sum(map(len, encoded[numbers >= before]))
        return np.asarray(numbers[np.asarray(distinct.indices)])

    def columns(self, which: Mask) -> list[pa.Array]:
        """The columns of some values, in the order of their numbers."""
        return self._encoding.decoded(list(compress(self._numbers, which)))

    def keep(self, which: Mask) -> None:
        """Leave out all values but some. These get new numbers, in the order that they had."""
        self._begin(list(compress(self._numbers, which)))


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
    codes, texts = distinct_texts(values)
    # Python's own hash is another one in every process, and with it the order of answers would be.
    return np.array([*map(_hash, texts), 0], dtype=np.uint64)[codes]


def _hash(value: str | bytes) -> int:
    data = value.encode() if isinstance(value, str) else value
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    numbers = (numbers ^ (numbers >> _HALF)) * _FIRST
    numbers = (numbers ^ (numbers >> _HALF)) * _SECOND
    return numbers ^ (numbers >> _HALF)
