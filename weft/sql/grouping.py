"""GROUP BY: the keys of a SELECT, the window that may stand among them, and expressions over groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import Window
from weft.algebra.expressions import Call, Column, Expression, KeyRef, Literal, WindowBound
from weft.algebra.properties import clock_column
from weft.algebra.types import DataType
from weft.sql import constants, expression_binder, unsupported
from weft.sql.from_clause import FromClause, check_clock
from weft.sql.problems import Code, ProblemList
from weft.sql.scope import refuse, refuse_unread
from weft.sql.window_clause import is_window_call, window_of_call


class Grouping:
    """The GROUP BY of a SELECT. Problems of its keys are collected together."""

    def __init__(self, source: FromClause, problems: ProblemList) -> None:
        self._source = source
        self._nodes: list[exp.Expr] = []
        self.window: Window | None = None
        self.window_node: exp.Expr | None = None
        self.keys: list[Expression] = []
        with problems.collecting():
            group = source.tree.args.get("group")
            if group is not None:
                refuse_unread(group, frozenset({"expressions"}), unsupported.CLAUSES)
                self._nodes = list(group.expressions)
        with problems.collecting():
            self._bind_window()
        self._bind_keys(problems)

    @property
    def bounds_type(self) -> DataType | None:
        """The type of window_start and window_end; None if the select has no window of its own that closes."""
        flowing = self._source.flowing
        window = flowing[0].window if len(flowing) == 1 else None
        closes = self.window is not None or (window is not None and not window.is_unbounded)
        return self._source.clock if closes else None

    def _bind_window(self) -> None:
        for node in filter(is_window_call, self._nodes):
            if self.window is not None:
                raise refuse(Code.BAD_WINDOW, "GROUP BY has two windows", node, "keep one of them")
            self._check_clock(node)
            self.window, self.window_node = window_of_call(node, self._source.clock), node

    def _check_clock(self, call: exp.Expr) -> None:
        if not call.expressions:
            raise refuse(Code.BAD_WINDOW, "window needs a clock", call, "write window(ts, '1 hour', '5 minutes')")
        node, flowing = call.expressions[0], self._source.flowing
        bound = expression_binder.bind(node, self._source.scope("window"))
        if len(flowing) == 1:
            check_clock(bound, flowing[0].alias, flowing[0].source, node)
            return
        clocks = {(item.alias, clock_column(item.source)) for item in flowing}
        named = (
            {(arg.source, arg.name) for arg in bound.args if isinstance(arg, Column)}
            if isinstance(bound, Call) and bound.op == "greatest"
            else set()
        )
        if named != clocks:
            spelled = ", ".join(f"{alias}.{column}" for alias, column in sorted(clocks, key=str) if column)
            hint = f"a joined row's clock is the newest of its rows': write window(GREATEST({spelled}), …)"
            raise refuse(Code.NOT_THE_CLOCK, "this is not the clock of the joined rows", node, hint)

    def _bind_keys(self, problems: ProblemList) -> None:
        scope = self._source.scope("GROUP BY", self.bounds_type)
        for node in self._nodes:
            if is_window_call(node):
                continue
            with problems.collecting():
                key = expression_binder.bind(self.dereferenced(node), scope)
                # Bounds and constants are the same for a whole group: grouping by them changes nothing.
                if key not in self.keys and not isinstance(key, (WindowBound, Literal)):
                    self.keys.append(key)

    def dereferenced(self, node: exp.Expr) -> exp.Expr:
        """What GROUP BY 2, or GROUP BY alias, refers to in the select list."""
        if isinstance(node, exp.Literal) and not node.is_string:
            listed: Sequence[exp.Expr] = self._source.tree.expressions
            position = constants.number(node.name, node).value
            if not isinstance(position, int) or not 1 <= position <= len(listed):
                message = f"the select list has no item {node.name}"
                raise refuse(Code.UNKNOWN_COLUMN, message, node, f"it has {len(listed)}")
            return listed[position - 1].unalias()
        return self._source.alias_meant(node) or node

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
