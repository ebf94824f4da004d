"""How rows look inside the engine.

A relation's rows have its columns by position (c0, c1, …) and their clock. Rows that are kept in a log also know the
cycle they arrived in, and the watermark they are judged by: that of their source after the cycle before.

Rows of several streams together are *tagged*: they have the number of their stream, and their values in *slots*. A
stream with two DOUBLEs and a STRING uses the first two slots for DOUBLEs and the first one for STRINGs. So rows of
hundreds of streams are as wide as the widest of them, and no value changes its type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from weft.algebra import Field, Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.expressions.spark_expressions import column, spark_type

if TYPE_CHECKING:
    import pyarrow as pa

Type = TypeVar("Type", bound=Hashable)

CLOCK = "_clock"
ARRIVAL = "_arrival"
BEFORE = "_before"

#: The column of a batch that says which stream a row belongs to, and the one that holds the text of an unreadable row.
STREAM = "_stream"
CORRUPT = "_corrupt"
#: The column that carries the time of a heartbeat, in microseconds.
TICK = "_tick"

#: Clocks that leave room for the arithmetic of windows: the years 1 to 9999, and ordinals of up to 62 bits.
_INSTANTS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_ORDINALS = (-(2**62), 2**62)


def clock_bounds(stream: Stream, latest: int | None = None) -> tuple[int, int]:
    """The least and the greatest clock that a row of the stream may have; `latest` is the last TIMESTAMP believed."""
    if clock_type(stream) != TIMESTAMP:
        return _ORDINALS
    least, most = _INSTANTS
    return least, most if latest is None else min(most, latest)


def clock_sql(stream: Stream, *, tagged: bool = False) -> str:
    """The clock of a stream's row, or of a tagged one, as a whole number, in Spark SQL."""
    position = next(number for number, field in enumerate(stream.fields) if field.name == stream.clock)
    value = slots(stream.fields)[position] if tagged else column(position)
    return f"unix_micros({value})" if clock_type(stream) == TIMESTAMP else value


def bucket_sql(ticks: str, width: int) -> str:
    """Ticks divided by a width and rounded down: SQL's own division rounds towards zero, wrong for negative clocks."""
    return f"(({ticks} - pmod({ticks}, {width}L)) div {width}L)"


def columns(fields: Sequence[Field]) -> str:
    """The columns of a relation as the start of a select list, with a comma after it when there are any."""
    return "".join(f"{column(position)}, " for position in range(len(fields)))


def typed_slots(types: Iterable[Type]) -> list[tuple[Type, int]]:
    """The slot of each column of one schema: its type, and a number among the columns of that type."""
    taken: Counter[Type] = Counter()
    slots = []
    for type_ in types:
        slots.append((type_, taken[type_]))
        taken[type_] += 1
    return slots


def typed_slots_of_all(schemas: Iterable[Iterable[Type]]) -> list[tuple[Type, int]]:
    """The slots that some schemas need together."""
    return list(dict.fromkeys(slot for types in schemas for slot in typed_slots(types)))


def slots(fields: Sequence[Field]) -> list[str]:
    """The slots that the columns of a relation have in tagged rows."""
    types = (re.sub(r"\W+", "_", spark_type(field.type).lower()).strip("_") for field in fields)
    return [f"{type_}_{number}" for type_, number in typed_slots(types)]


def slots_of(streams: Iterable[Stream]) -> dict[str, str]:
    """The slots that the rows of some streams need together, with their types."""
    return {
        slot: spark_type(field.type)
        for stream in streams
        for slot, field in zip(slots(stream.fields), stream.fields, strict=True)
    }


def log_schema(fields: Sequence[Field], *, tagged: bool = False) -> str:
    """The schema of a log as Spark DDL; its columns are in slots if ingesting wrote them as `tagged` rows."""
    names = slots(fields) if tagged else [column(position) for position in range(len(fields))]
    own = [f"{name} {spark_type(field.type)}" for name, field in zip(names, fields, strict=True)]
    return ", ".join([*own, f"{CLOCK} BIGINT", f"{ARRIVAL} BIGINT", f"{BEFORE} BIGINT"])


# -- many selects in one Spark job, as one UNION ALL -------------------------------------------------------------------


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
    return f"SELECT {', '.join([f'{number} AS q', *listed])} FROM ({select.text})"


def unpacked(selects: Sequence[Packed], table: pa.Table) -> dict[str, pa.Table]:
    """The rows of each select that has any, with its own column names, from the result of the packed select."""
    # Not with the module: statistics need nothing of it but names.
    import pyarrow as pa
    import pyarrow.compute as pc

    from weft.arrays.arrow_types import to_outside

    index = {slot: f"x{index}" for index, slot in enumerate(typed_slots_of_all(each.types for each in selects))}
    result = {}
    for number, each in enumerate(selects):
        rows = table.filter(pc.equal(table["q"], number))
        if rows.num_rows:
            columns = zip(typed_slots(each.types), each.fields, strict=True)
            arrays = [to_outside(rows[index[slot]], field.type) for slot, field in columns]
            result[each.name] = pa.table(arrays, names=[field.name for field in each.fields])
    return result
