"""SELECTs and set operators: from syntax to `weft.algebra` relations.

A select is bound clause by clause, and the mistakes of all clauses are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from weft.algebra import (
    UNBOUNDED,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Answers,
    Emission,
    Field,
    Input,
    Output,
    Query,
    Relation,
    Retain,
    Select,
    SetOperation,
    SetOperator,
    Source,
    Table,
    Window,
)
from weft.algebra.expressions import Call, Column, Expression, KeyRef, Literal, WindowBound
from weft.algebra.properties import answer_window, clock_column, clock_type, emission
from weft.algebra.types import BOOLEAN, TIMESTAMP, DataType
from weft.sql import dialect, durations, expressions, functions, limits, unsupported
from weft.sql.coercion import cast, common_type, comparison_type
from weft.sql.errors import Code, Problem, SqlError, did_you_mean
from weft.sql.names import Names
from weft.sql.scope import Scope, refuse, refuse_unread, unread
from weft.windows.meeting import meeting_bounds

T = TypeVar("T")

#: The clauses that are read here; sqlglot reads many more.
_SELECT_CLAUSES = frozenset({"with_", "distinct", "expressions", "from_", "joins", "where", "group", "having"})
_SET_CLAUSES = frozenset({"with_", "this", "expression", "distinct", "by_name"})
_JOIN_CLAUSES = frozenset({"this", "method", "side", "kind", "on", "using"})
_TABLE_CLAUSES = frozenset({"this", "alias", "db", "catalog"})
_SUBQUERY_CLAUSES = frozenset({"with_", "this", "alias"})

#: What clauses that are not read are called, and what to do instead.
_ADVICE = {
    "order": "ORDER BY with LIMIT: answers have no order; keep the top rows where you read them",
    "limit": "LIMIT: answers have no order; keep the top rows where you read them, or take MAX and MAX_BY",
    "offset": "OFFSET: answers have no order; skip rows where you read them",
    "qualify": "QUALIFY: filter in a query over this one",
    "laterals": "LATERAL VIEW: flatten the rows in the source",
    "sort": "SORT BY: answers have no order",
    "cluster": "CLUSTER BY: answers have no order",
    "distribute": "DISTRIBUTE BY: answers have no order",
    "kind": "SELECT AS STRUCT: select columns",
    "into": "SELECT INTO: write CREATE CONTINUOUS QUERY name INTO … AS SELECT",
    "connect": "CONNECT BY: recursion over a stream is not supported",
    "hint": "a hint: weft plans by itself",
    "hints": "a hint: weft plans by itself",
    "match": "MATCH_RECOGNIZE: patterns are not supported",
    "pivots": "PIVOT: use CASE inside the aggregates",
    "sample": "TABLESAMPLE: every row counts",
    "exclude": "EXCLUDE: list the columns",
    "prewhere": "PREWHERE: use WHERE",
    "locks": "FOR UPDATE: rows of a stream do not change",
    "version": "time travel: a stream is read as it arrives",
    "when": "time travel: a stream is read as it arrives",
    "joins": "a join inside parentheses: use a view",
    "grouping_sets": "GROUP BY GROUPING SETS: write one query for each grouping",
    "cube": "GROUP BY CUBE: write one query for each grouping",
    "rollup": "GROUP BY ROLLUP: write one query for each grouping",
    "totals": "GROUP BY WITH TOTALS: write one query for each grouping",
    "all": "GROUP BY ALL: name the columns",
    "columns": "a list of column names after an alias: name columns with AS",
}


_STAR_ADVICE = {
    "except_": "leaving columns out of *: list the columns",
    "replace": "replacing columns of *: list the columns",
    "rename": "renaming columns of *: list the columns",
}

_FROM_ITEMS = {"values": "VALUES", "unnest": "UNNEST", "lateral": "LATERAL", "subquery": "a subquery"}

#: What to do instead of joins that are not inner ones: nothing that has other answers.
_JOIN_ADVICE = {
    "NATURAL": "name the columns: JOIN … USING (a, b)",
    "STRAIGHT_JOIN": "write JOIN: weft orders joins by what it measures",
}
_INNER_ONLY = "joins are inner joins: rows without a partner are not answered"


@dataclass(frozen=True)
class _Context:
    """What surrounds a select: registered names, CTEs, a RETAIN inherited from a set operator, and parentheses."""

    names: Names
    ctes: Mapping[str, Relation]
    retain: Retain | None = None
    retain_node: exp.Expr | None = None
    is_inside: bool = False
    notes: list[Problem] = field(default_factory=list)

    @property
    def retain_advice(self) -> str:
        place = "inside its parentheses, end it" if self.is_inside else "end the query"
        return f"{place} with RETAIN 1 HOUR, or RETAIN UNBOUNDED"


def bind_relation(tree: exp.Expr, names: Names, notes: list[Problem] | None = None) -> Relation:
    """The relation of a SELECT or a set operator. Raises SqlError with every problem found.

    What is no error and still worth knowing is added to `notes`.
    """
    relation = _bind(tree, _Context(names, {}, notes=[] if notes is None else notes))
    limits.check_relation(relation, tree)
    return relation


def _bind(tree: exp.Expr, context: _Context) -> Relation:
    with_ = tree.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            raise refuse(
                Code.UNSUPPORTED, "WITH RECURSIVE is not supported", with_, "recursion over a stream has no end"
            )
        ctes = dict(context.ctes)
        for cte in with_.expressions:
            refuse_unread(cte, frozenset({"this", "alias"}), _ADVICE)
            _refuse_column_names(cte)
            ctes[cte.alias.lower()] = _bind(cte.this, replace(context, ctes=ctes, is_inside=True))
        context = replace(context, ctes=ctes)
    if isinstance(tree, exp.Subquery):
        if tree.args.get("alias") or dialect.WINDOW in tree.meta:
            raise refuse(Code.UNSUPPORTED, "an operand has neither alias nor window", tree, "put the window inside")
        refuse_unread(tree, _SUBQUERY_CLAUSES | _clauses_without_effect(tree), _ADVICE)
        _note_order(tree, context)
        _refuse_emit_empty(tree)
        if dialect.RETAIN in tree.meta:
            # `(SELECT …) RETAIN r` is `SELECT … RETAIN r`.
            tree.this.meta.setdefault(dialect.RETAIN, tree.meta.pop(dialect.RETAIN))
        return _bind(tree.this, context)
    if isinstance(tree, exp.SetOperation):
        return _bind_set_operation(tree, context)
    if isinstance(tree, exp.Select):
        return _SelectBinder(tree, context).bind()
    raise refuse(Code.UNSUPPORTED, f"{tree.key.upper()} is not supported here", tree, "write SELECT … FROM …")


# -- set operators ----------------------------------------------------------------------------------------------------


def _bind_set_operation(tree: exp.SetOperation, context: _Context) -> Relation:
    refuse_unread(tree, _SET_CLAUSES | _clauses_without_effect(tree), _ADVICE)
    _note_order(tree, context)
    _refuse_emit_empty(tree)
    node = _trailing_retain(tree)
    operator = SetOperator[type(tree).__name__.upper()]
    if tree.args.get("by_name"):
        raise refuse(Code.UNSUPPORTED, f"{operator.value} BY NAME is not supported", tree, "list the columns in order")
    inner = context if node is None else replace(context, retain_node=node)
    left, right = _both(lambda: _bind(tree.this, inner), lambda: _bind(tree.expression, inner))
    clock = clock_type(left)
    if clock != clock_type(right):
        message = "one operand's clock is a TIMESTAMP, the other's an ordinal"
        raise refuse(Code.WINDOWS_DIFFER, message, tree, "combine streams whose clocks are of one type")
    all_ = not tree.args.get("distinct")
    if not (operator is SetOperator.UNION and all_):
        kept = _most_repeated(inner.retain_node)
        for side, operand, relation in (("left", tree.this, left), ("right", tree.expression, right)):
            if emission(relation).value > kept.value:
                raise _versions_as_rows(f"the {side} operand", operator.value + " ALL" * all_, operand)
    window = _common_window(left, right, tree)
    left, right = _aligned(left, right, tree, operator)
    needs_history = window is None and not (operator is SetOperator.UNION and all_)
    if needs_history and all_:
        hint = f"give both operands the same window, or write {operator.value} without ALL"
        raise refuse(Code.NEEDS_WINDOW, f"{operator.value} ALL needs windows", tree, hint)
    retain = _retain(inner.retain_node, clock) if needs_history else None
    if needs_history and retain is None:
        raise refuse(
            Code.NEEDS_RETAIN,
            f"{operator.value} without windows remembers rows, but for how long?",
            tree,
            context.retain_advice,
        )
    if node is not None and not needs_history and not _uses_retain(left, right):
        raise refuse(
            Code.MISPLACED_OPTION, "nothing here remembers rows", node, "drop RETAIN: the operands have windows"
        )
    return SetOperation(operator, all_, left, right, left.fields, clock, window, retain)


def _clauses_without_effect(tree: exp.Expr) -> frozenset[str]:
    """ORDER BY, unless LIMIT or OFFSET makes the order matter."""
    return frozenset() if tree.args.get("limit") or tree.args.get("offset") else frozenset({"order"})


def _note_order(tree: exp.Expr, context: _Context) -> None:
    order = tree.args.get("order")
    if order is not None and _clauses_without_effect(tree):
        note = refuse(Code.NO_ORDER, "answers have no order: ORDER BY is left out", order, "sort where you read them")
        context.notes.extend(note.problems)


def _uses_retain(*relations: Relation) -> bool:
    return any(
        relation.retain is not None
        or (isinstance(relation, SetOperation) and _uses_retain(relation.left, relation.right))
        for relation in relations
    )


def _trailing_retain(tree: exp.Expr) -> exp.Expr | None:
    """The RETAIN at the end of a set operator; it was read as part of the last SELECT."""
    own: exp.Expr | None = tree.meta.pop(dialect.RETAIN, None)
    if own is None and isinstance(tree, exp.SetOperation):
        own = _trailing_retain(tree.expression)
    if own is None and isinstance(tree, exp.Subquery) and tree.is_wrapper:
        own = _trailing_retain(tree.this)
    return own


def _both(first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
    """The results of both, or the problems of both."""
    problems: list[Problem] = []
    results: list[T] = []
    for each in (first, second):
        try:
            results.append(each())
        except SqlError as error:
            problems.extend(error.problems)
    if problems:
        raise SqlError(problems)
    return results[0], results[1]


def _aligned(left: Relation, right: Relation, tree: exp.Expr, operator: SetOperator) -> tuple[Relation, Relation]:
    """Both operands with their columns cast to common types."""
    if len(left.fields) != len(right.fields):
        raise refuse(
            Code.TYPE_MISMATCH,
            f"{operator.value} needs equally many columns on both sides: {len(left.fields)}, {len(right.fields)}",
            tree,
            f"the left one has {_listed(left.fields)}; the right one {_listed(right.fields)}",
        )
    types = []
    for mine, theirs in zip(left.fields, right.fields, strict=True):
        common = common_type(mine.type, theirs.type)
        if common is None:
            message = (
                f"{operator.value}: column '{mine.name}' is {mine.type} on the left and {theirs.type} on the right"
            )
            raise refuse(Code.TYPE_MISMATCH, message, tree, "CAST one of the two")
        types.append(common)
    return _cast_relation(left, types), _cast_relation(right, types)


def _listed(fields: Sequence[Field]) -> str:
    return ", ".join(field.name for field in fields)


def _cast_relation(relation: Relation, types: Sequence[DataType]) -> Relation:
    if [field.type for field in relation.fields] == list(types):
        return relation
    if isinstance(relation, Select):
        pairs = zip(relation.outputs, types, strict=True)
        return replace(relation, outputs=tuple(Output(o.name, cast(o.expression, type_)) for o, type_ in pairs))
    left, right = _cast_relation(relation.left, types), _cast_relation(relation.right, types)
    return replace(relation, left=left, right=right, fields=left.fields)


def _common_window(left: Relation, right: Relation, tree: exp.Expr) -> Window | None:
    mine, theirs = answer_window(left), answer_window(right)
    if mine != theirs:
        raise refuse(
            Code.WINDOWS_DIFFER,
            "the operands have different windows",
            tree,
            "give both the same RANGE, SLIDE and ORIGIN, or neither of them one",
        )
    return mine


def _retain(node: exp.Expr | None, clock: DataType) -> Retain | None:
    if node is None:
        return None
    return Retain(None if isinstance(node, exp.Null) else ticks(node, clock))


# -- windows ----------------------------------------------------------------------------------------------------------


def ticks(duration: exp.Expr, clock: DataType) -> int:
    """A duration in ticks of a clock: with a unit for TIMESTAMPs, without one for ordinals."""
    with_unit = duration.args.get("unit") != ""
    if with_unit != (clock == TIMESTAMP):
        hint = (
            "give it a unit, such as 5 MINUTES"
            if clock == TIMESTAMP
            else "an ordinal clock has no units: write a number"
        )
        raise refuse(Code.BAD_DURATION, f"this length does not fit a {clock} clock", duration, hint)
    return int(duration.this.name)


def _positive(duration: exp.Expr, clock: DataType, what: str) -> int:
    length = ticks(duration, clock)
    if length <= 0:
        raise refuse(Code.BAD_WINDOW, f"{what} must be positive", duration, "write at least one tick of the clock")
    return length


def _window_of_clause(clause: dialect.WindowClause, clock: DataType) -> Window:
    kind = clause.args["kind"]
    if kind == "UNBOUNDED":
        return UNBOUNDED
    if kind == "NOW":
        return Window(1)
    if kind == "ROWS" and clock == TIMESTAMP:
        hint = "declare a BIGINT clock that counts the rows, or use RANGE"
        raise refuse(Code.BAD_WINDOW, "ROWS needs a stream whose clock is an ordinal", clause, hint)
    slide, origin = clause.args.get("slide"), clause.args.get("origin")
    return _window(
        _positive(clause.args["range"], clock, "the range"),
        _positive(slide, clock, "the slide") if slide is not None else 1,
        _origin(origin, clock) if origin is not None else 0,
    )


def _window(range_: int, slide: int, origin: int) -> Window:
    """A window whose origin lies in [0, slide): two windows with the same instances are equal."""
    return Window(range_, slide, origin % slide)


def _origin(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal):
        moment = expressions.parse_timestamp(node.name)
        if moment is None or clock != TIMESTAMP:
            raise refuse(
                Code.BAD_LITERAL,
                f"'{node.name}' is no origin for a {clock} clock",
                node,
                "write ORIGIN TIMESTAMP '2024-01-01 00:00:00'",
            )
        return moment
    return ticks(node, clock)


def _window_of_table(table: dialect.WindowTable, clock: DataType) -> Window:
    kind, lengths = table.args["kind"], table.expressions
    wanted = (2, 3) if kind == "HOP" else (1, 2)
    if len(lengths) not in wanted:
        form = (
            "HOP(stream, clock, slide, range[, origin])" if kind == "HOP" else "TUMBLE(stream, clock, range[, origin])"
        )
        raise refuse(Code.BAD_WINDOW, f"{kind} has {len(lengths)} lengths", table, f"write {form}")
    slide = _positive(lengths[0], clock, "the slide")
    range_ = _positive(lengths[1], clock, "the range") if kind == "HOP" else slide
    origin = ticks(lengths[-1], clock) if len(lengths) == wanted[1] else 0
    return _window(range_, slide, origin)


def _window_of_call(call: exp.Expr, clock: DataType) -> Window:
    """Spark's window(clock, range[, slide[, start]]) with texts for lengths; numbers for an ordinal clock."""
    lengths = []
    for arg in call.expressions[1:]:
        lengths.append(_length(arg, clock))
    if not 1 <= len(lengths) <= 3:
        raise refuse(
            Code.BAD_WINDOW,
            "window takes a clock and one to three lengths",
            call,
            "write window(ts, '1 hour', '5 minutes')",
        )
    for what, length, arg in zip(("range", "slide"), lengths, call.expressions[1:], strict=False):
        if length <= 0:
            raise refuse(Code.BAD_WINDOW, f"the {what} must be positive", arg, "")
    return _window(lengths[0], lengths[1] if len(lengths) > 1 else lengths[0], lengths[2] if len(lengths) > 2 else 0)


