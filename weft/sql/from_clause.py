"""FROM, JOIN, WHERE and ON: what a SELECT reads, which of its columns can be named, and which rows meet and pass.

Two windows with the same instances are equal: the origin of a window lies in [0, slide).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from weft.algebra import UNBOUNDED, Answers, Input, Output, Query, Relation, Source, Table, View, Window
from weft.algebra.expressions import Aggregate, Call, Column, Expression, Literal
from weft.algebra.properties import clock_column, clock_type, emission
from weft.algebra.types import BOOLEAN, TIMESTAMP, DataType
from weft.sql import expression_binder, query_syntax, unsupported
from weft.sql.coercion import cast, comparison_type, parse_timestamp
from weft.sql.names import Names
from weft.sql.problems import Code, Problem, ProblemList, SqlError, did_you_mean
from weft.sql.scope import Scope, columns_of, refuse, refuse_unread

_JOIN_CLAUSES = frozenset({"this", "method", "side", "kind", "on", "using"})
_TABLE_CLAUSES = frozenset({"this", "alias", "db", "catalog"})
SUBQUERY_CLAUSES = frozenset({"with_", "this", "alias"})

_FROM_ITEMS = {"values": "VALUES", "unnest": "UNNEST", "lateral": "LATERAL"}

#: What to do instead of joins that are not inner ones: nothing that has other answers.
_JOIN_ADVICE = {
    "NATURAL": "name the columns: JOIN … USING (a, b)",
    "STRAIGHT_JOIN": "write JOIN: weft orders joins by what it measures",
}


@dataclass(frozen=True)
class QueryContext:
    """What surrounds a SELECT: registered names, CTEs, the RETAIN of a set operator, and parentheses.

    `bind` binds the queries inside it; `notes` collects what is worth knowing of a good query.
    """

    names: Names
    bind: Callable[[exp.Expr, QueryContext], Relation]
    ctes: Mapping[str, Relation] = field(default_factory=dict)
    retain_node: exp.Expr | None = None
    is_inside: bool = False
    notes: list[Problem] = field(default_factory=list)

    @property
    def retain_advice(self) -> str:
        place = "inside its parentheses, end it" if self.is_inside else "end the query"
        return f"{place} with RETAIN 1 HOUR, or RETAIN UNBOUNDED"


@dataclass(frozen=True)
class FromItem:
    """One item of FROM before it is known whether the select is a join."""

    source: Source
    alias: str
    node: exp.Expr
    window: Window | None
    window_node: exp.Expr | None


class FromClause:
    """The inputs of a SELECT, and the scopes that they make. Problems of its items are collected together."""

    def __init__(self, tree: exp.Select, context: QueryContext, problems: ProblemList) -> None:
        self.tree = tree
        self._context = context
        self._problems = problems
        self.items = self._bind_items()
        self._columns = [columns_of(item.alias, item.source.fields) for item in self.items]
        self.columns = [column for each in self._columns for column in each]
        self._shown, self._merged = self._merge_columns()
        self.flowing = self._flowing_items()
        self.clock = self._clock_type()

    @cached_property
    def aliases(self) -> Mapping[str, exp.Expr]:
        """What the names of the select list mean, in small letters."""
        return {each.alias.lower(): each.this for each in self.tree.expressions if isinstance(each, exp.Alias)}

    def scope(
        self, clause: str, window_type: DataType | None = None, aggregates: list[Aggregate] | None = None
    ) -> Scope:
        """The names that expressions of a clause can see."""
        aliases = frozenset(self.aliases)
        return Scope(self.columns, clause, window_type, aggregates, merged=self._merged, aliases=aliases)

    def as_inputs(self) -> tuple[Input, ...]:
        # A window on the only input that flows is that of the select: all rows meet those of tables.
        meet = len(self.flowing) > 1
        return tuple(Input(item.source, item.alias, item.window if meet else None) for item in self.items)

    def star(self, node: exp.Expr) -> list[Output]:
        """The columns that `*` or `alias.*` selects."""
        table = node.args.get("table")
        if table is None:
            return [Output(column.name, column) for column in self._shown]
        wanted = table.name.lower()
        outputs = [Output(column.name, column) for column in self.columns if column.source.lower() == wanted]
        if not outputs:
            aliases = [item.alias for item in self.items]
            hint = did_you_mean(wanted, aliases, f"FROM has {', '.join(aliases)}")
            raise refuse(Code.UNKNOWN_COLUMN, f"'{wanted}' is not in FROM", node, hint)
        return outputs

    def alias_meant(self, node: exp.Expr) -> exp.Expr:
        """What a name in GROUP BY or HAVING means if it is an alias of the select list and no column; else the node."""
        if not isinstance(node, exp.Column) or node.table:
            return node
        name = node.name.lower()
        is_column = any(column.name.lower() == name for column in self.columns)
        return node if is_column else self.aliases.get(name, node)

    # -- items

    def _bind_items(self) -> list[FromItem]:
        from_ = self.tree.args.get("from_")
        if from_ is None:
            raise refuse(Code.SYNTAX, "SELECT needs FROM", self.tree, "a continuous query reads at least one stream")
        if not self.tree.expressions:
            raise refuse(Code.SYNTAX, "the select list is empty", self.tree, "write SELECT * FROM …")
        nodes = [from_.this, *(join.this for join in self.tree.args.get("joins") or [])]
        items: list[FromItem] = []
        for node in nodes:
            with self._problems.collecting():
                item = self._bind_item(node)
                if any(item.alias.lower() == other.alias.lower() for other in items):
                    hint = "give one of the two another name with AS"
                    raise refuse(Code.DUPLICATE_ALIAS, f"'{item.alias}' is in FROM twice", node, hint)
                items.append(item)
        if len(items) < len(nodes):
            self._problems.raise_any()
        return items

    def _bind_item(self, node: exp.Expr) -> FromItem:
        if isinstance(node, exp.Subquery):
            refuse_unread(node, SUBQUERY_CLAUSES)
            refuse_column_names(node)
            if not node.alias:
                raise refuse(Code.SYNTAX, "a subquery in FROM needs an alias", node, "write (SELECT …) AS name")
            inside = replace(self._context, retain_node=None, is_inside=True)
            return _windowed(self._context.bind(node.this, inside), node.alias, node)
        if not isinstance(node, exp.Table):
            what = _FROM_ITEMS.get(node.key, "this")
            hint = "read a stream, a table, a view, a query or a subquery"
            raise refuse(Code.UNSUPPORTED, f"{what} in FROM is not supported", node, hint)
        refuse_unread(node, _TABLE_CLAUSES)
        if not isinstance(node.this, (exp.Identifier, query_syntax.WindowTable)):
            name = str(node.this.name).upper()
            hint = unsupported.FUNCTIONS.get(name.lower(), "FROM takes streams, tables, views, queries, HOP and TUMBLE")
            raise refuse(Code.UNSUPPORTED, f"{name}(…) in FROM is not supported", node.this, hint)
        refuse_column_names(node)
        if isinstance(node.this, query_syntax.WindowTable):
            return self._table_function(node)
        return _windowed(self._source(node), node.alias or node.name, node)

    def _source(self, node: exp.Table) -> Source:
        name, names, ctes = node.name, self._context.names, self._context.ctes
        if node.db or node.catalog:
            written = ".".join(part.name for part in node.parts)
            raise refuse(Code.UNKNOWN_SOURCE, f"'{written}' has too many parts", node, "streams have plain names")
        if name.lower() in ctes:
            return ctes[name.lower()]
        found = names.find(name)
        if isinstance(found, View):
            return found.relation
        if isinstance(found, Query):
            relation = found.relation
            return Answers(found.name, relation.fields, found.clock, relation.clock_type, emission(relation))
        if found is not None:
            return found
        known = [*names.known_names(), *ctes]
        hint = did_you_mean(name, known, "CREATE STREAM it first" if not known else f"there are {', '.join(known[:8])}")
        raise refuse(Code.UNKNOWN_SOURCE, f"stream '{name}' is unknown", node.this, hint)

    def _table_function(self, node: exp.Table) -> FromItem:
        table: query_syntax.WindowTable = node.this
        source, name, clock = self._source(table.this), table.this.name, table.args["clock"]
        if isinstance(source, Table):
            raise _no_window(source, table)
        column = expression_binder.bind(clock, Scope(columns_of(name, source.fields), "the window"))
        check_clock(column, name, source, clock)
        if query_syntax.WINDOW in node.meta or query_syntax.WINDOW in table.this.meta:
            raise refuse(Code.BAD_WINDOW, "this input already has a window", node, "keep one of the two")
        window = _window_of_table(table, clock_type(source))
        return FromItem(source, node.alias or name, node, window, table)

    def _flowing_items(self) -> list[FromItem]:
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
            message = "one input's clock is a TIMESTAMP, another's an ordinal"
            hint = "rows of such streams cannot be said to meet"
            raise refuse(Code.UNBOUNDED_JOIN, message, self.tree.args["from_"], hint)
        return types.pop()

    # -- conditions

    def conditions(self) -> list[Expression]:
        """The conditions of ON, USING and WHERE; a row passes if all of them hold."""
        found: list[Expression] = []
        for join in self.tree.args.get("joins") or []:
            with self._problems.collecting():
                found += self._join_conditions(join)
        where = self.tree.args.get("where")
        for part in _conjuncts(where.this) if where is not None else ():
            with self._problems.collecting():
                found.append(expression_binder.bind_condition(part, self.scope("WHERE")))
        return [
            each
            for condition in found
            for each in (condition.args if isinstance(condition, Call) and condition.op == "and" else (condition,))
            if each != Literal(True, BOOLEAN)  # sqlglot writes ON TRUE for a JOIN without ON
        ]

    def _join_conditions(self, join: exp.Join) -> list[Expression]:
        refuse_unread(join, _JOIN_CLAUSES)
        side = " ".join(word for word in (join.method, join.side, join.kind) if word).upper()
        if side not in ("", "CROSS", "INNER"):
            hint = _JOIN_ADVICE.get(side, "joins are inner joins: rows without a partner are not answered")
            raise refuse(Code.UNSUPPORTED, f"{side} JOIN is not supported", join, hint)
        conditions = [self._using(column, join) for column in join.args.get("using") or []]
        on = join.args.get("on")
        for part in _conjuncts(on) if on is not None else ():
            conditions.append(expression_binder.bind_condition(part, self.scope("ON")))
        return conditions

    def _using(self, column: exp.Expr, join: exp.Join) -> Expression:
        joined = next(position for position, item in enumerate(self.items) if item.node is join.this)
        named = exp.Column(this=column.copy())
        before = [each for columns in self._columns[:joined] for each in columns]
        right = Scope(self._columns[joined], "USING").resolve(named)
        left = Scope(before, "USING", merged=self._merged).resolve(named)
        common = comparison_type(left.type, right.type)
        if common is None:
            hint = "use ON with a CAST"
            raise refuse(Code.TYPE_MISMATCH, f"{left.type} and {right.type} cannot be compared", column, hint)
        return Call("=", (cast(left, common), cast(right, common)), BOOLEAN)

    def _merge_columns(self) -> tuple[list[Column], frozenset[Column]]:
        """What * selects, and the columns that JOIN … USING made one with a column to their left.

        The columns of USING come first, as in Spark, and then the others of the left and of the right input.
        """
        shown, merged = self._columns[0], set[Column]()
        for join, mine in zip(self.tree.args.get("joins") or [], self._columns[1:], strict=True):
            names = [column.name.lower() for column in join.args.get("using") or []]
            first = [each for name in names for each in shown if each.name.lower() == name]
            merged.update(each for each in mine if each.name.lower() in names)
            shown = [*first, *(each for each in [*shown, *mine] if each not in first and each not in merged)]
        return shown, frozenset(merged)


def _windowed(source: Source, alias: str, node: exp.Expr) -> FromItem:
    clause = node.meta.get(query_syntax.WINDOW)
    if clause is not None and isinstance(source, Table):
        raise _no_window(source, clause)
    window = _window_of_clause(clause, clock_type(source)) if clause is not None else None
    return FromItem(source, alias, node, window, clause)


def check_clock(column: Expression, alias: str, source: Source, node: exp.Expr) -> None:
    """Refuse a column of a window that is not the clock of its input."""
    clock = clock_column(source)
    if not isinstance(column, Column) or (column.source, column.name) != (alias, clock):
        hint = f"the clock is '{clock}'" if clock else "its rows show no clock; use [RANGE …], which needs no name"
        raise refuse(Code.NOT_THE_CLOCK, "windows go by the clock, and this is not it", node, hint)


def _no_window(table: Table, node: exp.Expr) -> SqlError:
    hint = "put the window on the stream that it is joined with"
    return refuse(Code.BAD_WINDOW, f"'{table.name}' is a table: its rows have no clock for a window", node, hint)


def refuse_column_names(node: exp.Expr) -> None:
    """Refuse `AS t (a, b)`, which would rename columns."""
    alias = node.args.get("alias")
    if alias is not None:
        refuse_unread(alias, frozenset({"this"}))


def _conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a condition that are joined by AND, so that mistakes in each of them can be reported."""
    return node.flatten(unnest=False) if isinstance(node, exp.And) else iter([node])


