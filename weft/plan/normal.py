"""Relations in the shape that the engine runs: every operator has one job, and looks at rows where they are kept.

A selection below another select becomes part of it, so that windows and joins read the streams' own logs, history
included. An aggregate or a window over a join becomes a select over the join, so that the joined rows can be kept like
those of any other source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.algebra import Aggregate, Call, Column, Expression, Input, Output, Relation, Select, SetOperation, Source
from weft.algebra.types import BOOLEAN
from weft.plan.clockwork import passes_rows

_JOINED = "joined"


def normalised(relation: Relation) -> Relation:
    """The relation with aggregates and windows apart from joins, at every level. Its answers are the same."""
    if isinstance(relation, SetOperation):
        return replace(relation, left=normalised(relation.left), right=normalised(relation.right))
    inputs = tuple(replace(each, source=_normalised_source(each.source)) for each in relation.inputs)
    select = _without_selections(replace(relation, inputs=inputs))
    return _apart(select) if len(inputs) > 1 and (select.window is not None or select.is_grouped) else select


def _normalised_source(source: Source) -> Source:
    return normalised(source) if isinstance(source, (Select, SetOperation)) else source


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
        renamed = {
            Column(below.alias, each.name, each.type): Column(item.alias, each.name, each.type)
            for each in below.source.fields
        }
        meaning = {
            Column(item.alias, each.name, each.expression.type): _substituted(each.expression, renamed)
            for each in inner.outputs
        }
        conditions = [
            *([_substituted(inner.where, renamed)] if inner.where is not None else []),
            *([_substituted(select.where, meaning)] if select.where is not None else []),
        ]
        inputs = list(select.inputs)
        inputs[position] = replace(item, source=below.source)
        select = replace(
            select,
            inputs=tuple(inputs),
            where=Call("and", tuple(conditions), BOOLEAN) if len(conditions) > 1 else next(iter(conditions), None),
            keys=tuple(_substituted(key, meaning) for key in select.keys),
            aggregates=tuple(
                replace(each, args=tuple(_substituted(arg, meaning) for arg in each.args)) for each in select.aggregates
            ),
            outputs=tuple(replace(each, expression=_substituted(each.expression, meaning)) for each in select.outputs),
        )
    return select


def _substituted(expression: Expression, meaning: Mapping[Column, Expression]) -> Expression:
    """An expression in which columns stand for other expressions; the columns of other inputs stay as they are."""
    if isinstance(expression, Column):
        return meaning.get(expression, expression)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_substituted(arg, meaning) for arg in expression.args))
    return expression


def _apart(select: Select) -> Select:
    """A select over the join of its inputs.

    SELECT k, SUM(v) FROM a, b … GROUP BY window(…), k
      →  SELECT k, SUM(v) FROM (SELECT a.k, b.v FROM a, b …) GROUP BY window(…), k
    """
    used = sorted(
        {column for each in _expressions(select) for column in _columns(each)}, key=lambda c: (c.source, c.name)
    )
    outputs = tuple(Output(f"{column.source}.{column.name}", column) for column in used)
    join = Select(inputs=select.inputs, where=select.where, outputs=outputs, clock_type=select.clock_type)
    return replace(
        select,
        inputs=(Input(join, _JOINED),),
        where=None,
        keys=tuple(_over_join(key) for key in select.keys),
        aggregates=tuple(replace(each, args=tuple(_over_join(arg) for arg in each.args)) for each in select.aggregates),
        outputs=tuple(replace(each, expression=_over_join(each.expression)) for each in select.outputs),
    )


def _expressions(select: Select) -> list[Expression]:
    aggregates: tuple[Aggregate, ...] = select.aggregates
    return [
        *select.keys,
        *(arg for each in aggregates for arg in each.args),
        *(each.expression for each in select.outputs),
    ]


def _columns(expression: Expression) -> set[Column]:
    if isinstance(expression, Column):
        return {expression}
    if isinstance(expression, Call):
        return set().union(*(_columns(arg) for arg in expression.args))
    return set()


def _over_join(expression: Expression) -> Expression:
    if isinstance(expression, Column):
        return Column(_JOINED, f"{expression.source}.{expression.name}", expression.type)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_over_join(arg) for arg in expression.args))
    return expression
