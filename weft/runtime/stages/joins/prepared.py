"""A group made ready to run: which columns it needs, what Spark computes of them, how its rows find their nodes.

What is prepared here depends on the network and the queries alone, not on any rows: it is made again when these change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from weft.algebra import Column, DataType, Expression, Field, Select, Source, Stream
from weft.algebra.types import BIGINT, BOOLEAN, STRING
from weft.plan.network import Result
from weft.predicates.clauses import Disjunction, set_with
from weft.predicates.row_matching import Conjunction, ParentLabel, RowMatcher
from weft.predicates.terms import columns_of, with_sources
from weft.runtime.columnar.rows import ARRIVAL, column
from weft.runtime.columnar.spark_expressions import spark_sql
from weft.runtime.stages.joins.join_groups import (
    Band,
    GroupNode,
    JoinGroup,
    JoinGroups,
    Use,
    band_of,
    demands,
    hash_of,
    reach_of,
    uses_below,
)
from weft.runtime.stages.joins.row_checks import (
    Columns,
    bounding_condition,
    bounding_predicates,
    clock_of,
    column_of,
    conjunction_of,
    holds,
)
from weft.runtime.stages.operators import Operator

#: Whether a leg of the row came too late for windows; the labels of the nodes that a row is in, and of its parents'.
LATE, NODES = "_late", "_nodes"
PARENT_NODES = ("_left_nodes", "_right_nodes")

#: The rows of tables were there before the first cycle.
_BEFORE_ALL = -1


@dataclass(frozen=True)
class SelectOutput:
    """Where a select's rows are taken: from a node, with a column for each of its outputs."""

    place: str
    node: int
    first: int
    outputs: tuple[tuple[Field, str], ...]


@dataclass(eq=False)
class PreparedGroup:
    """One group, made ready."""

    group: JoinGroup
    columns: Columns
    selects: list[SelectOutput] = field(default_factory=list)
    #: The selects that need its rows.
    uses: list[Use] = field(default_factory=list)
    #: The nodes whose rows later cycles look for, each with the first cycle from whose rows on they do.
    awaited_from: dict[int, int] = field(default_factory=dict)
    #: For each node the selects that need its rows, by place, and the first cycle whose rows each of them sees.
    readers: dict[int, dict[str, int]] = field(default_factory=dict)
    #: The columns of a log that joins refer to, in whatever order they are made.
    joined_by: set[str] = field(default_factory=set)
    sides: tuple[PreparedGroup, ...] = ()
    #: For each side the columns of its keys, if it has any (on executors: the one that holds their number), and the
    #: conditions that
    #: its rows satisfy, as SQL.
    key_columns: tuple[tuple[str, ...], ...] = ()
    side_conditions: tuple[str, ...] = ()
    #: Whether kept rows stay with the executors: see `stage.py`.
    on_executors: bool = False
    evaluator: RowMatcher = field(default_factory=lambda: RowMatcher({}))

    @cached_property
    def band(self) -> Band | None:
        return band_of(self.group, self.uses)

    def ahead(self, side: int) -> tuple[int, int] | tuple[None, None]:
        """How much the clock of a row of a side can be ahead of that of a row of the other; None if by any time."""
        return (None, None) if self.band is None else self.band.ahead(side)

    def band_clock(self, side: int) -> str:
        """The clock of a side's rows that the band of a join is about."""
        if self.band is None:
            return clock_of(0)
        return clock_of((self.band.left, self.band.right)[side] - self.group.first_legs[side])

    @cached_property
    def reach(self) -> dict[Source, int | None]:
        return reach_of(self.uses)

    @cached_property
    def condition(self) -> str:
        """What every needed row of a log satisfies, as SQL; nothing if it is not restricted."""
        # Its columns are read, and not passed on.
        return "" if self._bound is None else spark_sql(self._bound, lambda each: column_of(*self._place(each)))

    @cached_property
    def read_by_condition(self) -> frozenset[str]:
        """The columns of the log that the condition is about."""
        return frozenset(self._place(each)[1] for each in columns_of(self._bound)) if self._bound else frozenset()

    @cached_property
    def _bound(self) -> Expression | None:
        return bounding_condition(bounding_predicates([demands(self.group, node) for node in self.evaluator.nodes]))

    def _place(self, leaf: object) -> tuple[int, str]:
        assert isinstance(leaf, Column)
        return self.columns.place_of(leaf, 0)

    @cached_property
    def first(self) -> int:
        """The first cycle whose rows are seen."""
        return min((each.first for each in self.uses), default=0)

    @property
    def is_timely(self) -> bool:
        """Whether no row that came too late is wanted."""
        return all(each.timely for each in self.group.nodes.values() if len(each.parents) == 2)

    @property
    def stored(self) -> list[tuple[str, DataType]]:
        """The columns of its rows that are passed on, by name."""
        values = [(column_of(*each), self.columns.type_of(column_of(*each))) for each in sorted(self.columns.wanted)]
        clocks = [(clock_of(leg), BIGINT) for leg in range(len(self.group.legs))]
        labels = [(NODES, STRING)] if self.group.sides is not None else []
        return [*values, *clocks, (ARRIVAL, BIGINT), (LATE, BOOLEAN), *labels]


