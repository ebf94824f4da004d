"""Relations in the shape that the engine runs: every operator has one job, and looks at rows where they are kept.

A selection below another select becomes part of it, so that windows and joins read the streams' own logs, history
included. An aggregate or a window over a join becomes a select over the join, so that the joined rows can be kept like
those of any other source. An aggregate that a join reads gives its bare groups, and what HAVING and the select list say
of them is part of the join: joins that differ in a threshold read the same groups. DISTINCT over history becomes a
select over the rows that it looks at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.algebra import (
    AggregateRef,
    Call,
    Column,
    Expression,
    Input,
    KeyRef,
    Literal,
    Output,
    Relation,
    Select,
    SetOperation,
    Source,
    WindowBound,
)
from weft.algebra.types import BOOLEAN
from weft.plan.event_time import is_windowed, passes_rows

_JOINED, _GROUPS, _ROWS = "joined", "groups", "rows"


def normalised(relation: Relation) -> Relation:
    """The relation with every operator apart from the others, at every level. Its answers are the same."""
    if isinstance(relation, SetOperation):
        return replace(relation, left=normalised(relation.left), right=normalised(relation.right))
    is_join = len(relation.inputs) > 1
    inputs = tuple(replace(each, source=_normalised_source(each.source, is_join)) for each in relation.inputs)
    select = _without_selections(replace(relation, inputs=inputs))
    if is_join and (select.window is not None or select.is_grouped):
        select = _apart(select)
    return _over_rows(select) if _remembers(select) else select


def _normalised_source(source: Source, for_join: bool) -> Source:
    if not isinstance(source, (Select, SetOperation)):
        return source
    relation = normalised(source)
    return _over_groups(relation) if for_join and isinstance(relation, Select) and _has_groups(relation) else relation


def _has_groups(select: Select) -> bool:
    return select.is_grouped and not select.distinct and select.retain is None


def _over_groups(select: Select) -> Select:
    """A selection over the bare groups of an aggregate.

    SELECT k * 2 AS d, SUM(v) AS w FROM s [RANGE …] GROUP BY k HAVING SUM(v) > 9
      →  SELECT k0 * 2 AS d, a0 AS w FROM (SELECT k AS k0, SUM(v) AS a0, … FROM s [RANGE …] GROUP BY k) WHERE a0 > 9
    """
    refs: list[KeyRef | AggregateRef | WindowBound] = [
        *(KeyRef(index, key.type) for index, key in enumerate(select.keys)),
        *(AggregateRef(index, aggregate.type) for index, aggregate in enumerate(select.aggregates)),
    ]
    if is_windowed(select):
        refs += [WindowBound(end, select.clock_type) for end in (False, True)]
    outputs = tuple(Output(f"g{number}", ref) for number, ref in enumerate(refs))
    columns: dict[Expression, Expression] = {
        each.expression: Column(_GROUPS, each.name, each.expression.type) for each in outputs
    }
    return Select(
        inputs=(Input(replace(select, outputs=outputs, having=None), _GROUPS),),
        where=None if select.having is None else substituted(select.having, columns),
        outputs=tuple(replace(each, expression=substituted(each.expression, columns)) for each in select.outputs),
        clock_type=select.clock_type,
    )


def _remembers(select: Select) -> bool:
    """Whether it is a DISTINCT over history."""
    return select.distinct and select.retain is not None and not select.is_grouped and select.window is None


def _over_rows(select: Select) -> Select:
    """SELECT DISTINCT k + 1 AS x FROM s RETAIN …  →  SELECT DISTINCT x FROM (SELECT k + 1 AS x FROM s) RETAIN …"""
    outputs = tuple(Output(f"x{number}", each.expression) for number, each in enumerate(select.outputs))
    rows = Select(inputs=select.inputs, where=select.where, outputs=outputs, clock_type=select.clock_type)
    shown = (Column(_ROWS, inner.name, inner.expression.type) for inner in outputs)
    return replace(
        select,
        inputs=(Input(rows, _ROWS),),
        where=None,
        outputs=tuple(replace(each, expression=column) for each, column in zip(select.outputs, shown, strict=True)),
    )


def _without_selections(select: Select) -> Select:
    """A select over what the selections below it read.

    SELECT SUM(t.w) FROM (SELECT v * 2 AS w FROM s WHERE v > 0) t [RANGE …]
      →  SELECT SUM(v * 2) FROM s t [RANGE …] WHERE v > 0
    """
    for position, item in enumerate(select.inputs):
        inner = item.source
        if not (isinstance(inner, Select) and passes_rows(inner) and len(inner.inputs) == 1):
            continue
        below = inner.inputs[0]
        renamed: dict[Expression, Expression] = {
            Column(below.alias, each.name, each.type): Column(item.alias, each.name, each.type)
            for each in below.source.fields
        }
        meaning: dict[Expression, Expression] = {
            Column(item.alias, each.name, each.expression.type): substituted(each.expression, renamed)
            for each in inner.outputs
        }
        conditions = [
            *([substituted(inner.where, renamed)] if inner.where is not None else []),
            *([substituted(select.where, meaning)] if select.where is not None else []),
        ]
        inputs = list(select.inputs)
        inputs[position] = replace(item, source=below.source)
        select = replace(
            select,
            inputs=tuple(inputs),
            where=Call("and", tuple(conditions), BOOLEAN) if len(conditions) > 1 else next(iter(conditions), None),
            keys=tuple(substituted(key, meaning) for key in select.keys),
            aggregates=tuple(
                replace(each, args=tuple(substituted(arg, meaning) for arg in each.args)) for each in select.aggregates
            ),
            outputs=tuple(replace(each, expression=substituted(each.expression, meaning)) for each in select.outputs),
        )
    return select


def substituted(expression: Expression, meaning: Mapping[Expression, Expression]) -> Expression:
    """An expression in which some of the leaves stand for other expressions; all others stay as they are."""
    if isinstance(expression, Call):
        return replace(expression, args=tuple(substituted(arg, meaning) for arg in expression.args))
    return meaning.get(expression, expression)


def _apart(select: Select) -> Select:
    """A select over the join of its inputs, which gives all that is computed of a combination.

    SELECT k, SUM(v * 2) FROM a, b … GROUP BY window(…), k
      →  SELECT x0, SUM(x1) FROM (SELECT a.k AS x0, b.v * 2 AS x1 FROM a, b …) GROUP BY window(…), x0
    """
    used = dict.fromkeys(value for each in _expressions(select) for value in _values(each))
    outputs = tuple(Output(f"x{number}", value) for number, value in enumerate(used))
    join = Select(inputs=select.inputs, where=select.where, outputs=outputs, clock_type=select.clock_type)
    columns: dict[Expression, Expression] = {
        each.expression: Column(_JOINED, each.name, each.expression.type) for each in outputs
    }

    def over_join(expression: Expression) -> Expression:
        if isinstance(expression, Call) and expression not in columns:
            return replace(expression, args=tuple(over_join(arg) for arg in expression.args))
        return columns.get(expression, expression)

    return replace(
        select,
        inputs=(Input(join, _JOINED),),
        where=None,
        keys=tuple(over_join(key) for key in select.keys),
        aggregates=tuple(replace(each, args=tuple(over_join(arg) for arg in each.args)) for each in select.aggregates),
        outputs=tuple(replace(each, expression=over_join(each.expression)) for each in select.outputs),
    )


def _expressions(select: Select) -> list[Expression]:
    return [
        *select.keys,
        *(arg for each in select.aggregates for arg in each.args),
        *(each.expression for each in select.outputs),
    ]


def _values(expression: Expression) -> Iterator[Expression]:
    """The largest parts of an expression that can be computed of a combination alone."""
    if _is_of_rows(expression):
        yield expression
    elif isinstance(expression, Call):
        for arg in expression.args:
            yield from _values(arg)


def _is_of_rows(expression: Expression) -> bool:
    """Whether an expression reads columns, and nothing else."""
    if isinstance(expression, Call):
        leaves = [_is_of_rows(arg) for arg in expression.args if not isinstance(arg, Literal)]
        return bool(leaves) and all(leaves)
    return isinstance(expression, Column)
