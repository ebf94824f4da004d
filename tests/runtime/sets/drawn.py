"""Random relations and rows for the set operators, in few values of every type, so that many of them are equal."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.oracle import Row
from weft.algebra import Column, Field, Input, Output, Retain, Select, SetOperation, SetOperator, Stream, Value, Window
from weft.algebra import types as t
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.sets.set_rows import rows_schema

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A NaN with a sign and a payload.
_ODD_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]

VALUES: dict[t.DataType, tuple[Value, ...]] = {
    t.NULL: (None,),
    t.BOOLEAN: (None, True, False),
    t.TINYINT: (None, 0, -128, 127),
    t.SMALLINT: (None, 0, 1, -(2**15)),
    t.INT: (None, 0, 256, -1),
    t.BIGINT: (None, 0, 2**63 - 1, -(2**63)),
    t.HUGEINT: (None, 0, 10**38 - 1, -(2**64), 2**64),
    t.decimal(5, 2): (None, Decimal("0.00"), Decimal("1.20"), Decimal("-999.99")),
    t.decimal(38, 10): (None, Decimal("0E-10"), Decimal("100000000000000000000.0000000000"), Decimal("-1E-10")),
    t.FLOAT: (None, 0.0, -0.0, 1.5, math.nan, _ODD_NAN, math.inf),
    t.DOUBLE: (None, 0.0, -0.0, 1.5, math.nan, _ODD_NAN, -math.inf),
    t.STRING: (None, "", "a", "ab", "a\0", "ü"),
    t.BINARY: (None, b"", b"\0", b"\0\0", b"a"),
    t.DATE: (None, date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    t.TIMESTAMP: (None, 0, -1, 1_700_000_000_000_001),
    t.INTERVAL: (None, 0, -1, 3_600_000_000),
}


def random_fields(random: Random, most: int = 4) -> tuple[Field, ...]:
    """The columns of a relation; now and then so many that their NULLs take more than a byte."""
    count = 11 if random.random() < 0.1 else random.randint(1, most)
    return tuple(Field(f"x{position}", random.choice(list(VALUES))) for position in range(count))


def random_values(random: Random, fields: Sequence[Field]) -> tuple[Value, ...]:
    # Wide rows would hardly ever be equal.
    pools = [VALUES[field.type] for field in fields]
    return tuple(pool[0] if len(fields) > 4 and random.random() < 0.9 else random.choice(pool) for pool in pools)


def random_rows(
    random: Random, fields: Sequence[Field], most: int, clocks: range, known: Sequence[Row] = ()
) -> list[Row]:
    """Some rows, often with the values of others that are known already."""
    rows: list[Row] = []
    for _ in range(random.randint(0, most)):
        earlier = [*known, *rows]
        again = bool(earlier) and random.random() < 0.5
        values = random.choice(earlier).values if again else random_values(random, fields)
        rows.append(Row(values, random.choice(clocks), 0))
    return rows


def table(rows: Iterable[Row], fields: Sequence[Field]) -> pa.Table:
    """Rows as operands give them."""
    schema, listed = rows_schema(fields), list(rows)
    values = list(zip(*(row.values for row in listed), strict=True)) or [()] * len(fields)
    columns = [pa.array(list(column), field.type) for column, field in zip(values, schema, strict=False)]
    return pa.table([*columns, pa.array([row.clock for row in listed], pa.int64())], schema=schema)


def chunked(random: Random, rows: pa.Table) -> pa.Table:
    """The same rows as Arrow may have them too: a slice, and in several chunks."""
    if random.random() < 0.5 or not rows.num_rows:
        return rows
    longer = pa.concat_tables([rows.slice(rows.num_rows - 1), rows]).combine_chunks().slice(1)
    if random.random() < 0.5:
        return longer
    middle = random.randint(0, rows.num_rows)
    return pa.concat_tables([longer.slice(0, middle), longer.slice(middle)])


def rows_of(rows: pa.Table | None, fields: Sequence[Field]) -> list[tuple[tuple[Value, ...], int]]:
    """What an operator has emitted, in the oracle's values."""
    if rows is None:
        return []
    columns = [[_value(each, field) for each in rows[position].to_pylist()] for position, field in enumerate(fields)]
    return list(zip(zip(*columns, strict=True), rows[CLOCK].to_pylist(), strict=True))


def _value(value: Any, field: Field) -> Value:
    if value is None:
        return None
    if field.type == t.TIMESTAMP:
        return (value - _EPOCH) // timedelta(microseconds=1)
    return int(value) if field.type == t.HUGEINT else value


def shown(emitted: Iterable[tuple[tuple[Value, ...], int]]) -> list[Any]:
    """Rows as texts, which tell -0.0 from 0.0 and do not tell NaNs apart."""
    return [(repr(values), clock) for values, clock in emitted]


def select(fields: tuple[Field, ...], *, window: Window | None = None, retain: Retain | None = None) -> Select:
    """SELECT [DISTINCT] x0, x1, … FROM s."""
    stream = Stream("s", (Field("n", t.BIGINT), *fields), "n", 0, "memory")
    outputs = tuple(Output(field.name, Column("s", field.name, field.type)) for field in fields)
    return Select(
        (Input(stream, "s"),), None, outputs, t.BIGINT, window=window, distinct=retain is not None, retain=retain
    )


def operation(
    operator: SetOperator,
    fields: tuple[Field, ...],
    *,
    keep_all: bool = False,
    window: Window | None = None,
    retain: Retain | None = None,
) -> SetOperation:
    """One SELECT and another."""
    operand = select(fields, window=window)
    return SetOperation(operator, keep_all, operand, operand, fields, t.BIGINT, window, retain)
