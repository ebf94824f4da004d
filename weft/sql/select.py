"""SELECT: from the syntax of its clauses to one relation of `weft.algebra`.

`from_clause.py` binds FROM and WHERE; here are the other clauses, and what holds for the select as a whole. The
mistakes of all clauses are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import UNBOUNDED, WINDOW_END, WINDOW_START, Aggregate, Emission, Output, Retain, Select, Window
from weft.algebra.expressions import Call, Column, Expression, KeyRef, Literal, WindowBound
from weft.algebra.properties import clock_column, emission
from weft.algebra.types import TIMESTAMP, DataType
from weft.sql import expression_binder, functions, query_syntax, unsupported
from weft.sql.coercion import number
from weft.sql.from_clause import FromClause, QueryContext, check_clock, conjunction
from weft.sql.problems import Code, ProblemList, SqlError
from weft.sql.scope import refuse, refuse_unread
from weft.sql.window_clause import is_window_call, retain_of, window_of_call
from weft.windows.join_windows import meeting_bounds

#: The clauses that are read; sqlglot reads many more.
_SELECT_CLAUSES = frozenset({"with_", "distinct", "expressions", "from_", "joins", "where", "group", "having"})

_STAR_ADVICE = {
    "except_": "leaving columns out of *: list the columns",
    "replace": "replacing columns of *: list the columns",
    "rename": "renaming columns of *: list the columns",
}


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
            position = number(node.name, node).value
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


class SelectBinder:
    """Binds one SELECT. The methods are called in the order of `bind`; each fills what the next ones need."""

    def __init__(self, tree: exp.Select, context: QueryContext) -> None:
        self._tree = tree
        self._context = context
        self._problems = ProblemList()
        self._aggregates: list[Aggregate] = []

    def bind(self) -> Select:
        with self._problems.collecting():
            refuse_unread(self._tree, _SELECT_CLAUSES | clauses_without_effect(self._tree), unsupported.CLAUSES)
        self._from = FromClause(self._tree, self._context, self._problems)
        conditions = self._from.conditions()
        self._grouping = Grouping(self._from, self._problems)
        self._row_scope = self._from.scope("the select list", self._grouping.bounds_type, self._aggregates)
        outputs = self._outputs()
        having = self._having()
        self._check_order()
        with self._problems.collecting():
            self._check_versions()
        self._problems.raise_any()
        select = self._assemble(conditions, self._window(), outputs, having)
        if select.distinct and emission(replace(select, distinct=False)).value > self._most_repeated.value:
            raise versions_as_rows("this aggregate", "DISTINCT", self._tree)
        self._check_join(select)
        return select

    # -- the select list, HAVING and ORDER BY

    def _outputs(self) -> list[Output]:
        outputs: list[Output] = []
        for node in self._tree.expressions:
            with self._problems.collecting():
                named = isinstance(node, (exp.Alias, exp.Column, exp.Star))
                for output in self._output(node):
                    name = _unused(output.name, outputs)
                    if named and name != output.name:
                        hint = "give one of them another name with AS"
                        raise refuse(Code.DUPLICATE_OUTPUT, f"two columns are called '{output.name}'", node, hint)
                    outputs.append(replace(output, name=name))
        return outputs

    def _output(self, node: exp.Expr) -> list[Output]:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            refuse_unread(node if isinstance(node, exp.Star) else node.this, frozenset(), _STAR_ADVICE)
            return self._from.star(node)
        bare = node.unalias()
        is_window = isinstance(bare, exp.Column) and not bare.table and bare.name.lower() == "window"
        if is_window and self._grouping.bounds_type is not None:
            hint = "select window.start and window.end"
            raise refuse(Code.UNSUPPORTED, "a window cannot be selected as a whole", node, hint)
        bound = expression_binder.bind(bare, self._row_scope)
        return [Output(node.alias or _name_of(bare, bound), bound)]

    def _having(self) -> Expression | None:
        having = self._tree.args.get("having")
        if having is None:
            return None
        with self._problems.collecting():
            node = having.this.transform(self._without_alias, copy=False)
            return expression_binder.bind_condition(node, replace(self._row_scope, clause="HAVING"))
        return None

    def _without_alias(self, node: exp.Expr) -> exp.Expr:
        meant = self._from.alias_meant(node)
        return node if meant is None else meant.copy()

    def _check_order(self) -> None:
        """ORDER BY has no effect, but what it names must be there."""
        note_order(self._tree, self._context)
        order = self._tree.args.get("order")
        scope = replace(self._row_scope, clause="ORDER BY", aggregates=[])
        for each in order.expressions if order is not None else []:
            with self._problems.collecting():
                node = each.this
                if isinstance(node, exp.Column) and not node.table and node.name.lower() in self._from.aliases:
                    continue
                expression_binder.bind(self._grouping.dereferenced(node), scope)

    # -- versions of groups

    def _check_versions(self) -> None:
        """Refuse what would take the versions of a running aggregate for rows."""
        reader = self._reader_of_rows()
        if reader is None:
            return
        allowed = self._most_repeated if reader == "DISTINCT" else Emission.ROWS
        for item in self._from.flowing:
            if emission(item.source).value > allowed.value:
                raise versions_as_rows(f"'{item.alias}'", reader, item.node)

    @property
    def _most_repeated(self) -> Emission:
        return most_repeated(self._tree.meta.get(query_syntax.RETAIN) or self._context.retain_node)

    def _reader_of_rows(self) -> str | None:
        """What in this select looks at several rows together, as messages call it; None if each row passes alone."""
        if len(self._from.flowing) > 1:
            return "a join of inputs that flow"
        if self._is_grouped:
            return self._aggregates[0].function.upper() if self._aggregates else "GROUP BY"
        window = self._from.flowing[0].window
        if window is not None and not window.is_unbounded:
            return "a window"
        return "DISTINCT" if self._tree.args.get("distinct") is not None else None

    # -- the window

    @property
    def _is_grouped(self) -> bool:
        return bool(self._aggregates or self._grouping.keys or self._tree.args.get("group"))

    def _window(self) -> Window | None:
        """The window of the select itself, as opposed to those that say which rows of a join meet."""
        grouping, flowing = self._grouping, self._from.flowing
        if len(flowing) > 1:
            for item in flowing:
                if item.is_table_function:
                    hint = "say which rows meet with [RANGE …] on the inputs"
                    raise refuse(Code.UNSUPPORTED, "HOP and TUMBLE inside a join are not supported", item.node, hint)
            if grouping.window is not None:
                return grouping.window
            if self._is_grouped:
                self._check_unbounded_join()
                return UNBOUNDED
            return None
        item = flowing[0]
        if grouping.window is not None and grouping.window_node is not None and item.window is not None:
            hint = "keep the one in FROM or the one in GROUP BY"
            raise refuse(Code.BAD_WINDOW, "the query has two windows", grouping.window_node, hint)
        window = grouping.window or item.window
        if window is None:
            return self._implicitly_unbounded() if self._is_grouped else None
        if not window.is_unbounded and window.slide == 1 and self._from.clock == TIMESTAMP and window.range != 1:
            hint = (
                "add SLIDE, for example SLIDE 1 MINUTE (a SLIDE as long as the RANGE makes windows that do not overlap)"
            )
            node = grouping.window_node or item.window_node or item.node
            raise refuse(Code.NEEDS_WINDOW, "without SLIDE this window would move every microsecond", node, hint)
        return window if self._is_grouped or not window.is_unbounded else None

    def _implicitly_unbounded(self) -> Window:
        holistic = next((each for each in self._aggregates if functions.is_holistic(each)), None)
        if holistic is not None:
            title = f"{holistic.function.upper()}{' DISTINCT' * holistic.distinct}"
            hint = "give the stream a window, or say [RANGE UNBOUNDED] if you mean it"
            raise refuse(Code.NEEDS_WINDOW, f"{title} over a whole stream keeps every value for ever", self._tree, hint)
        return UNBOUNDED

    def _check_unbounded_join(self) -> None:
        windows = [item.window for item in self._from.items if item.window is not None]
        if any(window.slide > 1 for window in windows):
            hint = "group by window(GREATEST(…clocks…), …), or put the join into a view and the window on the view"
            raise refuse(Code.NEEDS_WINDOW, "an aggregate over a join needs a window of its own", self._tree, hint)
        if not any(window.is_unbounded for window in windows):
            self._implicitly_unbounded()

    # -- putting it together

    def _assemble(
        self, conditions: Sequence[Expression], window: Window | None, outputs: list[Output], having: Expression | None
    ) -> Select:
        keys, clock, group = self._grouping.keys, self._from.clock, self._tree.args.get("group")
        grouped = bool(self._aggregates or keys)
        if having is not None and not grouped:
            message = "HAVING needs GROUP BY or an aggregate"
            raise refuse(Code.MISPLACED_AGGREGATE, message, self._tree.args["having"], "use WHERE")
        if group is not None and not grouped:
            # Nothing but the window or constants, and no aggregates: what would one row per instance say?
            message = "GROUP BY names no column, so the select list needs an aggregate"
            raise refuse(Code.NOT_GROUPED, message, group, "select COUNT(*), or drop GROUP BY")
        if grouped:
            outputs, having = self._after_grouping(outputs, having)
        closes = window is not None and not window.is_unbounded
        if closes:
            outputs = _with_bounds(outputs, clock)
        return Select(
            inputs=self._from.as_inputs(),
            where=conjunction(conditions),
            outputs=tuple(outputs),
            clock_type=clock,
            window=window,
            keys=tuple(keys),
            aggregates=tuple(self._aggregates),
            having=having,
            distinct=self._tree.args.get("distinct") is not None,
            retain=self._retain(closes),
            emit_empty=self._emit_empty(window),
        )

    def _after_grouping(
        self, outputs: list[Output], having: Expression | None
    ) -> tuple[list[Output], Expression | None]:
        """The select list and HAVING in terms of keys and aggregates."""
        rewritten, seen = [], self._row_scope.seen
        for output in outputs:
            with self._problems.collecting():
                rewritten.append(Output(output.name, self._grouping.over_groups(output.expression, seen)))
        if having is not None:
            with self._problems.collecting():
                having = self._grouping.over_groups(having, seen)
        self._problems.raise_any()
        return rewritten, having

    def _retain(self, closes: bool) -> Retain | None:
        own: exp.Expr | None = self._tree.meta.get(query_syntax.RETAIN)
        node = own or self._context.retain_node
        distinct = self._tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            hint = "use MIN_BY or MAX_BY with GROUP BY"
            raise refuse(Code.UNSUPPORTED, "DISTINCT ON is not supported", self._tree, hint)
        if distinct is None or closes:
            if own is not None:
                hint = "RETAIN goes with DISTINCT and set operators without windows"
                raise refuse(Code.MISPLACED_OPTION, "nothing here remembers rows", own, hint)
            return None
        if node is None:
            message = "DISTINCT without a window remembers rows, but for how long?"
            raise refuse(Code.NEEDS_RETAIN, message, self._tree, self._context.retain_advice)
        return retain_of(node, self._from.clock)

    def _emit_empty(self, window: Window | None) -> bool:
        node = self._tree.meta.get(query_syntax.EMIT_EMPTY)
        if node is None:
            return False
        if self._grouping.keys or not self._aggregates or window is None:
            hint = "it goes with windowed aggregates without GROUP BY"
            raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY has no meaning here", node, hint)
        if window.is_unbounded:
            message = "an aggregate without a window emits nothing until a row satisfies WHERE: it has no empty windows"
            hint = "give it a window, for example [RANGE 1 HOUR SLIDE 1 HOUR], or drop EMIT EMPTY"
            raise refuse(Code.MISPLACED_OPTION, message, node, hint)
        if window.slide == 1 and self._from.clock == TIMESTAMP:
            hint = "use a window with a SLIDE"
            raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY would answer at every microsecond", node, hint)
        return True

    def _check_join(self, select: Select) -> None:
        """Refuse joins whose state would grow for ever unless the query says UNBOUNDED."""
        if len(select.flowing) == 1:
            return
        windows = [each.window for each in select.inputs if each.window and not each.window.is_unbounded]
        if len({(window.slide, window.origin) for window in windows}) > 1:
            hint = "rows meet at common instants: give all inputs the same SLIDE and ORIGIN"
            message = "the inputs of a join have different slides"
            raise refuse(Code.WINDOWS_DIFFER, message, self._tree.args["from_"], hint)
        bounds = meeting_bounds(select.inputs, select.where)
        flowing = [(i, each) for i, each in enumerate(select.inputs) if each in select.flowing]
        for i, first in flowing:
            if first.window is not None and first.window.is_unbounded:
                continue
            for k, second in flowing:
                if bounds[i][k] is None:
                    bound = f"{second.alias}.clock < {first.alias}.clock + INTERVAL …"
                    hint = f"add [RANGE …] to both, or a bound such as {bound}, or [RANGE UNBOUNDED] to '{first.alias}'"
                    message = f"rows of '{first.alias}' are kept for ever: how new can rows of '{second.alias}' be?"
                    raise refuse(Code.UNBOUNDED_JOIN, message, self._from.items[i].node, hint)


def clauses_without_effect(tree: exp.Expr) -> frozenset[str]:
    """ORDER BY, unless LIMIT or OFFSET makes the order matter."""
    return frozenset() if tree.args.get("limit") or tree.args.get("offset") else frozenset({"order"})


def note_order(tree: exp.Expr, context: QueryContext) -> None:
    """Add a note to a query whose ORDER BY is left out."""
    order = tree.args.get("order")
    if order is not None and clauses_without_effect(tree):
        note = refuse(Code.NO_ORDER, "answers have no order: ORDER BY is left out", order, "sort where you read them")
        context.notes.extend(note.problems)


def most_repeated(retain: exp.Expr | None) -> Emission:
    """What DISTINCT and set operators may read: one that remembers for ever does not tell a row from its repetition."""
    return Emission.ROWS if isinstance(retain, query_syntax.Duration) else Emission.REPEATED


def versions_as_rows(source: str, reader: str, node: exp.Expr) -> SqlError:
    """The error for a reader that would take each version of a group for a row."""
    message = f"{source} emits a new version of a group whenever it changes, and {reader} would take each for a row"
    hint = "give the aggregate that never closes a window: GROUP BY window(ts, '1 hour'), or [RANGE … SLIDE …]"
    return refuse(Code.READS_VERSIONS, message, node, hint)


def _with_bounds(outputs: Sequence[Output], clock: DataType) -> list[Output]:
    """The outputs with window_start and window_end in front, unless the select list has them."""
    added = []
    for name, end in ((WINDOW_START, False), (WINDOW_END, True)):
        bound = WindowBound(end, clock)
        if not any(output.expression == bound for output in outputs):
            added.append(Output(_unused(name, outputs), bound))
    return [*added, *outputs]


def _name_of(node: exp.Expr, bound: Expression) -> str:
    """The name of a column without AS: the column's own, or one made of the expression's words."""
    if isinstance(bound, WindowBound):
        return WINDOW_END if bound.end else WINDOW_START
    if isinstance(bound, Column):
        return bound.name
    words: str = node.meta.get(query_syntax.WORDS, "")
    return words[:60] or "value"


def _unused(name: str, outputs: Sequence[Output]) -> str:
    taken = {output.name.lower() for output in outputs}
    candidate, number = name, 2
    while candidate.lower() in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