def prepared(groups: JoinGroups, operators: Mapping[str, Operator], *, on_executors: bool) -> tuple[PreparedGroup, ...]:
    """All groups, lower levels first, for the selects of some operators."""
    fields = {log: source.fields for operator in operators.values() for log, source in operator.sources}
    made: dict[str, PreparedGroup] = {}
    for group in groups.groups:
        sides = tuple(made[side.name] for side in group.sides or ())
        columns = Columns(tuple(fields[leg] for leg in group.legs))
        made[group.name] = PreparedGroup(group, columns, sides=sides, on_executors=on_executors)
    for place, (group, result) in groups.results.items():
        operator = operators[place]
        _show(operator, result, made[group.name], made)
        # The group's leg i is the select's input `inputs[i]`.
        inputs = tuple(result.legs.index(leg) for leg in range(len(result.legs)))
        assert isinstance(operator.relation, Select)
        use = Use(operator.relation, inputs, operator.running.start.first, operator.bounds)
        for below, node, found in uses_below(group, result.node, use):
            here = made[below.name]
            here.uses.append(found)
            if found.awaited:
                # A query that is new sees all of a table.
                first = _BEFORE_ALL if below.name.is_table else found.first
                here.awaited_from[node] = min(here.awaited_from.get(node, first), first)
            here.readers.setdefault(node, {})[place] = found.first
    for each in made.values():
        needed = dict.fromkeys((*(select.node for select in each.selects), *each.group.feeding))
        each.evaluator = RowMatcher({node: _conjunction(each, each.group.nodes[node]) for node in needed})
        if each.sides:
            _look_at_sides(each)
    for each in reversed(made.values()):
        for leg, local in each.columns.wanted:
            if each.sides:
                first_right = each.group.first_legs[1]
                side, first = (each.sides[0], 0) if leg < first_right else (each.sides[1], first_right)
                side.columns.wanted.add((leg - first, local))
                if local in each.columns.values:
                    side.columns.values[local] = each.columns.values[local]
    return tuple(made.values())


def _show(operator: Operator, result: Result, here: PreparedGroup, groups: Mapping[str, PreparedGroup]) -> None:
    """Have a select take its columns from a group, and note the columns of logs that a join of it refers to."""
    select, columns = operator.relation, here.columns
    assert isinstance(select, Select)
    inputs = list(zip(select.inputs, result.legs, strict=True))
    names = {item.alias: f"T{leg + 1}" for item, leg in inputs}

    expressions = [with_sources(output.expression, names) for output in select.outputs]
    outputs = tuple(zip(select.fields, map(columns.value_of, expressions), strict=True))
    here.selects.append(SelectOutput(operator.id.text, result.node, operator.running.start.first, outputs))
    if not here.sides:
        return
    if select.where is not None:
        expressions.append(with_sources(select.where, names))
    places = [columns.place_of(each, 0) for expression in expressions for each in columns_of(expression)]
    for item, leg in inputs:
        if isinstance(item.source, Stream):
            # Windows refer to clocks.
            position = next(n for n, each in enumerate(item.source.fields) if each.name == item.source.clock)
            places.append((leg, column(position)))
    for leg, local in places:
        groups[here.group.legs[leg]].joined_by.add(local)


def _conjunction(prepared: PreparedGroup, member: GroupNode) -> Conjunction:
    """All that a row must satisfy to be in a node of its group."""
    group, columns = prepared.group, prepared.columns
    own = conjunction_of(member.predicates, columns)
    if len(member.parents) == 1:
        own = (*_conjunction(prepared, group.nodes[member.parents[0]]), *own)
    elif group.sides is not None:
        for number, side in enumerate(group.sides):
            own = (*_of_parent(prepared, side, number, member.parents[number]), *own)
        if member.timely:
            own = (holds(LATE, False), *own)
    return tuple(dict.fromkeys(own))


def _of_parent(prepared: PreparedGroup, side: JoinGroup, number: int, parent: int) -> Conjunction:
    if side.level:
        return ((ParentLabel(PARENT_NODES[number], parent),),)
    return conjunction_of(set_with(demands(side, parent)), prepared.columns, prepared.group.first_legs[number])


def _look_at_sides(prepared: PreparedGroup) -> None:
    """What the sides of a join must have: the numbers of their keys, and the conditions that they satisfy."""
    group = prepared.group
    keys: list[tuple[str, ...]] = []
    conditions: list[str] = []
    for number, (side, first) in enumerate(zip(prepared.sides, group.first_legs, strict=True)):
        expressions: tuple[Expression, ...] = tuple((key.left, key.right)[number] for key in group.keys)
        if expressions and prepared.on_executors:
            keys.append((_hashed(expressions, side, -first),))
        else:
            keys.append(tuple(side.columns.value_of(each, -first) for each in expressions))
        names = frozenset(f"T{leg + 1}" for leg in range(first, first + len(side.group.legs)))
        joins = [each.predicates.disjunctions for each in group.nodes.values() if len(each.parents) == 2]
        of_joins = [tuple(each for each in disjunctions if each.sources <= names) for disjunctions in joins]
        found = [_condition(of_joins, side.columns, -first)]
        if not side.sides:
            of_parents = [demands(side.group, each) for each in group.parents(number)]
            found.insert(0, _condition(of_parents, side.columns, 0))
        conditions.append(" AND ".join(filter(None, found)))
    prepared.key_columns, prepared.side_conditions = tuple(keys), tuple(conditions)


def _hashed(keys: tuple[Expression, ...], side: PreparedGroup, first_leg: int) -> str:
    """The column that holds the number of a side's keys, as Spark computes it."""
    leaf = side.columns.leaf(first_leg)
    text = hash_of([spark_sql(key, leaf) for key in keys])
    if side.sides:
        return side.columns.computed_as(text, BIGINT)
    read = frozenset(side.columns.place_of(each, first_leg)[1] for key in keys for each in columns_of(key))
    return side.columns.value_of_leg(0, text, BIGINT, read)


def _condition(nodes: Iterable[tuple[Disjunction, ...]], columns: Columns, first_leg: int) -> str:
    condition = bounding_condition(bounding_predicates(list(nodes)))
    return "" if condition is None else spark_sql(condition, columns.leaf(first_leg))
