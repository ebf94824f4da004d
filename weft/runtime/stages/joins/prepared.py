"""Groups made ready to run: which columns they need, what Spark computes of them, how their rows find their nodes.

What is prepared here depends on the network and the queries alone, not on any rows: it is made again when these change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.algebra import Expression, Select, Stream
from weft.algebra.types import BIGINT
from weft.expressions.spark_expressions import column, spark_sql
from weft.plan.network import Result
from weft.plan.nodes import RelationNode
from weft.predicates.clauses import Disjunction, set_with
from weft.predicates.row_matching import Conjunction, ParentLabel, RowMatcher
from weft.predicates.terms import columns_of, with_sources
from weft.runtime.stages.joins import join_groups, row_checks

#: The rows of tables were there before the first cycle.
_BEFORE_ALL = -1


def prepare(
    groups: join_groups.JoinGroups, operators: Mapping[str, RelationNode], *, on_executors: bool
) -> tuple[join_groups.JoinGroup, ...]:
    """Make all groups ready to run for the selects of some operators; lower levels come first."""
    fields = {log: source.fields for operator in operators.values() for log, source in operator.sources}
    logs: dict[str, join_groups.JoinGroup] = {}
    for group in groups.groups:
        group.columns, group.on_executors = row_checks.Columns(tuple(fields[leg] for leg in group.legs)), on_executors
        if not group.sides:
            logs[group.name] = group
    for place, (group, result) in groups.results.items():
        operator = operators[place]
        _show(operator, result, group, logs)
        # The group's leg i is the select's input `inputs[i]`.
        inputs = tuple(result.legs.index(leg) for leg in range(len(result.legs)))
        assert isinstance(operator.relation, Select)
        use = join_groups.Use(operator.relation, inputs, operator.start.first, operator.bounds)
        for here, node, found in join_groups.uses_below(group, result.node, use):
            here.uses.append(found)
            if found.awaited:
                # A query that is new sees all of a table.
                first = _BEFORE_ALL if here.name.is_table else found.first
                here.awaited_from[node] = min(here.awaited_from.get(node, first), first)
            here.readers.setdefault(node, {})[place] = found.first
    for each in groups.groups:
        needed = dict.fromkeys((*(select.node for select in each.selects), *each.feeding))
        each.evaluator = RowMatcher({node: _conjunction(each, each.nodes[node]) for node in needed})
        if each.sides:
            _look_at_sides(each)
    for each in reversed(groups.groups):
        for leg, local in each.columns.wanted:
            if each.sides:
                first_right = each.first_legs[1]
                side, first = (each.sides[0], 0) if leg < first_right else (each.sides[1], first_right)
                side.columns.wanted.add((leg - first, local))
                if local in each.columns.values:
                    side.columns.values[local] = each.columns.values[local]
    return groups.groups


def _show(
    operator: RelationNode, result: Result, group: join_groups.JoinGroup, logs: Mapping[str, join_groups.JoinGroup]
) -> None:
    """Have a select take its columns from a group, and note the columns of logs that a join of it refers to."""
    select, columns = operator.relation, group.columns
    assert isinstance(select, Select)
    inputs = list(zip(select.inputs, result.legs, strict=True))
    names = {item.alias: f"T{leg + 1}" for item, leg in inputs}

    expressions = [with_sources(output.expression, names) for output in select.outputs]
    outputs = tuple(zip(select.fields, map(columns.value_of, expressions), strict=True))
    group.selects.append(join_groups.SelectOutput(operator.text, result.node, operator.start.first, outputs))
    if not group.sides:
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
        logs[group.legs[leg]].joined_by.add(local)


def _conjunction(group: join_groups.JoinGroup, member: join_groups.GroupNode) -> Conjunction:
    """All that a row must satisfy to be in a node of its group."""
    columns = group.columns
    own = row_checks.conjunction_of(member.predicates, columns)
    if len(member.parents) == 1:
        own = (*_conjunction(group, group.nodes[member.parents[0]]), *own)
    elif group.sides:
        for number, side in enumerate(group.sides):
            own = (*_of_parent(group, side, number, member.parents[number]), *own)
        if member.timely:
            own = (row_checks.holds(join_groups.LATE, False), *own)
    return tuple(dict.fromkeys(own))


def _of_parent(group: join_groups.JoinGroup, side: join_groups.JoinGroup, number: int, parent: int) -> Conjunction:
    if side.level:
        return ((ParentLabel(join_groups.PARENT_NODES[number], parent),),)
    return row_checks.conjunction_of(
        set_with(join_groups.demands(side, parent)), group.columns, group.first_legs[number]
    )


def _look_at_sides(group: join_groups.JoinGroup) -> None:
    """What the sides of a join must have: the numbers of their keys, and the conditions that they satisfy."""
    keys: list[tuple[str, ...]] = []
    conditions: list[str] = []
    for number, (side, first) in enumerate(zip(group.sides, group.first_legs, strict=True)):
        expressions: tuple[Expression, ...] = tuple((key.left, key.right)[number] for key in group.keys)
        if expressions and group.on_executors:
            keys.append((_hashed(expressions, side, -first),))
        else:
            keys.append(tuple(side.columns.value_of(each, -first) for each in expressions))
        names = frozenset(f"T{leg + 1}" for leg in range(first, first + len(side.legs)))
        joins = [each.predicates.disjunctions for each in group.nodes.values() if len(each.parents) == 2]
        of_joins = [tuple(each for each in disjunctions if each.sources <= names) for disjunctions in joins]
        found = [_condition(of_joins, side.columns, -first)]
        if not side.sides:
            of_parents = [join_groups.demands(side, each) for each in group.parents(number)]
            found.insert(0, _condition(of_parents, side.columns, 0))
        conditions.append(" AND ".join(filter(None, found)))
    group.key_columns, group.side_conditions = tuple(keys), tuple(conditions)


def _hashed(keys: tuple[Expression, ...], side: join_groups.JoinGroup, first_leg: int) -> str:
    """The column that holds the number of a side's keys, as Spark computes it."""
    leaf = side.columns.leaf(first_leg)
    text = join_groups.hash_of([spark_sql(key, leaf) for key in keys])
    if side.sides:
        return side.columns.computed_as(text, BIGINT)
    read = frozenset(side.columns.place_of(each, first_leg)[1] for key in keys for each in columns_of(key))
    return side.columns.value_of_leg(0, text, BIGINT, read)


def _condition(nodes: Iterable[tuple[Disjunction, ...]], columns: row_checks.Columns, first_leg: int) -> str:
    condition = row_checks.bounding_condition(row_checks.bounding_predicates(list(nodes)))
    return "" if condition is None else spark_sql(condition, columns.leaf(first_leg))
