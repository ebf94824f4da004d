"""The answers of all queries in one Spark job: many schemas packed into one.

Each query's columns go into *slots* by type. A query with two DOUBLEs and a STRING uses the first two DOUBLE slots and
the first STRING slot; the others are NULL. So one UNION ALL carries every query, and no value changes its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra import Field
from weft.algebra.types import INTERVAL
from weft.runtime.columnar.expressions import spark_type
from weft.runtime.columnar.rows import column

_QUERY = "q"


@dataclass(frozen=True)
class Packed:
    """A query's answers as a select over its columns c0, c1, …"""

    name: str
    fields: tuple[Field, ...]
    text: str


def pack(queries: Sequence[Packed]) -> str:
    """One select with the answers of all queries."""
    slots = _slots(queries)
    return " UNION ALL ".join(_packed(number, each, slots) for number, each in enumerate(queries))


def _slots(queries: Sequence[Packed]) -> list[tuple[str, int]]:
    """The slots, as (type, number among those of its type), that the widest query of each type needs."""
    slots: dict[tuple[str, int], None] = {}
    for each in queries:
        slots.update(dict.fromkeys(_slots_of(each)))
    return list(slots)


def _slots_of(query: Packed) -> list[tuple[str, int]]:
    taken: dict[str, int] = {}
    slots = []
    for field in query.fields:
        type_ = spark_type(field.type)
        slots.append((type_, taken.get(type_, 0)))
        taken[type_] = taken.get(type_, 0) + 1
    return slots


def _packed(number: int, query: Packed, slots: Sequence[tuple[str, int]]) -> str:
    own = {slot: position for position, slot in enumerate(_slots_of(query))}
    listed = [
        f"{column(own[slot])} AS x{index}" if slot in own else f"CAST(NULL AS {slot[0]}) AS x{index}"
        for index, slot in enumerate(slots)
    ]
    return f"SELECT {', '.join([f'{number} AS {_QUERY}', *listed])} FROM ({query.text})"


def unpacked(queries: Sequence[Packed], table: pa.Table) -> dict[str, pa.Table]:
    """Each query's answers with its own column names, from the result of the packed select."""
    slots = {slot: index for index, slot in enumerate(_slots(queries))}
    answers = {}
    for number, each in enumerate(queries):
        rows = table.filter(pc.equal(table[_QUERY], number))
        if rows.num_rows:
            arrays = [
                _shown(rows[f"x{slots[slot]}"], field) for slot, field in zip(_slots_of(each), each.fields, strict=True)
            ]
            answers[each.name] = pa.table(arrays, names=[field.name for field in each.fields])
    return answers


def held(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Values of an answer as the engine holds them: the other way round of what is shown."""
    return values.cast(pa.int64()) if field.type == INTERVAL else values


def _shown(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Intervals are numbers inside the engine and durations outside."""
    return values.cast(pa.duration("us")) if field.type == INTERVAL else values
