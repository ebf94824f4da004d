"""The types of columns and expressions.

The names are Spark's, with one addition: HUGEINT, the type of an integer SUM. Spark's own SUM(BIGINT) is a BIGINT and
fails when it overflows; ours widens. In files and on the wire a HUGEINT is a DECIMAL(38, 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The family a type belongs to; everything but DECIMAL has one type per kind."""

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    HUGEINT = "HUGEINT"
    DECIMAL = "DECIMAL"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"


@dataclass(frozen=True, slots=True)
class DataType:
    """A column type. `precision` and `scale` are used by DECIMAL alone.

    A TIMESTAMP is a number of microseconds since the epoch (UTC); an INTERVAL is a number of microseconds.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return str(self.kind.value)

    @property
    def is_integer(self) -> bool:
        return self.kind in _INTEGERS

    @property
    def is_numeric(self) -> bool:
        return self.kind in _INTEGERS or self.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_floating(self) -> bool:
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)


_INTEGERS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.HUGEINT})

NULL = DataType(Kind.NULL)
BOOLEAN = DataType(Kind.BOOLEAN)
TINYINT = DataType(Kind.TINYINT)
SMALLINT = DataType(Kind.SMALLINT)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
HUGEINT = DataType(Kind.HUGEINT)
FLOAT = DataType(Kind.FLOAT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BINARY = DataType(Kind.BINARY)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
INTERVAL = DataType(Kind.INTERVAL)


def decimal(precision: int, scale: int) -> DataType:
    """The type DECIMAL(precision, scale)."""
    return DataType(Kind.DECIMAL, precision, scale)
