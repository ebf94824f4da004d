"""Many selects in one Spark job, as one UNION ALL: their columns share slots (`weft/runtime/columnar/rows.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra import Field
from weft.arrays.arrow_types import to_outside
from weft.expressions.spark_expressions import column, spark_type
from weft.runtime.columnar.rows import typed_slots, typed_slots_of_all

_SELECT = "q"


@dataclass(frozen=True)
class Packed:
    """A select over its columns c0, c1, …, by a name of its own."""

    name: str
    fields: tuple[Field, ...]
    text: str

    @property
    def types(self) -> list[str]:
        return [spark_type(field.type) for field in self.fields]


def pack(selects: Sequence[Packed]) -> str:
    """One select with the rows of all, each with the number of its select."""
    slots = typed_slots_of_all(each.types for each in selects)
    return " UNION ALL ".join(_in_slots(number, each, slots) for number, each in enumerate(selects))


def _in_slots(number: int, select: Packed, slots: Sequence[tuple[str, int]]) -> str:
    own = {slot: column(position) for position, slot in enumerate(typed_slots(select.types))}
    listed = [f"{own.get(slot, f'CAST(NULL AS {slot[0]})')} AS x{index}" for index, slot in enumerate(slots)]
    return f"SELECT {', '.join([f'{number} AS {_SELECT}', *listed])} FROM ({select.text})"


def unpacked(selects: Sequence[Packed], table: pa.Table) -> dict[str, pa.Table]:
    """The rows of each select that has any, with its own column names, from the result of the packed select."""
    index = {slot: f"x{index}" for index, slot in enumerate(typed_slots_of_all(each.types for each in selects))}
    result = {}
    for number, each in enumerate(selects):
        rows = table.filter(pc.equal(table[_SELECT], number))
        if rows.num_rows:
            columns = zip(typed_slots(each.types), each.fields, strict=True)
            arrays = [to_outside(rows[index[slot]], field.type) for slot, field in columns]
            result[each.name] = pa.table(arrays, names=[field.name for field in each.fields])
    return result
