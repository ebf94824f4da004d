"""Queries: WITH, parentheses, UNION, INTERSECT and EXCEPT around SELECTs, and the SELECTs.

`from_clause.py` binds FROM and WHERE, `grouping.py` GROUP BY; here are the other clauses, and what holds for the select
as a whole. The mistakes of all clauses are reported together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from weft.algebra import (
    WINDOW_END,
    WINDOW_START,
    Emission,
    Output,
    Relation,
    Retain,
    Select,
    SetOperation,
    SetOperator,
    Window,
)
from weft.algebra.expressions import Column, Expression, WindowBound
from weft.algebra.properties import answer_window, clock_type, emission
from weft.algebra.types import TIMESTAMP, DataType
from weft.predicates.literals import conjunction
from weft.sql import expression_binder, limits, query_syntax
from weft.sql.coercion import cast, common_type
from weft.sql.from_clause import SUBQUERY_CLAUSES, FromClause, QueryContext, refuse_column_names, ticks
from weft.sql.grouping import Grouping
from weft.sql.names import Names
from weft.sql.problems import Code, Problem, ProblemList, SqlError
from weft.sql.query_syntax import EMIT_EMPTY, RETAIN, WINDOW
from weft.sql.scope import refuse, refuse_unread
from weft.windows.join_windows import meeting_bounds

#: The clauses that are read; sqlglot reads many more.
_SELECT_CLAUSES = frozenset({"with_", "distinct", "expressions", "from_", "joins", "where", "group", "having"})

_SET_CLAUSES = frozenset({"with_", "this", "expression", "distinct", "by_name"})


def bind_relation(tree: exp.Expr, names: Names, notes: list[Problem] | None = None) -> Relation:
    """The relation of a SELECT or a set operator. Raises SqlError with every problem found.

    What is no error and still worth knowing is added to `notes`.
    """
    relation = _bind(tree, QueryContext(names, _bind, notes=[] if notes is None else notes))
    limits.check_relation(relation, tree)
    return relation


def _bind(tree: exp.Expr, context: QueryContext) -> Relation:
    with_ = tree.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            hint = "recursion over a stream has no end"
            raise refuse(Code.UNSUPPORTED, "WITH RECURSIVE is not supported", with_, hint)
        ctes = dict(context.ctes)
        for cte in with_.expressions:
            refuse_unread(cte, frozenset({"this", "alias"}))
            refuse_column_names(cte)
            ctes[cte.alias.lower()] = _bind(cte.this, replace(context, ctes=ctes, is_inside=True))
        context = replace(context, ctes=ctes)
    if isinstance(tree, exp.Subquery):
        if tree.args.get("alias") or WINDOW in tree.meta:
            raise refuse(Code.UNSUPPORTED, "an operand has neither alias nor window", tree, "put the window inside")
        _check_clauses(tree, SUBQUERY_CLAUSES, context)
        if RETAIN in tree.meta:
            # `(SELECT …) RETAIN r` is `SELECT … RETAIN r`.
            tree.this.meta.setdefault(RETAIN, tree.meta.pop(RETAIN))
        return _bind(tree.this, context)
    if isinstance(tree, exp.SetOperation):
        return _bind_set_operation(tree, context)
    if isinstance(tree, exp.Select):
        return _SelectBinder(tree, context).bind()
    raise refuse(Code.UNSUPPORTED, f"{tree.key.upper()} is not supported here", tree, "write SELECT … FROM …")


def _bind_set_operation(tree: exp.SetOperation, context: QueryContext) -> Relation:
    _check_clauses(tree, _SET_CLAUSES, context)
    node = _trailing_retain(tree)
    operator = SetOperator[type(tree).__name__.upper()]
    if tree.args.get("by_name"):
        raise refuse(Code.UNSUPPORTED, f"{operator.value} BY NAME is not supported", tree, "list the columns in order")
    inner = context if node is None else replace(context, retain_node=node)
    problems, operands = ProblemList(), list[Relation]()
    for operand in (tree.this, tree.expression):
        with problems.collecting():
            operands.append(_bind(operand, inner))
    problems.raise_any()
    left, right = operands
    clock = clock_type(left)
    if clock != clock_type(right):
        message = "one operand's clock is a TIMESTAMP, the other's an ordinal"
        raise refuse(Code.WINDOWS_DIFFER, message, tree, "combine streams whose clocks are of one type")
    all_ = not tree.args.get("distinct")
    passes = operator is SetOperator.UNION and all_
    if not passes:
        kept = _most_repeated(inner.retain_node)
        for side, operand, relation in (("left", tree.this, left), ("right", tree.expression, right)):
            if emission(relation).value > kept.value:
                raise _versions_as_rows(f"the {side} operand", operator.value + " ALL" * all_, operand)
    window = answer_window(left)
    if window != answer_window(right):
        hint = "give both the same RANGE, SLIDE and ORIGIN, or neither of them one"
        raise refuse(Code.WINDOWS_DIFFER, "the operands have different windows", tree, hint)
    left, right = _aligned(left, right, tree, operator)
    needs_history = window is None and not passes
    if needs_history and all_:
        hint = f"give both operands the same window, or write {operator.value} without ALL"
        raise refuse(Code.NEEDS_WINDOW, f"{operator.value} ALL needs windows", tree, hint)
    retain = _retain_of(inner.retain_node, clock) if needs_history else None
    if needs_history and retain is None:
        message = f"{operator.value} without windows remembers rows, but for how long?"
        raise refuse(Code.NEEDS_RETAIN, message, tree, context.retain_advice)
    if node is not None and not needs_history and not _uses_retain(left, right):
        hint = "drop RETAIN: the operands have windows"
        raise refuse(Code.MISPLACED_OPTION, "nothing here remembers rows", node, hint)
    return SetOperation(operator, all_, left, right, left.fields, clock, window, retain)


def _uses_retain(*relations: Relation) -> bool:
    return any(
        relation.retain is not None
        or (isinstance(relation, SetOperation) and _uses_retain(relation.left, relation.right))
        for relation in relations
    )


def _trailing_retain(tree: exp.Expr) -> exp.Expr | None:
    """The RETAIN at the end of a set operator; it was read as part of the last SELECT."""
    own: exp.Expr | None = tree.meta.pop(RETAIN, None)
    if own is None and isinstance(tree, exp.SetOperation):
        own = _trailing_retain(tree.expression)
    if own is None and isinstance(tree, exp.Subquery) and tree.is_wrapper:
        own = _trailing_retain(tree.this)
    return own


def _aligned(left: Relation, right: Relation, tree: exp.Expr, operator: SetOperator) -> tuple[Relation, Relation]:
    """Both operands with their columns cast to common types."""
    if len(left.fields) != len(right.fields):
        message = f"{operator.value} needs equally many columns on both sides: {len(left.fields)}, {len(right.fields)}"
        listed = [", ".join(field.name for field in each.fields) for each in (left, right)]
        hint = f"the left one has {listed[0]}; the right one {listed[1]}"
        raise refuse(Code.TYPE_MISMATCH, message, tree, hint)
    types = []
    for mine, theirs in zip(left.fields, right.fields, strict=True):
        common = common_type(mine.type, theirs.type)
        if common is None:
            sides = f"{mine.type} on the left and {theirs.type} on the right"
            message = f"{operator.value}: column '{mine.name}' is {sides}"
            raise refuse(Code.TYPE_MISMATCH, message, tree, "CAST one of the two")
        types.append(common)
    return _cast_relation(left, types), _cast_relation(right, types)


def _cast_relation(relation: Relation, types: Sequence[DataType]) -> Relation:
    if [field.type for field in relation.fields] == list(types):
        return relation
    if isinstance(relation, Select):
        pairs = zip(relation.outputs, types, strict=True)
        return replace(relation, outputs=tuple(Output(o.name, cast(o.expression, type_)) for o, type_ in pairs))
    left, right = _cast_relation(relation.left, types), _cast_relation(relation.right, types)
    return replace(relation, left=left, right=right, fields=left.fields)


def _check_clauses(tree: exp.Expr, read: frozenset[str], context: QueryContext) -> None:
    """Refuse what cannot be said around SELECTs."""
    refuse_unread(tree, read | _clauses_without_effect(tree))
    _note_order(tree, context)
    if EMIT_EMPTY in tree.meta:
        hint = "write it inside the parentheses, after the SELECT that it is for"
        raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY has no meaning here", tree.meta[EMIT_EMPTY], hint)


def _retain_of(node: exp.Expr | None, clock: DataType) -> Retain | None:
    if node is None:
        return None
    return Retain(None if isinstance(node, exp.Null) else ticks(node, clock))


class _SelectBinder:
    """Binds one SELECT. The methods are called in the order of `bind`; each fills what the next ones need."""

    def __init__(self, tree: exp.Select, context: QueryContext) -> None:
        self._tree = tree
        self._context = context
        self._most_repeated = _most_repeated(tree.meta.get(RETAIN) or context.retain_node)
        self._problems = ProblemList()

    def bind(self) -> Select:
        with self._problems.collecting():
            refuse_unread(self._tree, _SELECT_CLAUSES | _clauses_without_effect(self._tree))
        self._from = FromClause(self._tree, self._context, self._problems)
        conditions = self._from.conditions()
        self._grouping = Grouping(self._from, self._problems)
        self._row_scope = self._from.scope("the select list", self._grouping.bounds_type, self._grouping.aggregates)
        outputs = self._outputs()
        having = self._having()
        self._check_order()
        with self._problems.collecting():
            self._check_versions()
        self._problems.raise_any()
        select = self._assemble(conditions, self._grouping.window(), outputs, having)
        if select.distinct and emission(replace(select, distinct=False)).value > self._most_repeated.value:
            raise _versions_as_rows("this aggregate", "DISTINCT", self._tree)
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
            refuse_unread(node if isinstance(node, exp.Star) else node.this, frozenset())
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
            meant = self._from.alias_meant
            node = having.this.transform(lambda each: each if meant(each) is each else meant(each).copy(), copy=False)
            return expression_binder.bind_condition(node, replace(self._row_scope, clause="HAVING"))
        return None

    def _check_order(self) -> None:
        """ORDER BY has no effect, but what it names must be there."""
        _note_order(self._tree, self._context)
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
                raise _versions_as_rows(f"'{item.alias}'", reader, item.node)

    def _reader_of_rows(self) -> str | None:
        """What in this select looks at several rows together, as messages call it; None if each row passes alone."""
        if len(self._from.flowing) > 1:
            return "a join of inputs that flow"
        if self._grouping.is_grouped:
            return self._grouping.aggregates[0].function.upper() if self._grouping.aggregates else "GROUP BY"
        window = self._from.flowing[0].window
        if window is not None and not window.is_unbounded:
            return "a window"
        return "DISTINCT" if self._tree.args.get("distinct") is not None else None

    # -- putting it together

    def _assemble(
        self, conditions: Sequence[Expression], window: Window | None, outputs: list[Output], having: Expression | None
    ) -> Select:
        keys, clock, group = self._grouping.keys, self._from.clock, self._tree.args.get("group")
        grouped = bool(self._grouping.aggregates or keys)
        if having is not None and not grouped:
            message = "HAVING needs GROUP BY or an aggregate"
            raise refuse(Code.MISPLACED_AGGREGATE, message, self._tree.args["having"], "use WHERE")
        if group is not None and not grouped:
            # Nothing but the window or constants, and no aggregates: what would one row per instance say?
            message = "GROUP BY names no column, so the select list needs an aggregate"
            raise refuse(Code.NOT_GROUPED, message, group, "select COUNT(*), or drop GROUP BY")
        if grouped:
            rewritten, seen = [], self._row_scope.seen
            for output in outputs:
                with self._problems.collecting():
                    rewritten.append(Output(output.name, self._grouping.over_groups(output.expression, seen)))
            if having is not None:
                with self._problems.collecting():
                    having = self._grouping.over_groups(having, seen)
            self._problems.raise_any()
            outputs = rewritten
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
            aggregates=tuple(self._grouping.aggregates),
            having=having,
            distinct=self._tree.args.get("distinct") is not None,
            retain=self._retain(closes),
            emit_empty=self._emit_empty(window),
        )

    def _retain(self, closes: bool) -> Retain | None:
        own: exp.Expr | None = self._tree.meta.get(RETAIN)
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
        return _retain_of(node, self._from.clock)

    def _emit_empty(self, window: Window | None) -> bool:
        node = self._tree.meta.get(EMIT_EMPTY)
        if node is None:
            return False
        if self._grouping.keys or not self._grouping.aggregates or window is None:
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


def _clauses_without_effect(tree: exp.Expr) -> frozenset[str]:
    """ORDER BY, unless LIMIT or OFFSET makes the order matter."""
    return frozenset() if tree.args.get("limit") or tree.args.get("offset") else frozenset({"order"})


def _note_order(tree: exp.Expr, context: QueryContext) -> None:
    """Add a note to a query whose ORDER BY is left out."""
    order = tree.args.get("order")
    if order is not None and _clauses_without_effect(tree):
        note = refuse(Code.NO_ORDER, "answers have no order: ORDER BY is left out", order, "sort where you read them")
        context.notes.extend(note.problems)


def _most_repeated(retain: exp.Expr | None) -> Emission:
    """What DISTINCT and set operators may read: one that remembers for ever does not tell a row from its repetition."""
    return Emission.ROWS if isinstance(retain, query_syntax.Duration) else Emission.REPEATED


def _versions_as_rows(source: str, reader: str, node: exp.Expr) -> SqlError:
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
