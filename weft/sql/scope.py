"""Which names an expression can see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from weft.algebra.expressions import Aggregate, AggregateRef, Column, Expression, WindowBound
from weft.algebra.relations import WINDOW_END, WINDOW_START, Field
from weft.algebra.types import DataType
from weft.sql import unsupported
from weft.sql.problems import Code, Problem, Span, SqlError, did_you_mean


def span_of(node: exp.Expr) -> Span:
    """The part of the statement that a syntax tree was read from."""
    if "start" in node.meta:
        return Span(node.meta["start"], node.meta["end"] + 1)
    places = [each.meta for each in node.walk() if "start" in each.meta]
    if not places:
        return span_of(node.parent) if node.parent is not None else Span(0, 1)
    return Span(min(place["start"] for place in places), max(place["end"] for place in places) + 1)


def refuse(code: Code, message: str, node: exp.Expr, hint: str = "") -> SqlError:
    """The error to raise for a syntax tree."""
    return SqlError.one(code, message, span_of(node), hint)


def refuse_unread(node: exp.Expr, read: frozenset[str]) -> None:
    """Refuses a syntax tree with parts that are not read: what is written must not be ignored."""
    problems: list[Problem] = []
    for key, value in node.args.items():
        if value and key not in read:
            title, _, hint = unsupported.CLAUSES.get(key, "").partition(": ")
            title = title or key.strip("_").replace("_", " ").upper()
            part = value[0] if isinstance(value, list) else value
            # Places inside a hint count from its own start.
            place = part if isinstance(part, exp.Expr) and not isinstance(part, exp.Hint) else node
            refused = refuse(Code.UNSUPPORTED, f"{title} is not supported here", place, hint or f"drop {title}")
            problems.extend(refused.problems)
    if problems:
        raise SqlError(problems)


def columns_of(alias: str, fields: Iterable[Field]) -> list[Column]:
    """The columns of an input that is called by an alias."""
    return [Column(alias, each.name, each.type) for each in fields]


@dataclass
class Scope:
    """The columns of the inputs of a select, in order, and whether window bounds and aggregates may be named.

    `window_type` is the clock's type when window bounds are visible. `aggregates` collects the aggregate calls that
    expressions contain; it is None where aggregates are not allowed, and `clause` says which place that is. `merged`
    has the columns that are seen only with their alias, since JOIN … USING made them one with another. `aliases` are
    names of the select list, in small letters, which are no columns.
    """

    columns: Sequence[Column]
    clause: str
    window_type: DataType | None = None
    aggregates: list[Aggregate] | None = None
    seen: dict[Column, exp.Expr] = field(default_factory=dict)
    merged: frozenset[Column] = frozenset()
    aliases: frozenset[str] = frozenset()

    def resolve(self, node: exp.Column) -> Expression:
        """The column or window bound that a name means."""
        name, qualifier = node.name, node.table
        if len(node.parts) > 2:
            raise refuse(Code.UNKNOWN_COLUMN, f"'{node.sql()}' has too many parts", node, "write alias.column")
        bound = self._window_bound(name, qualifier)
        if bound is not None:
            return bound
        columns = [each for each in self.columns if not qualifier or each.source.lower() == qualifier.lower()]
        if not columns:
            if (qualifier.lower(), name.lower()) in (("window", "start"), ("window", "end")):
                raise self._no_bounds(node)
            aliases = list(dict.fromkeys(each.source for each in self.columns))
            listed = ", ".join(f"'{alias}'" for alias in aliases)
            hint = did_you_mean(qualifier, aliases, f"FROM has {listed}")
            raise refuse(Code.UNKNOWN_COLUMN, f"'{qualifier}' is not in FROM", node, hint)
        seen = [each for each in columns if qualifier or each not in self.merged]
        found = [each for each in seen if each.name.lower() == name.lower()]
        if len(found) > 1:
            owners = " and ".join(f"'{column.source}'" for column in found)
            raise refuse(Code.AMBIGUOUS_COLUMN, f"'{name}' is in {owners}", node, f"write {found[0].source}.{name}")
        if not found:
            if name.lower() in (WINDOW_START, WINDOW_END):
                raise self._no_bounds(node)
            if name.lower() in unsupported.WITHOUT_PARENTHESES and not qualifier:
                hint = unsupported.FUNCTIONS[name.lower()]
                raise refuse(Code.UNSUPPORTED, f"{name.upper()} is not supported", node, hint)
            known = [each.name for each in seen]
            if name.lower() in self.aliases and not qualifier:
                hint = "write the expression again, or give it its name in a subquery"
                raise refuse(Code.UNKNOWN_COLUMN, f"'{name}' is an alias, not known in {self.clause}", node, hint)
            hint = did_you_mean(name, known, f"there are {', '.join(known[:12])}")
            raise refuse(Code.UNKNOWN_COLUMN, f"column '{node.sql()}' is unknown", node, hint)
        self.seen.setdefault(found[0], node)
        return found[0]

    def _window_bound(self, name: str, qualifier: str) -> WindowBound | None:
        """`window_start`, `window_end`, and Spark's `window.start`, `window.end`."""
        if self.window_type is None:
            return None
        name, qualifier = name.lower(), qualifier.lower()
        if qualifier == "window" and name in ("start", "end"):
            return WindowBound(name == "end", self.window_type)
        is_input = any(each.source.lower() == qualifier for each in self.columns)
        # A derived stream has columns of these names; the window of this select hides them unless qualified.
        is_column = any(each.name.lower() == name for each in self.columns)
        if name in (WINDOW_START, WINDOW_END) and (not qualifier or (is_input and not is_column)):
            return WindowBound(name == WINDOW_END, self.window_type)
        return None

    def _no_bounds(self, node: exp.Column) -> SqlError:
        hint = "bounds belong in the select list, GROUP BY or HAVING of a query with a window that closes"
        return refuse(Code.NEEDS_WINDOW, f"'{node.sql()}' has no window to be a bound of", node, hint)

    def aggregate(self, aggregate: Aggregate, node: exp.Expr) -> AggregateRef:
        """A reference to an aggregate, which is collected if it is new."""
        if self.aggregates is None:
            use = "use HAVING for conditions on aggregates"
            hint = use if self.clause == "WHERE" else "move it to the select list or HAVING"
            title = aggregate.function.upper()
            raise refuse(Code.MISPLACED_AGGREGATE, f"{title} cannot be used in {self.clause}", node, hint)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return AggregateRef(self.aggregates.index(aggregate), aggregate.type)

    def inside_aggregate(self) -> Scope:
        """What an aggregate's arguments can see: columns, but neither bounds nor other aggregates."""
        return Scope(self.columns, "another aggregate", merged=self.merged, aliases=self.aliases)
