"""What random queries are made from: what is drawn, what FROM reads, what a select list holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis.strategies import DrawFn

from tests.support.generator_expressions import ColumnText, one_in
from weft.algebra import DataType
from weft.algebra.types import TIMESTAMP


@dataclass(frozen=True)
class Grammar:
    """Which constructs are drawn, and how large they grow."""

    selections: bool = True
    windowed_selections: bool = True
    windowed_aggregates: bool = True
    unbounded_aggregates: bool = True
    emit_empty: bool = True
    joins: bool = True
    joins_with_tables: bool = True
    join_inputs: int = 3
    aggregates_over_joins: bool = True
    distinct: bool = True
    windowed_set_operators: bool = True
    set_operators_over_history: bool = True
    subqueries: int = 1
    holistic: bool = True
    approximate: bool = True
    inexact: bool = True
    depth: int = 2


@dataclass(frozen=True)
class Table:
    """What FROM can read: `text` is a name, or a SELECT that goes into parentheses.

    `clock` names the column that shows the clock, if one does. `fan_out` says about how many rows there are for each
    row of a stream: naive evaluators must be spared joins of what is large already.
    """

    text: str
    columns: tuple[ColumnText, ...]
    clock: str | None
    clock_type: DataType
    is_named: bool = True
    fan_out: int = 1
    #: Whether its rows do not flow; then its clock type says nothing.
    is_static: bool = False

    def item(self, alias: str | None) -> str:
        """The table as an item of FROM."""
        if not self.is_named:
            assert alias is not None
            return f"({self.text}) {alias}"
        return f"{self.text} {alias}" if alias else self.text

    def visible(self, alias: str | None) -> tuple[ColumnText, ...]:
        """The columns as an expression names them."""
        return tuple(replace(column, text=_qualified(alias, column.text)) for column in self.columns)

    def clock_text(self, alias: str | None) -> str | None:
        """The clock as an expression names it."""
        return None if self.clock is None else _qualified(alias, self.clock)

    @property
    def shows_bounds(self) -> bool:
        """Whether it has columns by the names that window bounds have."""
        return any(column.text.startswith("window_") for column in self.columns)


def _qualified(alias: str | None, name: str) -> str:
    return f"{alias}.{name}" if alias else name


@dataclass(frozen=True)
class Item:
    """One item of a select list."""

    text: str
    name: str
    family: str
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.text} AS {self.name}"


def listed(items: Sequence[Item]) -> str:
    return ", ".join(map(str, items))


def clock_family(clock_type: DataType) -> str:
    return "timestamp" if clock_type == TIMESTAMP else "integer"


def an_alias(draw: DrawFn, table: Table) -> str | None:
    """An alias for the only item of FROM, where one is needed and now and then.

    A subquery needs one; so does a table that shows window bounds, since a window of the select would hide them.
    """
    is_needed = not table.is_named or table.shows_bounds
    return "t" if is_needed or one_in(draw, 4) else None


def selected(text: str, items: Sequence[Item], clock: str | None, clock_type: DataType, fan_out: int) -> Table:
    """A SELECT without a window as a table."""
    columns = tuple(ColumnText(item.name, item.family, item.exact) for item in items)
    return Table(text, columns, clock, clock_type, is_named=False, fan_out=fan_out)


def selected_by_window(
    text: str, items: Sequence[Item], clock_type: DataType, fan_out: int, bounds: Sequence[Item] = ()
) -> Table:
    """A SELECT with a window as a table: the bounds stand in front, under their own names unless it names them."""
    names = [bound.name for bound in bounds] or ["window_start", "window_end"]
    shown = [Item("", name, clock_family(clock_type)) for name in names]
    return selected(text, [*shown, *items], names[1], clock_type, fan_out)
