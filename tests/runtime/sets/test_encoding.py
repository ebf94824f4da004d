"""Rows as bytes, and as numbers."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from tests.oracle import Row
from tests.oracle_values import row_key
from tests.runtime.sets.drawn import VALUES, chunked, random_fields, random_values, rows_of, table
from weft.algebra import DataType, Field
from weft.algebra.types import DOUBLE, STRING
from weft.arrays.row_keys import RowEncoding, RowNumbers
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.sets.set_rows import rows_schema


@pytest.mark.parametrize("seed", range(100))
def test_rows_have_the_same_bytes_exactly_if_they_are_equal_and_come_back_from_them(seed: int) -> None:
    random = Random(seed)
    fields = random_fields(random)
    schema = rows_schema(fields).remove(len(fields))
    rows = [Row(random_values(random, fields), 0, 0) for _ in range(random.randint(0, 40))]
    encoding = RowEncoding(tuple(schema))
    encoded = encoding.encoded(chunked(random, table(rows, fields))).to_pylist()
    for bytes_, row in zip(encoded, rows, strict=True):
        for others, other in zip(encoded, rows, strict=True):
            assert (bytes_ == others) == (row_key(row.values) == row_key(other.values))
    columns = [*encoding.decoded(encoded), pa.array(np.zeros(len(rows), dtype=np.int64))]
    back = rows_of(pa.table(columns, schema=rows_schema(fields)), fields)
    assert [row_key(values) for values, _ in back] == [row_key(row.values) for row in rows]


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_every_value_of_every_type_comes_back(type_: DataType) -> None:
    fields = (Field("x", type_),)
    rows = [Row((value,), 0, 0) for value in VALUES[type_]]
    encoding = RowEncoding((rows_schema(fields).field(0),))
    (column,) = encoding.decoded(encoding.encoded(table(rows, fields)).to_pylist())
    back = rows_of(pa.table({"c0": column, CLOCK: pa.array([0] * len(rows))}), fields)
    assert [row_key(values) for values, _ in back] == [row_key(row.values) for row in rows]


def test_texts_do_not_run_into_each_other() -> None:
    fields = (Field("x", STRING), Field("y", STRING))
    rows = [Row(values, 0, 0) for values in (("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("abc", None))]
    encoding = RowEncoding(tuple(rows_schema(fields))[:2])
    assert len(set(encoding.encoded(table(rows, fields)).to_pylist())) == 5


@pytest.mark.parametrize("type_", [each for each in VALUES if VALUES[each] != (None,)], ids=str)
def test_what_lies_under_a_null_does_not_count(type_: DataType) -> None:
    fields = (Field("x", type_),)
    some = table([Row((value,), 0, 0) for value in VALUES[type_] if value is not None], fields)["c0"].chunk(0)
    nothing = pa.array([False] * len(some)).buffers()[1]
    hidden = pa.Array.from_buffers(some.type, len(some), [nothing, *some.buffers()[1:]])
    encoded = RowEncoding((rows_schema(fields).field(0),)).encoded(pa.table({"c0": hidden}))
    assert len(set(encoded.to_pylist())) == 1


def test_numbers_are_given_once_and_go_on_after_values_are_left_out() -> None:
    fields = (Field("x", DOUBLE), Field("y", STRING))
    values = RowNumbers(tuple(rows_schema(fields))[:2])

    def numbers(*rows: tuple[float | None, str | None]) -> list[int]:
        return values.numbers(table([Row(row, 0, 0) for row in rows], fields)).tolist()

    assert numbers((1.0, "a"), (None, None), (1.0, "a"), (0.0, "")) == [0, 1, 0, 2]
    assert numbers((-0.0, ""), (2.0, "b"), (None, None)) == [2, 3, 1]
    held = values.bytes_held
    values.keep(np.array([False, True, False, True]))
    assert [column.to_pylist() for column in values.columns(np.array([True, True]))] == [[None, 2.0], [None, "b"]]
    assert values.bytes_held < held
    assert numbers((2.0, "b"), (1.0, "a"), (None, None)) == [1, 2, 0]
