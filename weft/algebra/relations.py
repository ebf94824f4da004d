"""Streams, windows and the relations that queries are made of.

Every row of every relation has a clock, whether or not a column shows it:

    a row of a stream            its clock column
    a selection's row            the clock of the row it came from
    a joined row                 the largest clock among the rows it joins
    a windowed answer            the end of its window
    an UNBOUNDED aggregate's     the largest clock in the group so far

and every relation has a watermark: its stream's, or the least of its inputs'. The rows of a table have no clock, and
tables no watermark: they take no part in any of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from weft.algebra.expressions import Aggregate, Expression
from weft.algebra.types import DataType

#: Names of the columns that a windowed answer carries.
WINDOW_START = "window_start"
WINDOW_END = "window_end"


@dataclass(frozen=True, slots=True)
class Field:
    """A named, typed column."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Window:
    """Instance k covers the clock values [origin + k·slide, origin + k·slide + range).

    On a join's input it says which rows meet: those that are together inside (τ − range, τ] of their windows at some
    instant τ = origin + k·slide. A slide of 1 makes every clock value an instant; `[NOW]` is a range of one tick.
    `range` is None for UNBOUNDED, a window that never closes.
    """

    range: int | None
    slide: int = 1
    origin: int = 0

    @property
    def is_unbounded(self) -> bool:
        return self.range is None


UNBOUNDED = Window(range=None)


@dataclass(frozen=True, slots=True)
class Stream:
    """A source of rows: where they come from, their columns, their clock and how late they may be.

    `clock` names a TIMESTAMP or BIGINT column; `delay` is in ticks of that clock (microseconds, or ordinals).
    `backfill` says how much history, in ticks, is kept for queries that are created later. `shed_allowed` says that
    rows may be left out when cycles keep falling behind.
    """

    name: str
    fields: tuple[Field, ...]
    clock: str
    delay: int
    format: str
    options: tuple[tuple[str, str], ...] = ()
    backfill: int = 0
    shed_allowed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows that do not flow: read when a project starts to run, and the same until it stops.

    They have no clock. What reads a table also reads something that flows, and is joined with it.
    """

    name: str
    fields: tuple[Field, ...]
    format: str
    options: tuple[tuple[str, str], ...] = ()


class Emission(Enum):
    """What the rows of a relation are; the larger the number, the less may be done with them.

    Rows are emitted once. An aggregate that never closes emits versions of its groups: a group is emitted again
    whenever a row comes to it. Where only its keys are emitted, that is the same row repeated.
    """

    ROWS = 0
    REPEATED = 1
    VERSIONS = 2


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of another continuous query, read as a stream in the cycle that produces them.

    `clock` names the output column that shows the clock, or is None when no column does. `emission` says what its rows
    are.
    """

    query: str
    fields: tuple[Field, ...]
    clock: str | None
    clock_type: DataType
    emission: Emission = Emission.ROWS


@dataclass(frozen=True, slots=True)
class Input:
    """One item of FROM. `window` is set only where several inputs flow: it says which of their rows may meet."""

    source: Source
    alias: str
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the select list."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Retain:
    """How long rows are remembered by DISTINCT and the set operators when there is no window; None is UNBOUNDED."""

    ticks: int | None


@dataclass(frozen=True, slots=True)
class Select:
    """SELECT … FROM … WHERE … GROUP BY … HAVING …

    - One input, no `window`: every row that satisfies `where` passes, at once.
    - Several inputs: combinations of rows that meet (`Input.window`, or bounds on clocks in `where`) and satisfy
      `where`, each emitted once, when the last of its rows has arrived. Rows of tables meet all rows, at any time.
    - A `window` without aggregates: each row once for every window instance that covers it, when the instance closes.
    - `aggregates` or `keys`: one row per group and window instance when it closes; with an UNBOUNDED window, one row
      for each group that changed in a cycle.

    `having` and `outputs` of a grouped select are expressions over KeyRef, AggregateRef and WindowBound.
    """

    inputs: tuple[Input, ...]
    where: Expression | None
    outputs: tuple[Output, ...]
    clock_type: DataType
    window: Window | None = None
    keys: tuple[Expression, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: Expression | None = None
    distinct: bool = False
    retain: Retain | None = None
    emit_empty: bool = False

    @property
    def is_grouped(self) -> bool:
        return bool(self.keys or self.aggregates)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(output.name, output.expression.type) for output in self.outputs)

    @property
    def flowing(self) -> tuple[Input, ...]:
        """The inputs whose rows arrive: all that are not tables."""
        return tuple(each for each in self.inputs if not isinstance(each.source, Table))

    @property
    def is_bounded(self) -> bool:
        """Whether rows of several inputs meet for a time, so that they expire and may come too late."""
        flowing = self.flowing
        return len(flowing) > 1 and any(each.window is None or not each.window.is_unbounded for each in flowing)


class SetOperator(Enum):
    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two relations with the same column types; the names are those of the left one.

    `window` is the window that both operands have: then the operator applies to each instance, when it closes.
    Without one it applies to the history that `retain` bounds (UNION ALL needs none: it passes rows through).
    """

    operator: SetOperator
    all: bool
    left: Relation
    right: Relation
    fields: tuple[Field, ...]
    clock_type: DataType
    window: Window | None = None
    retain: Retain | None = None


Relation: TypeAlias = Select | SetOperation
Source: TypeAlias = Stream | Table | Answers | Select | SetOperation


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a query's answers are written, besides being readable by name."""

    format: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """A registered continuous query, with every name and type resolved.

    `clock` names the output column that shows the rows' clock, or is None when no column does.
    """

    name: str
    relation: Relation
    clock: str | None
    text: str = ""
    sharing: bool = True
    sink: Sink | None = None


@dataclass(frozen=True, slots=True)
class View:
    """A named relation that queries may read; binding such a query copies the relation into it."""

    name: str
    text: str
    relation: Relation


#: What can be registered under a name.
Definition: TypeAlias = Stream | Table | View | Query
