"""Relations in the shape that the engine runs: every operator has one job.

An aggregate or a window over a join becomes a select over the join, so that the joined rows can be kept like those of
any other source.
"""

from __future__ import annotations

from dataclasses import replace

from weft.algebra import Aggregate, Call, Column, Expression, Input, Output, Relation, Select, SetOperation, Source

_JOINED = "joined"


def normalised(relation: Relation) -> Relation:
    """The relation with aggregates and windows apart from joins, at every level. Its answers are the same."""
    if isinstance(relation, SetOperation):
        return replace(relation, left=normalised(relation.left), right=normalised(relation.right))
    inputs = tuple(replace(each, source=_normalised_source(each.source)) for each in relation.inputs)
    select = replace(relation, inputs=inputs)
    return _apart(select) if len(inputs) > 1 and (select.window is not None or select.is_grouped) else select


def _normalised_source(source: Source) -> Source:
    return normalised(source) if isinstance(source, (Select, SetOperation)) else source


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
