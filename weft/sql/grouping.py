"""GROUP BY: its keys and its window(…), the window of a SELECT, and expressions over groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import UNBOUNDED, Window
from weft.algebra.expressions import Aggregate, Call, Column, Expression, KeyRef, Literal, WindowBound
from weft.algebra.properties import clock_column
from weft.algebra.types import TIMESTAMP, DataType
from weft.sql import durations, expression_binder, functions
from weft.sql.coercion import interval, number
from weft.sql.from_clause import FromClause, check_clock
from weft.sql.problems import Code, ProblemList
from weft.sql.query_syntax import WindowTable
from weft.sql.scope import refuse, refuse_unread


class Grouping:
    """The groups of a SELECT: the keys and the window of GROUP BY, and the aggregates that other clauses name.

    Problems of keys are collected together.
    """

    def __init__(self, source: FromClause, problems: ProblemList) -> None:
        self._source = source
        self._tree: exp.Expr | None = source.tree.args.get("group")
        self._call: exp.Expr | None = None
        self._window: Window | None = None
        self.keys: list[Expression] = []
        self.aggregates: list[Aggregate] = []
        nodes: list[exp.Expr] = []
        with problems.collecting():
            if self._tree is not None:
                refuse_unread(self._tree, frozenset({"expressions"}))
                nodes = self._tree.expressions
            for node in filter(_is_window_call, nodes):
                if self._window is not None:
                    raise refuse(Code.BAD_WINDOW, "GROUP BY has two windows", node, "keep one of them")
                self._check_clock(node)
                self._window, self._call = _window_of_call(node, source.clock), node
        scope = source.scope("GROUP BY", self.bounds_type)
        for node in nodes:
            if not _is_window_call(node):
                with problems.collecting():
                    key = expression_binder.bind(self.dereferenced(node), scope)
                    # Bounds and constants are the same for a whole group: grouping by them changes nothing.
                    if key not in self.keys and not isinstance(key, (WindowBound, Literal)):
                        self.keys.append(key)

    @property
    def bounds_type(self) -> DataType | None:
        """The type of window_start and window_end; None if the select has no window of its own that closes."""
        flowing = self._source.flowing
        window = flowing[0].window if len(flowing) == 1 else None
        closes = self._window is not None or (window is not None and not window.is_unbounded)
        return self._source.clock if closes else None

    @property
    def is_grouped(self) -> bool:
        return bool(self.aggregates or self.keys or self._tree)

    def window(self) -> Window | None:
        """The window of the select itself, as opposed to those that say which rows of a join meet."""
        item, *others = self._source.flowing
        for each in (item, *others) if others else ():
            if isinstance(each.window_node, WindowTable):
                hint = "say which rows meet with [RANGE …] on the inputs"
                raise refuse(Code.UNSUPPORTED, "HOP and TUMBLE inside a join are not supported", each.node, hint)
        of_input = None if others else item.window
        if self._call is not None and of_input is not None:
            hint = "keep the one in FROM or the one in GROUP BY"
            raise refuse(Code.BAD_WINDOW, "the query has two windows", self._call, hint)
        window = self._window or of_input
        if window is None:
            return self._unbounded() if self.is_grouped else None
        if not others and window.slide == 1 and window.range not in (None, 1) and self._source.clock == TIMESTAMP:
            hint = (
                "add SLIDE, for example SLIDE 1 MINUTE (a SLIDE as long as the RANGE makes windows that do not overlap)"
            )
            node = self._call or item.window_node or item.node
            raise refuse(Code.NEEDS_WINDOW, "without SLIDE this window would move every microsecond", node, hint)
        return window if self.is_grouped or not window.is_unbounded else None

    def _unbounded(self) -> Window:
        """The window of an aggregate that names none."""
        windows = [item.window for item in self._source.items if item.window is not None]
        if any(window.slide > 1 for window in windows):
            hint = "group by window(GREATEST(…clocks…), …), or put the join into a view and the window on the view"
            message = "an aggregate over a join needs a window of its own"
            raise refuse(Code.NEEDS_WINDOW, message, self._source.tree, hint)
        holistic = next((each for each in self.aggregates if functions.is_holistic(each)), None)
        if holistic is not None and not any(window.is_unbounded for window in windows):
            hint = "give the stream a window, or say [RANGE UNBOUNDED] if you mean it"
            title = f"{holistic.function.upper()}{' DISTINCT' * holistic.distinct}"
            message = f"{title} over a whole stream keeps every value for ever"
            raise refuse(Code.NEEDS_WINDOW, message, self._source.tree, hint)
        return UNBOUNDED

    def _check_clock(self, call: exp.Expr) -> None:
        if not call.expressions:
            raise refuse(Code.BAD_WINDOW, "window needs a clock", call, "write window(ts, '1 hour', '5 minutes')")
        node, flowing = call.expressions[0], self._source.flowing
        bound = expression_binder.bind(node, self._source.scope("window"))
        if len(flowing) == 1:
            check_clock(bound, flowing[0].alias, flowing[0].source, node)
            return
        clocks = {(item.alias, clock_column(item.source)) for item in flowing}
        named = bound.args if isinstance(bound, Call) and bound.op == "greatest" else ()
        if {(arg.source, arg.name) for arg in named if isinstance(arg, Column)} != clocks:
            spelled = ", ".join(f"{alias}.{column}" for alias, column in sorted(clocks, key=str) if column)
            hint = f"a joined row's clock is the newest of its rows': write window(GREATEST({spelled}), …)"
            raise refuse(Code.NOT_THE_CLOCK, "this is not the clock of the joined rows", node, hint)

    def dereferenced(self, node: exp.Expr) -> exp.Expr:
        """What GROUP BY 2, or GROUP BY alias, refers to in the select list."""
        if isinstance(node, exp.Literal) and not node.is_string:
            listed: Sequence[exp.Expr] = self._source.tree.expressions
            position = number(node.name, node).value
            if not isinstance(position, int) or not 1 <= position <= len(listed):
                message = f"the select list has no item {node.name}"
                raise refuse(Code.UNKNOWN_COLUMN, message, node, f"it has {len(listed)}")
            return listed[position - 1].unalias()
        return self._source.alias_meant(node)

    def over_groups(self, expression: Expression, seen: Mapping[Column, exp.Expr]) -> Expression:
        """An expression in terms of keys and aggregates; `seen` says where its columns were read."""
        if expression in self.keys:
            return KeyRef(self.keys.index(expression), expression.type)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self.over_groups(arg, seen) for arg in expression.args))
        if isinstance(expression, Column):
            node = seen.get(expression, self._source.tree)
            hint = f"add {expression.name} to GROUP BY, or aggregate it: MAX({expression.name})"
            raise refuse(Code.NOT_GROUPED, f"'{expression.name}' is neither grouped nor aggregated", node, hint)
        return expression


def _is_window_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.name).lower() == "window"


def _window_of_call(call: exp.Expr, clock: DataType) -> Window:
    """Spark's window(clock, range[, slide[, start]]) with texts for lengths; numbers for an ordinal clock."""
    lengths = [_length(arg, clock) for arg in call.expressions[1:]]
    if not 1 <= len(lengths) <= 3:
        hint = "write window(ts, '1 hour', '5 minutes')"
        raise refuse(Code.BAD_WINDOW, "window takes a clock and one to three lengths", call, hint)
    for what, length, arg in zip(("range", "slide"), lengths, call.expressions[1:], strict=False):
        if length <= 0:
            raise refuse(Code.BAD_WINDOW, f"the {what} must be positive", arg, "")
    slide = lengths[1] if len(lengths) > 1 else lengths[0]
    return Window(lengths[0], slide, lengths[2] % slide if len(lengths) > 2 else 0)


def _length(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal) and node.is_string == (clock == TIMESTAMP):
        try:
            return durations.parse(node.name) if node.is_string else durations.ordinals(node.name)
        except durations.BadDuration as bad:
            raise refuse(Code.BAD_DURATION, str(bad), node, durations.ADVICE) from None
    if isinstance(node, exp.Interval) and clock == TIMESTAMP:
        return interval(node)
    hint = "write '5 minutes', or a number for an ordinal clock"
    raise refuse(Code.BAD_DURATION, f"this length does not fit a {clock} clock", node, hint)
