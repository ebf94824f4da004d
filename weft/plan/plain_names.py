"""Relations without the names that users gave: what means the same is written the same.

Inputs are called t0, t1, … in their order, and the columns of relations below the root c0, c1, … Two queries that read
the same subquery under other names then have it in common. The names of a query's own answers stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.algebra import Call, Column, Expression, Field, Input, Output, Relation, Select, SetOperation, Source


def plainly_named(relation: Relation) -> Relation:
    """A query's relation with plain names for all but its answers."""
    plain = without_names(relation)
    if isinstance(plain, SetOperation):
        return replace(plain, fields=relation.fields)
    named = zip(plain.outputs, relation.fields, strict=True)
    return replace(plain, outputs=tuple(replace(each, name=field.name) for each, field in named))


def without_names(relation: Relation) -> Relation:
    """A relation with plain names for everything."""
    if isinstance(relation, SetOperation):
        fields = tuple(Field(f"c{number}", each.type) for number, each in enumerate(relation.fields))
        return replace(relation, left=without_names(relation.left), right=without_names(relation.right), fields=fields)
    columns: dict[tuple[str, str], tuple[str, str]] = {}
    inputs = []
    for position, item in enumerate(relation.inputs):
        source, alias = _plain_source(item.source), f"t{position}"
        # Names may repeat; then the last one is meant, as everywhere.
        for known, plain in zip(item.source.fields, source.fields, strict=True):
            columns[item.alias, known.name] = alias, plain.name
        inputs.append(Input(source, alias, item.window))

    def renamed(expression: Expression) -> Expression:
        return _renamed(expression, columns)

    return replace(
        relation,
        inputs=tuple(inputs),
        where=None if relation.where is None else renamed(relation.where),
        keys=tuple(map(renamed, relation.keys)),
        aggregates=tuple(replace(each, args=tuple(map(renamed, each.args))) for each in relation.aggregates),
        outputs=tuple(Output(f"c{n}", renamed(each.expression)) for n, each in enumerate(relation.outputs)),
    )


def _plain_source(source: Source) -> Source:
    return without_names(source) if isinstance(source, (Select, SetOperation)) else source


def _renamed(expression: Expression, columns: Mapping[tuple[str, str], tuple[str, str]]) -> Expression:
    if isinstance(expression, Column):
        return Column(*columns[expression.source, expression.name], expression.type)
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_renamed(arg, columns) for arg in expression.args))
    return expression
