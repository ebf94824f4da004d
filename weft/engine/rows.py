"""How rows look inside the engine.

A relation's rows have its columns by position (c0, c1, …) and their clock. Rows that are kept in a log also know the
cycle they arrived in, and the watermark they are judged by: that of their source after the cycle before.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra import Field, Stream
from weft.algebra.clocks import clock_type
from weft.algebra.types import TIMESTAMP
from weft.engine.expressions import spark_type

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


def clock_bounds(stream: Stream) -> tuple[int, int]:
    """The least and the greatest clock that a row of the stream may have."""
    return _INSTANTS if clock_type(stream) == TIMESTAMP else _ORDINALS


def column(position: int) -> str:
    """The name of a column by position."""
    return f"c{position}"


def clock_sql(stream: Stream, prefix: str = "") -> str:
    """The clock of a stream's row as a whole number, in Spark SQL."""
    position = next(number for number, field in enumerate(stream.fields) if field.name == stream.clock)
    value = f"{prefix}{column(position)}"
    return f"unix_micros({value})" if clock_type(stream) == TIMESTAMP else value


def columns(fields: Sequence[Field], prefix: str = "") -> str:
    """The columns of a relation as the start of a select list, with a comma after it when there are any."""
    return "".join(f"{prefix}{column(position)}, " for position in range(len(fields)))


def struct_type(fields: Sequence[Field]) -> str:
    """The columns of a relation as one Spark struct."""
    listed = (f"{column(position)}: {spark_type(field.type)}" for position, field in enumerate(fields))
    return f"STRUCT<{', '.join(listed)}>"


def log_schema(fields: Sequence[Field], struct: str = "") -> str:
    """The schema of a log as Spark DDL; `struct` names the column that the relation's own columns are in, if any."""
    names = [f"{column(position)} {spark_type(field.type)}" for position, field in enumerate(fields)]
    own = [f"{struct} {struct_type(fields)}"] if struct else names
    return ", ".join([*own, f"{CLOCK} BIGINT", f"{ARRIVAL} BIGINT", f"{BEFORE} BIGINT"])