def _length(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal) and node.is_string == (clock == TIMESTAMP):
        try:
            return durations.parse(node.name) if node.is_string else durations.ordinals(node.name)
        except durations.BadDuration as bad:
            raise refuse(Code.BAD_DURATION, str(bad), node, durations.ADVICE) from None
    if isinstance(node, exp.Interval) and clock == TIMESTAMP:
        bound = expressions.bind(node, Scope([], "window"))
        return int(str(bound.value)) if isinstance(bound, Literal) else 0
    raise refuse(
        Code.BAD_DURATION,
        f"this length does not fit a {clock} clock",
        node,
        "write '5 minutes', or a number for an ordinal clock",
    )


# -- select -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Item:
    """One item of FROM before it is known whether the select is a join."""

    source: Source
    alias: str
    node: exp.Expr
    window: Window | None
    window_node: exp.Expr | None
    is_table_function: bool = False


class _SelectBinder:
    """Binds one SELECT. The methods are called in the order of `bind`; each fills what the next ones need."""

    def __init__(self, tree: exp.Select, context: _Context) -> None:
        self.tree = tree
        self.context = context
        self.problems: list[Problem] = []
        self.aggregates: list[Aggregate] = []
        self.keys: list[Expression] = []

    def bind(self) -> Select:
        for error in unread(self.tree, _SELECT_CLAUSES | _clauses_without_effect(self.tree), _ADVICE):
            self.problems.extend(error.problems)
        self.items = self._from_items()
        self.inputs = [(item.alias, _fields(item.source)) for item in self.items]
        self.shown, self.merged = self._merged_columns()
        self.flowing = self._flowing_items()
        self.clock = self._clock_type()
        conditions = self._conditions()
        self.group_window = self._take_group_window()
        with self._collecting():
            self._bind_keys()
        self.row_scope = self._scope("the select list", self._bounds_type(), self.aggregates)
        outputs = self._outputs()
        having = self._having()
        self._check_order()
        with self._collecting():
            self._check_versions()
        self._raise_problems()
        window = self._window()
        select = self._assemble(conditions, window, outputs, having)
        self._check_own_versions(select)
        self._check_join(select)
        return select

    # Mistakes in one clause should not hide those in the next.
    @contextmanager
    def _collecting(self) -> Iterator[None]:
        try:
            yield
        except SqlError as error:
            self.problems.extend(problem for problem in error.problems if problem not in self.problems)

    def _raise_problems(self) -> None:
        if self.problems:
            raise SqlError(sorted(self.problems, key=lambda problem: problem.span.start))

    # -- FROM

    def _from_items(self) -> list[_Item]:
        from_ = self.tree.args.get("from_")
        if from_ is None:
            raise refuse(Code.SYNTAX, "SELECT needs FROM", self.tree, "a continuous query reads at least one stream")
        if not self.tree.expressions:
            raise refuse(Code.SYNTAX, "the select list is empty", self.tree, "write SELECT * FROM …")
        nodes = [from_.this, *(join.this for join in self.tree.args.get("joins") or [])]
        items: list[_Item] = []
        for node in nodes:
            with self._collecting():
                item = self._from_item(node)
                if any(item.alias.lower() == other.alias.lower() for other in items):
                    hint = "give one of the two another name with AS"
                    raise refuse(Code.DUPLICATE_ALIAS, f"'{item.alias}' is in FROM twice", node, hint)
                items.append(item)
        if len(items) < len(nodes):
            self._raise_problems()
        return items

    def _from_item(self, node: exp.Expr) -> _Item:
        if isinstance(node, exp.Subquery):
            refuse_unread(node, _SUBQUERY_CLAUSES, _ADVICE)
            _refuse_column_names(node)
            if not node.alias:
                raise refuse(Code.SYNTAX, "a subquery in FROM needs an alias", node, "write (SELECT …) AS name")
            source: Source = _bind(node.this, replace(self.context, retain_node=None, is_inside=True))
            return self._windowed(source, node.alias, node)
        if not isinstance(node, exp.Table):
            what = _FROM_ITEMS.get(node.key, "this")
            hint = "read a stream, a table, a view, a query or a subquery"
            raise refuse(Code.UNSUPPORTED, f"{what} in FROM is not supported", node, hint)
        refuse_unread(node, _TABLE_CLAUSES, _ADVICE)
        if isinstance(node.this, dialect.WindowTable):
            _refuse_column_names(node)
            return self._table_function(node)
        if not isinstance(node.this, exp.Identifier):
            name = str(node.this.name).upper()
            hint = unsupported.FUNCTIONS.get(name.lower(), "FROM takes streams, tables, views, queries, HOP and TUMBLE")
            raise refuse(Code.UNSUPPORTED, f"{name}(…) in FROM is not supported", node.this, hint)
        _refuse_column_names(node)
        source = self._source(node)
        return self._windowed(source, node.alias or node.name, node)

    def _source(self, node: exp.Table) -> Source:
        name, names = node.name, self.context.names
        if node.db or node.catalog:
            written = ".".join(part.name for part in node.parts)
            raise refuse(Code.UNKNOWN_SOURCE, f"'{written}' has too many parts", node, "streams have plain names")
        if name.lower() in self.context.ctes:
            return self.context.ctes[name.lower()]
        found = names.find_stream(name) or names.find_table(name) or names.find_view(name)
        if found is not None:
            return found
        query = names.find_query(name)
        if query is not None:
            return answers_of(query)
        known = [*names.known_names(), *self.context.ctes]
        hint = did_you_mean(name, known, "CREATE STREAM it first" if not known else f"there are {', '.join(known[:8])}")
        raise refuse(Code.UNKNOWN_SOURCE, f"stream '{name}' is unknown", node.this, hint)

    def _windowed(self, source: Source, alias: str, node: exp.Expr) -> _Item:
        clause = node.meta.get(dialect.WINDOW)
        if clause is not None and isinstance(source, Table):
            raise _no_window(source, clause)
        window = _window_of_clause(clause, clock_type(source)) if clause is not None else None
        return _Item(source, alias, node, window, clause)

    def _table_function(self, node: exp.Table) -> _Item:
        table: dialect.WindowTable = node.this
        source = self._source(table.this)
        if isinstance(source, Table):
            raise _no_window(source, table)
        column = expressions.bind(table.args["clock"], Scope([(table.this.name, _fields(source))], "the window"))
        self._check_clock(column, table.this.name, source, table.args["clock"])
        if dialect.WINDOW in node.meta or dialect.WINDOW in table.this.meta:
            raise refuse(Code.BAD_WINDOW, "this input already has a window", node, "keep one of the two")
        return _Item(
            source, node.alias or table.this.name, node, _window_of_table(table, clock_type(source)), table, True
        )

    def _check_clock(self, column: Expression, alias: str, source: Source, node: exp.Expr) -> None:
        clock = clock_column(source)
        if not isinstance(column, Column) or (column.source, column.name) != (alias, clock):
            hint = f"the clock is '{clock}'" if clock else "its rows show no clock; use [RANGE …], which needs no name"
            raise refuse(Code.NOT_THE_CLOCK, "windows go by the clock, and this is not it", node, hint)

    def _flowing_items(self) -> list[_Item]:
        """The items whose rows arrive; all but the tables."""
        flowing = [item for item in self.items if not isinstance(item.source, Table)]
        if not flowing:
            read = " and ".join(f"'{item.alias}'" for item in self.items)
            words = "is a table" if len(self.items) == 1 else "are tables"
            hint = "join it with a stream here; what is to hold for its rows goes into WHERE or ON"
            raise refuse(Code.NOTHING_FLOWS, f"nothing would ever arrive: {read} {words}", self.items[0].node, hint)
        return flowing

    def _clock_type(self) -> DataType:
        types = {clock_type(item.source) for item in self.flowing}
        if len(types) > 1:
            raise refuse(
                Code.UNBOUNDED_JOIN,
                "one input's clock is a TIMESTAMP, another's an ordinal",
                self.tree.args["from_"],
                "rows of such streams cannot be said to meet",
            )
        return types.pop()

    # -- WHERE and ON

    def _conditions(self) -> list[Expression]:
        conditions: list[Expression] = []
        for join in self.tree.args.get("joins") or []:
            with self._collecting():
                conditions += self._join_conditions(join)
        where = self.tree.args.get("where")
        if where is not None:
            for part in _conjuncts(where.this):
                with self._collecting():
                    conditions.append(expressions.bind_condition(part, self._scope("WHERE")))
        return [
            each
            for condition in conditions
            for each in (condition.args if isinstance(condition, Call) and condition.op == "and" else (condition,))
            if each != Literal(True, BOOLEAN)  # sqlglot writes ON TRUE for a JOIN without ON
        ]

    def _join_conditions(self, join: exp.Join) -> list[Expression]:
        refuse_unread(join, _JOIN_CLAUSES, _ADVICE)
        side = " ".join(word for word in (join.method, join.side, join.kind) if word).upper()
        if side not in ("", "CROSS", "INNER"):
            hint = _JOIN_ADVICE.get(side, _INNER_ONLY)
            raise refuse(Code.UNSUPPORTED, f"{side} JOIN is not supported", join, hint)
        conditions: list[Expression] = []
        for column in join.args.get("using") or []:
            conditions.append(self._using(column, join))
        on = join.args.get("on")
        for part in _conjuncts(on) if on is not None else []:
            conditions.append(expressions.bind_condition(part, self._scope("ON")))
        return conditions

    def _using(self, column: exp.Expr, join: exp.Join) -> Expression:
        joined = next(position for position, item in enumerate(self.items) if item.node is join.this)
        named = exp.Column(this=column.copy())
        right = Scope(self.inputs[joined : joined + 1], "USING").resolve(named)
        left = Scope(self.inputs[:joined], "USING", merged=self.merged).resolve(named)
        common = comparison_type(left.type, right.type)
        if common is None:
            raise refuse(
                Code.TYPE_MISMATCH, f"{left.type} and {right.type} cannot be compared", column, "use ON with a CAST"
            )
        return Call("=", (cast(left, common), cast(right, common)), BOOLEAN)

    def _merged_columns(self) -> tuple[list[Column], frozenset[tuple[str, str]]]:
        """What * selects, and the columns that JOIN … USING made one with a column to their left.

        The columns of USING come first, as in Spark, and then the others of the left and of the right input.
        """
        columns = [[Column(alias, each.name, each.type) for each in fields] for alias, fields in self.inputs]
        shown, merged = columns[0], set[tuple[str, str]]()
        for join, mine in zip(self.tree.args.get("joins") or [], columns[1:], strict=True):
            names = [column.name.lower() for column in join.args.get("using") or []]
            of_left = [each for name in names for each in shown if each.name.lower() == name]
            of_right = [each for each in mine if each.name.lower() in names]
            merged |= {(each.source, each.name) for each in of_right}
            shown = [
                *of_left,
                *(each for each in shown if each not in of_left),
                *(each for each in mine if each not in of_right),
            ]
        return shown, frozenset(merged)

    def _scope(
        self, clause: str, window_type: DataType | None = None, aggregates: list[Aggregate] | None = None
    ) -> Scope:
        aliases = frozenset(each.alias.lower() for each in self.tree.expressions if isinstance(each, exp.Alias))
        return Scope(self.inputs, clause, window_type, aggregates, merged=self.merged, aliases=aliases)

    # -- GROUP BY

    def _group_nodes(self) -> list[exp.Expr]:
        group = self.tree.args.get("group")
        if group is None:
            return []
        refuse_unread(group, frozenset({"expressions"}), _ADVICE)
        return list(group.expressions)

    def _take_group_window(self) -> tuple[Window, exp.Expr] | None:
        found: tuple[Window, exp.Expr] | None = None
        with self._collecting():
            for node in self._group_nodes():
                if not _is_window_call(node):
                    continue
                if found is not None:
                    raise refuse(Code.BAD_WINDOW, "GROUP BY has two windows", node, "keep one of them")
                self._check_window_clock(node)
                found = _window_of_call(node, self.clock), node
        return found

    def _check_window_clock(self, call: exp.Expr) -> None:
        if not call.expressions:
            raise refuse(Code.BAD_WINDOW, "window needs a clock", call, "write window(ts, '1 hour', '5 minutes')")
        node = call.expressions[0]
        bound = expressions.bind(node, self._scope("window"))
        if len(self.flowing) == 1:
            self._check_clock(bound, self.flowing[0].alias, self.flowing[0].source, node)
            return
        clocks = {(item.alias, clock_column(item.source)) for item in self.flowing}
        named = (
            {(arg.source, arg.name) for arg in bound.args if isinstance(arg, Column)}
            if isinstance(bound, Call) and bound.op == "greatest"
            else set()
        )
        if named != clocks:
            spelled = ", ".join(f"{alias}.{column}" for alias, column in sorted(clocks, key=str) if column)
            hint = f"a joined row's clock is the newest of its rows': write window(GREATEST({spelled}), …)"
            raise refuse(Code.NOT_THE_CLOCK, "this is not the clock of the joined rows", node, hint)

    def _bind_keys(self) -> None:
        aliases = {each.alias.lower(): each.this for each in self.tree.expressions if isinstance(each, exp.Alias)}
        scope = self._scope("GROUP BY", self._bounds_type())
        for written in self._group_nodes():
            if _is_window_call(written):
                continue
            with self._collecting():
                key = expressions.bind(self._dereferenced(written, aliases), scope)
                # Bounds and constants are the same for a whole group: grouping by them changes nothing.
                if key not in self.keys and not isinstance(key, (WindowBound, Literal)):
                    self.keys.append(key)

    def _dereferenced(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """What GROUP BY 2, or GROUP BY alias, refers to in the select list."""
        if isinstance(node, exp.Literal) and not node.is_string:
            position = expressions.number(node.name, node).value
            if not isinstance(position, int) or not 1 <= position <= len(self.tree.expressions):
                raise refuse(
                    Code.UNKNOWN_COLUMN,
                    f"the select list has no item {node.name}",
                    node,
                    f"it has {len(self.tree.expressions)}",
                )
            referenced: exp.Expr = self.tree.expressions[position - 1]
            return referenced.unalias()
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            known = {field.name.lower() for _, fields in self.inputs for field in fields}
            if node.name.lower() not in known:
                return aliases[node.name.lower()]
        return node

    # -- the select list and HAVING

    def _outputs(self) -> list[Output]:
        outputs: list[Output] = []
        for node in self.tree.expressions:
            with self._collecting():
                named = isinstance(node, (exp.Alias, exp.Column, exp.Star))
                for output in self._output(node):
                    name = _unused(output.name, outputs)
                    if named and name != output.name:
                        hint = "give one of them another name with AS"
                        raise refuse(Code.DUPLICATE_OUTPUT, f"two columns are called '{output.name}'", node, hint)
                    outputs.append(replace(output, name=name))
        return outputs

    def _output(self, node: exp.Expr) -> list[Output]:
        starred = isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
        if starred:
            return self._star(node)
        bare = node.unalias()
        if (
            isinstance(bare, exp.Column)
            and not bare.table
            and bare.name.lower() == "window"
            and self._bounds_type() is not None
        ):
            raise refuse(
                Code.UNSUPPORTED, "a window cannot be selected as a whole", node, "select window.start and window.end"
            )
        bound = expressions.bind(bare, self.row_scope)
        return [Output(node.alias or _name_of(bare, bound), bound)]

    def _bounds_type(self) -> DataType | None:
        """The type of window_start and window_end; None if the select has no window of its own that closes."""
        window = self.flowing[0].window if len(self.flowing) == 1 else None
        closes = self.group_window is not None or (window is not None and not window.is_unbounded)
        return self.clock if closes else None

    def _star(self, node: exp.Expr) -> list[Output]:
        star = node if isinstance(node, exp.Star) else node.this
        refuse_unread(star, frozenset(), _STAR_ADVICE)
        table = node.args.get("table")
        wanted = table.name.lower() if table is not None else None
        if wanted is not None and not any(alias.lower() == wanted for alias, _ in self.inputs):
            aliases = [alias for alias, _ in self.inputs]
            hint = did_you_mean(wanted, aliases, f"FROM has {', '.join(aliases)}")
            raise refuse(Code.UNKNOWN_COLUMN, f"'{wanted}' is not in FROM", node, hint)
        if wanted is None:
            return [Output(column.name, column) for column in self.shown]
        return [
            Output(field.name, Column(alias, field.name, field.type))
            for alias, fields in self.inputs
            if wanted == alias.lower()
            for field in fields
        ]

    def _check_order(self) -> None:
        """ORDER BY has no effect, but what it names must be there."""
        _note_order(self.tree, self.context)
        order = self.tree.args.get("order")
        aliases = {each.alias.lower(): each.this for each in self.tree.expressions if isinstance(each, exp.Alias)}
        scope = replace(self.row_scope, clause="ORDER BY", aggregates=[])
        for each in order.expressions if order is not None else []:
            with self._collecting():
                node = each.this
                if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
                    continue
                expressions.bind(self._dereferenced(node, aliases), scope)

    def _having(self) -> Expression | None:
        having = self.tree.args.get("having")
        if having is None:
            return None
        with self._collecting():
            aliases = {each.alias.lower(): each.this for each in self.tree.expressions if isinstance(each, exp.Alias)}
            node = having.this.transform(lambda each: self._having_alias(each, aliases), copy=False)
            return expressions.bind_condition(node, replace(self.row_scope, clause="HAVING"))
        return None

    def _having_alias(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            known = {field.name.lower() for _, fields in self.inputs for field in fields}
            if node.name.lower() not in known:
                return aliases[node.name.lower()].copy()
        return node

    # -- putting it together

    @property
    def _is_grouped(self) -> bool:
        return bool(self.aggregates or self.keys or self.tree.args.get("group"))

    def _check_versions(self) -> None:
        """Refuses what would take the versions of a running aggregate for rows."""
        reader = self._reader_of_rows()
        if reader is None:
            return
        kept = _most_repeated(self._retain_node) if reader == "DISTINCT" else Emission.ROWS
        for item in self.flowing:
            if emission(item.source).value > kept.value:
                raise _versions_as_rows(f"'{item.alias}'", reader, item.node)

    def _check_own_versions(self, select: Select) -> None:
        """Refuses DISTINCT over the versions that the same select emits."""
        kept = _most_repeated(self._retain_node)
        if select.distinct and emission(replace(select, distinct=False)).value > kept.value:
            raise _versions_as_rows("this aggregate", "DISTINCT", self.tree)

    @property
    def _retain_node(self) -> exp.Expr | None:
        return self.tree.meta.get(dialect.RETAIN) or self.context.retain_node

    def _reader_of_rows(self) -> str | None:
        """What in this select looks at several rows together, as messages call it; None if each row passes alone."""
        if len(self.flowing) > 1:
            return "a join of inputs that flow"
        if self._is_grouped:
            return self.aggregates[0].function.upper() if self.aggregates else "GROUP BY"
        window = self.flowing[0].window
        if window is not None and not window.is_unbounded:
            return "a window"
        return "DISTINCT" if self.tree.args.get("distinct") is not None else None

    def _window(self) -> Window | None:
        """The window of the select itself, as opposed to those that say which rows of a join meet."""
        grouped = self._is_grouped
        if len(self.flowing) > 1:
            for item in self.flowing:
                if item.is_table_function:
                    hint = "say which rows meet with [RANGE …] on the inputs"
                    raise refuse(Code.UNSUPPORTED, "HOP and TUMBLE inside a join are not supported", item.node, hint)
            if self.group_window is not None:
                return self.group_window[0]
            if grouped:
                self._check_unbounded_join()
                return UNBOUNDED
            return None
        item = self.flowing[0]
        if self.group_window is not None and item.window is not None:
            raise refuse(
                Code.BAD_WINDOW,
                "the query has two windows",
                self.group_window[1],
                "keep the one in FROM or the one in GROUP BY",
            )
        window = self.group_window[0] if self.group_window is not None else item.window
        if window is None:
            return self._implicitly_unbounded() if grouped else None
        node = self.group_window[1] if self.group_window is not None else item.window_node or item.node
        self._check_window(window, node)
        return window if grouped or not window.is_unbounded else None

    def _check_window(self, window: Window, node: exp.Expr) -> None:
        """Refuses windows that would answer at every microsecond."""
        if not window.is_unbounded and window.slide == 1 and self.clock == TIMESTAMP and window.range != 1:
            hint = (
                "add SLIDE, for example SLIDE 1 MINUTE (a SLIDE as long as the RANGE makes windows that do not overlap)"
            )
            raise refuse(Code.NEEDS_WINDOW, "without SLIDE this window would move every microsecond", node, hint)

    def _implicitly_unbounded(self) -> Window:
        holistic = next((each for each in self.aggregates if functions.is_holistic(each)), None)
        if holistic is not None:
            title = f"{holistic.function.upper()}{' DISTINCT' * holistic.distinct}"
            raise refuse(
                Code.NEEDS_WINDOW,
                f"{title} over a whole stream keeps every value for ever",
                self.tree,
                "give the stream a window, or say [RANGE UNBOUNDED] if you mean it",
            )
        return UNBOUNDED

    def _check_unbounded_join(self) -> None:
        if any(item.window is not None and item.window.slide > 1 for item in self.items):
            hint = "group by window(GREATEST(…clocks…), …), or put the join into a view and the window on the view"
            raise refuse(Code.NEEDS_WINDOW, "an aggregate over a join needs a window of its own", self.tree, hint)
        if not any(item.window is not None and item.window.is_unbounded for item in self.items):
            self._implicitly_unbounded()

    def _assemble(
        self, conditions: Sequence[Expression], window: Window | None, outputs: list[Output], having: Expression | None
    ) -> Select:
        grouped = bool(self.aggregates or self.keys)
        if having is not None and not grouped:
            raise refuse(
                Code.MISPLACED_AGGREGATE, "HAVING needs GROUP BY or an aggregate", self.tree.args["having"], "use WHERE"
            )
        if self.tree.args.get("group") is not None and not grouped:
            # Nothing but the window or constants, and no aggregates: what would one row per instance say?
            raise refuse(
                Code.NOT_GROUPED,
                "GROUP BY names no column, so the select list needs an aggregate",
                self.tree.args["group"],
                "select COUNT(*), or drop GROUP BY",
            )
        if grouped:
            outputs, having = self._after_grouping(outputs, having)
        closes = window is not None and not window.is_unbounded
        if closes:
            outputs = _with_bounds(outputs, self.clock)
        retain = self._own_retain(closes)
        return Select(
            inputs=self._join_inputs(),
            where=_conjunction(conditions),
            outputs=tuple(outputs),
            clock_type=self.clock,
            window=window,
            keys=tuple(self.keys),
            aggregates=tuple(self.aggregates),
            having=having,
            distinct=self.tree.args.get("distinct") is not None,
            retain=retain,
            emit_empty=self._emit_empty(window),
        )

    def _join_inputs(self) -> tuple[Input, ...]:
        # A window on the only input that flows is that of the select: all rows meet those of tables.
        meet = len(self.flowing) > 1
        return tuple(Input(item.source, item.alias, item.window if meet else None) for item in self.items)

    def _after_grouping(
        self, outputs: list[Output], having: Expression | None
    ) -> tuple[list[Output], Expression | None]:
        """The select list and HAVING in terms of keys and aggregates."""
        rewritten = []
        for output in outputs:
            with self._collecting():
                rewritten.append(Output(output.name, self._over_groups(output.expression)))
        if having is not None:
            with self._collecting():
                having = self._over_groups(having)
        self._raise_problems()
        return rewritten, having

    def _over_groups(self, expression: Expression) -> Expression:
        if expression in self.keys:
            return KeyRef(self.keys.index(expression), expression.type)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self._over_groups(arg) for arg in expression.args))
        if isinstance(expression, Column):
            node = self.row_scope.seen.get(expression, self.tree)
            hint = f"add {expression.name} to GROUP BY, or aggregate it: MAX({expression.name})"
            raise refuse(Code.NOT_GROUPED, f"'{expression.name}' is neither grouped nor aggregated", node, hint)
        return expression

    def _own_retain(self, closes: bool) -> Retain | None:
        own: exp.Expr | None = self.tree.meta.get(dialect.RETAIN)
        node = own or self.context.retain_node
        distinct = self.tree.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise refuse(
                Code.UNSUPPORTED, "DISTINCT ON is not supported", self.tree, "use MIN_BY or MAX_BY with GROUP BY"
            )
        if distinct is None or closes:
            if own is not None:
                raise refuse(
                    Code.MISPLACED_OPTION,
                    "nothing here remembers rows",
                    own,
                    "RETAIN goes with DISTINCT and set operators without windows",
                )
            return None
        if node is None:
            message = "DISTINCT without a window remembers rows, but for how long?"
            raise refuse(Code.NEEDS_RETAIN, message, self.tree, self.context.retain_advice)
        return _retain(node, self.clock)

    def _emit_empty(self, window: Window | None) -> bool:
        node = self.tree.meta.get(dialect.EMIT_EMPTY)
        if node is None:
            return False
        if self.keys or not self.aggregates or window is None:
            hint = "it goes with windowed aggregates without GROUP BY"
            raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY has no meaning here", node, hint)
        if window.is_unbounded:
            message = "an aggregate without a window emits nothing until a row satisfies WHERE: it has no empty windows"
            hint = "give it a window, for example [RANGE 1 HOUR SLIDE 1 HOUR], or drop EMIT EMPTY"
            raise refuse(Code.MISPLACED_OPTION, message, node, hint)
        if window.slide == 1 and self.clock == TIMESTAMP:
            hint = "use a window with a SLIDE"
            raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY would answer at every microsecond", node, hint)
        return True

    # -- joins

    def _check_join(self, select: Select) -> None:
        """Refuses joins whose state would grow for ever unless the query says UNBOUNDED."""
        if len(select.flowing) == 1:
            return
        schedules = {
            (each.window.slide, each.window.origin)
            for each in select.inputs
            if each.window and not each.window.is_unbounded
        }
        if len(schedules) > 1:
            hint = "rows meet at common instants: give all inputs the same SLIDE and ORIGIN"
            raise refuse(
                Code.WINDOWS_DIFFER, "the inputs of a join have different slides", self.tree.args["from_"], hint
            )
        bounds = meeting_bounds(select.inputs, select.where)
        flowing = [(i, each) for i, each in enumerate(select.inputs) if each in select.flowing]
        for i, first in flowing:
            said = first.window is not None and first.window.is_unbounded
            for k, second in flowing:
                if bounds[i][k] is None and not said:
                    bound = f"{second.alias}.clock < {first.alias}.clock + INTERVAL …"
                    hint = f"add [RANGE …] to both, or a bound such as {bound}, or [RANGE UNBOUNDED] to '{first.alias}'"
                    message = f"rows of '{first.alias}' are kept for ever: how new can rows of '{second.alias}' be?"
                    raise refuse(Code.UNBOUNDED_JOIN, message, self.items[i].node, hint)


