"""Expressions: typed, frozen trees without names left to resolve.

Every operator, function and cast is one `Call`; what the operators are is written down in `weft/sql/functions.py`.
An expression that cannot be computed for a row (division by zero, an overflow, a cast that fails) is NULL: one bad row
must not stop a stream that a thousand queries read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TypeAlias

from weft.algebra.types import DataType

#: A literal's value. TIMESTAMP and INTERVAL literals are integers (microseconds), DECIMAL literals are Decimal.
Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | None


@dataclass(frozen=True, slots=True)
class Column:
    """Column `name` of the input whose alias is `source`."""

    source: str
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """The operator or function `op` applied to `args`.

    CASE is `case(condition, value, …, default)`, x IN (a, b) is `in(x, a, b)`, CAST(x AS t) is `cast(x)` of type t.
    """

    op: str
    args: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class KeyRef:
    """In what is computed after grouping: the value of grouping key number `index`."""

    index: int
    type: DataType


@dataclass(frozen=True, slots=True)
class AggregateRef:
    """In what is computed after grouping: the result of aggregate number `index`."""

    index: int
    type: DataType


@dataclass(frozen=True, slots=True)
class WindowBound:
    """The start (inclusive) or the end (exclusive) of the window instance that a row is computed for."""

    end: bool
    type: DataType


Expression: TypeAlias = Column | Literal | Call | KeyRef | AggregateRef | WindowBound


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate function over the rows of a group.

    `args` is empty for COUNT(*). PERCENTILE carries its fraction as a second, literal argument.
    """

    function: str
    args: tuple[Expression, ...]
    type: DataType
    distinct: bool = False