# -- windows


def ticks(duration: exp.Expr, clock: DataType) -> int:
    """A duration in ticks of a clock: with a unit for TIMESTAMPs, without one for ordinals."""
    with_unit = duration.args.get("unit") != ""
    if with_unit != (clock == TIMESTAMP):
        hint = "an ordinal clock has no units: write a number" if with_unit else "give it a unit, such as 5 MINUTES"
        raise refuse(Code.BAD_DURATION, f"this length does not fit a {clock} clock", duration, hint)
    return int(duration.this.name)


def _positive(duration: exp.Expr, clock: DataType, what: str) -> int:
    length = ticks(duration, clock)
    if length <= 0:
        raise refuse(Code.BAD_WINDOW, f"{what} must be positive", duration, "write at least one tick of the clock")
    return length


def _window_of_clause(clause: query_syntax.WindowClause, clock: DataType) -> Window:
    kind = clause.args["kind"]
    if kind == "UNBOUNDED":
        return UNBOUNDED
    if kind == "NOW":
        return Window(1)
    if kind == "ROWS" and clock == TIMESTAMP:
        hint = "declare a BIGINT clock that counts the rows, or use RANGE"
        raise refuse(Code.BAD_WINDOW, "ROWS needs a stream whose clock is an ordinal", clause, hint)
    slide, origin = clause.args.get("slide"), clause.args.get("origin")
    range_ = _positive(clause.args["range"], clock, "the range")
    every = _positive(slide, clock, "the slide") if slide is not None else 1
    return Window(range_, every, (_origin(origin, clock) if origin is not None else 0) % every)


def _origin(node: exp.Expr, clock: DataType) -> int:
    if isinstance(node, exp.Literal):
        moment = parse_timestamp(node.name)
        if moment is None or clock != TIMESTAMP:
            hint = "write ORIGIN TIMESTAMP '2024-01-01 00:00:00'"
            raise refuse(Code.BAD_LITERAL, f"'{node.name}' is no origin for a {clock} clock", node, hint)
        return moment
    return ticks(node, clock)


def _window_of_table(table: query_syntax.WindowTable, clock: DataType) -> Window:
    kind, lengths = table.args["kind"], table.expressions
    wanted = (2, 3) if kind == "HOP" else (1, 2)
    if len(lengths) not in wanted:
        hint = f"write {kind}(stream, clock, {'slide, ' * (kind == 'HOP')}range[, origin])"
        raise refuse(Code.BAD_WINDOW, f"{kind} has {len(lengths)} lengths", table, hint)
    slide = _positive(lengths[0], clock, "the slide")
    range_ = _positive(lengths[1], clock, "the range") if kind == "HOP" else slide
    origin = ticks(lengths[-1], clock) if len(lengths) == wanted[1] else 0
    return Window(range_, slide, origin % slide)