def answers_of(query: Query) -> Answers:
    """Another query's answers as a source."""
    relation = query.relation
    return Answers(query.name, relation.fields, query.clock, relation.clock_type, emission(relation))


def _most_repeated(retain: exp.Expr | None) -> Emission:
    """What DISTINCT and set operators may read: one that remembers for ever does not tell a row from its repetition."""
    return Emission.ROWS if isinstance(retain, dialect.Duration) else Emission.REPEATED


def _versions_as_rows(source: str, reader: str, node: exp.Expr) -> SqlError:
    message = f"{source} emits a new version of a group whenever it changes, and {reader} would take each for a row"
    hint = "give the aggregate that never closes a window: GROUP BY window(ts, '1 hour'), or [RANGE … SLIDE …]"
    return refuse(Code.READS_VERSIONS, message, node, hint)


def _no_window(table: Table, node: exp.Expr) -> SqlError:
    hint = "put the window on the stream that it is joined with"
    return refuse(Code.BAD_WINDOW, f"'{table.name}' is a table: its rows have no clock for a window", node, hint)


def _fields(source: Source) -> tuple[Field, ...]:
    return source.fields


def _refuse_column_names(node: exp.Expr) -> None:
    """`AS t (a, b)` would rename columns."""
    alias = node.args.get("alias")
    if alias is not None:
        refuse_unread(alias, frozenset({"this"}), _ADVICE)


def _refuse_emit_empty(tree: exp.Expr) -> None:
    if dialect.EMIT_EMPTY in tree.meta:
        hint = "write it inside the parentheses, after the SELECT that it is for"
        raise refuse(Code.MISPLACED_OPTION, "EMIT EMPTY has no meaning here", tree.meta[dialect.EMIT_EMPTY], hint)


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that are joined by AND, so that mistakes in each of them can be reported."""
    parts: list[exp.Expr] = []
    while isinstance(node, exp.And):
        parts.append(node.expression)
        node = node.this
    yield node
    yield from reversed(parts)


def _conjunction(conditions: Sequence[Expression]) -> Expression | None:
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else Call("and", tuple(conditions), BOOLEAN)


def _is_window_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.name).lower() == "window"


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
    words: str = node.meta.get(dialect.WORDS, "")
    return words[:60] or "value"


def _unused(name: str, outputs: Sequence[Output]) -> str:
    taken = {output.name.lower() for output in outputs}
    candidate, number = name, 2
    while candidate.lower() in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
