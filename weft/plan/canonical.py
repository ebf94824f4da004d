"""The forms in which relations are compared and run: normal, without users' names, with ordered operands.

**Normal**: every operator has one job, and reads rows where they are kept. A selection below another select becomes
part of it, so that windows and joins read the streams' own logs, history included. An aggregate or a window over a join
becomes a select over the join, so that the joined rows can be kept like those of any other source. An aggregate that a
join reads gives its bare groups, and HAVING and the select list become part of the join: joins that differ in a
threshold read the same groups. DISTINCT over history becomes a select over the rows that it looks at.

**Without names**: inputs are called t0, t1, … in their order, and columns c0, c1, … Two queries that read the same
subquery under other names then share it. The columns of a query's own answers keep their names.

**Ordered operands**: the operands of a set operator are sorted where their order does not matter.

    B UNION A,  A UNION B                  →   A UNION B
    (C UNION A) UNION B                    →   (A UNION B) UNION C       the first two are a relation of their own
    (A EXCEPT C) EXCEPT B                  →   (A EXCEPT B) EXCEPT C

That holds between window instances, and over history as long as everything is remembered. With RETAIN <interval> it
does not: what an inner operator lets through decides what the outer one remembers. UNION ALL passes rows through, in
any order. The names of the columns are those of the first operand, whichever it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from weft.algebra import (
    AggregateRef,
    Call,
    Column,
    Expression,
    Field,
    Input,
    KeyRef,
    Literal,
    Output,
    Relation,
    Select,
    SetOperation,
    SetOperator,
    Source,
    WindowBound,
)
from weft.algebra.codec import dumps
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
    return _over_rows(select) if select.distinct and select.retain is not None else select


def _normalised_source(source: Source, for_join: bool) -> Source:
    if not isinstance(source, (Select, SetOperation)):
        return source
    below = normalised(source)
    if for_join and isinstance(below, Select) and below.is_grouped and not below.distinct and below.retain is None:
        return _over_groups(below)
    return below


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
    columns = _columns_of(outputs, _GROUPS)
    return Select(
        inputs=(Input(replace(select, outputs=outputs, having=None), _GROUPS),),
        where=None if select.having is None else substituted(select.having, columns),
        outputs=tuple(replace(each, expression=substituted(each.expression, columns)) for each in select.outputs),
        clock_type=select.clock_type,
    )


def _columns_of(outputs: Sequence[Output], alias: str) -> dict[Expression, Expression]:
    """The columns in which a select above finds what expressions give."""
    return {each.expression: Column(alias, each.name, each.expression.type) for each in outputs}


def _over_rows(select: Select) -> Select:
    """SELECT DISTINCT k + 1 AS x FROM s RETAIN …  →  SELECT DISTINCT x FROM (SELECT k + 1 AS x FROM s) RETAIN …"""
    outputs = tuple(Output(f"x{number}", each.expression) for number, each in enumerate(select.outputs))
    rows = replace(select, outputs=outputs, distinct=False, retain=None)
    return Select(
        inputs=(Input(rows, _ROWS),),
        where=None,
        outputs=tuple(
            Output(each.name, Column(_ROWS, inner.name, inner.expression.type))
            for each, inner in zip(select.outputs, outputs, strict=True)
        ),
        clock_type=select.clock_type,
        distinct=True,
        retain=select.retain,
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
        wheres = ((inner.where, renamed), (select.where, meaning))
        conditions = [substituted(where, names) for where, names in wheres if where is not None]
        inputs = list(select.inputs)
        inputs[position] = replace(item, source=below.source)
        select = replace(
            with_expressions(select, partial(substituted, meaning=meaning)),
            inputs=tuple(inputs),
            where=Call("and", tuple(conditions), BOOLEAN) if len(conditions) > 1 else next(iter(conditions), None),
        )
    return select


def with_expressions(select: Select, change: Callable[[Expression], Expression]) -> Select:
    """A select with other expressions in WHERE, keys, aggregates and outputs."""
    return replace(
        select,
        where=None if select.where is None else change(select.where),
        keys=tuple(map(change, select.keys)),
        aggregates=tuple(replace(each, args=tuple(map(change, each.args))) for each in select.aggregates),
        outputs=tuple(replace(each, expression=change(each.expression)) for each in select.outputs),
    )


def with_subqueries(select: Select, change: Callable[[Relation], Relation]) -> Select:
    """A select with other relations in FROM; streams, tables and answers stay."""
    inputs = (
        replace(each, source=change(each.source)) if isinstance(each.source, (Select, SetOperation)) else each
        for each in select.inputs
    )
    return replace(select, inputs=tuple(inputs))


def substituted(expression: Expression, meaning: Mapping[Expression, Expression]) -> Expression:
    """An expression in which some parts are replaced by other expressions."""
    if isinstance(expression, Call) and expression not in meaning:
        return replace(expression, args=tuple(substituted(arg, meaning) for arg in expression.args))
    return meaning.get(expression, expression)


def _apart(select: Select) -> Select:
    """A select over the join of its inputs, which gives all that is computed of a combination.

    SELECT k, SUM(v * 2) FROM a, b … GROUP BY window(…), k
      →  SELECT x0, SUM(x1) FROM (SELECT a.k AS x0, b.v * 2 AS x1 FROM a, b …) GROUP BY window(…), x0
    """
    expressions = [
        *select.keys,
        *(arg for each in select.aggregates for arg in each.args),
        *(each.expression for each in select.outputs),
    ]
    used = dict.fromkeys(value for each in expressions for value in _values(each))
    outputs = tuple(Output(f"x{number}", value) for number, value in enumerate(used))
    join = Select(inputs=select.inputs, where=select.where, outputs=outputs, clock_type=select.clock_type)
    columns = _columns_of(outputs, _JOINED)
    over_join = replace(select, inputs=(Input(join, _JOINED),), where=None)
    return with_expressions(over_join, partial(substituted, meaning=columns))


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


# -- without names ----------------------------------------------------------------------------------------------------


def plainly_named(relation: Relation) -> Relation:
    """A query's relation with plain names for all but its answers."""
    plain = without_names(relation)
    if isinstance(plain, SetOperation):
        return replace(plain, fields=relation.fields)
    named = zip(plain.outputs, relation.fields, strict=True)
    return replace(plain, outputs=tuple(replace(each, name=field.name) for each, field in named))


def without_names(relation: Relation) -> Relation:
    """A relation with plain names for everything."""
    if isinstance(relation, Select) and _has_plain_inputs(relation):
        return _with_plain_outputs(relation)
    if isinstance(relation, SetOperation):
        fields = tuple(Field(f"c{number}", each.type) for number, each in enumerate(relation.fields))
        return replace(relation, left=without_names(relation.left), right=without_names(relation.right), fields=fields)
    columns: dict[tuple[str, str], tuple[str, str]] = {}
    inputs = []
    for position, item in enumerate(relation.inputs):
        source, alias = item.source, f"t{position}"
        if isinstance(source, (Select, SetOperation)):
            source = without_names(source)
        # Names may repeat; then the last one is meant, as everywhere.
        for known, plain in zip(item.source.fields, source.fields, strict=True):
            columns[item.alias, known.name] = alias, plain.name
        inputs.append(Input(source, alias, item.window))

    def renamed(expression: Expression) -> Expression:
        if isinstance(expression, Column):
            return Column(*columns[expression.source, expression.name], expression.type)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(map(renamed, expression.args)))
        return expression

    select = with_expressions(replace(relation, inputs=tuple(inputs)), renamed)
    return _with_plain_outputs(select)


def _has_plain_inputs(select: Select) -> bool:
    """Whether inputs are called t0, t1, … and have the columns that their user declared."""
    return all(
        each.alias == f"t{position}" and not isinstance(each.source, (Select, SetOperation))
        for position, each in enumerate(select.inputs)
    )


def _with_plain_outputs(select: Select) -> Select:
    return replace(select, outputs=tuple(Output(f"c{n}", each.expression) for n, each in enumerate(select.outputs)))


# -- ordered operands -------------------------------------------------------------------------------------------------


def with_ordered_operands(relation: Relation, key: Callable[[Relation], str] = dumps) -> Relation:
    """A relation whose set operators have their operands in the order of a key, at every level."""
    if isinstance(relation, Select):
        return with_subqueries(relation, partial(with_ordered_operands, key=key))
    first, *others = (with_ordered_operands(each, key) for each in operands_of(relation))
    if is_free(relation):
        if relation.operator is not SetOperator.EXCEPT:
            first, *others = sorted([first, *others], key=key)
        others = sorted(others, key=key)
    combined = first
    for each in others:
        combined = replace(relation, left=combined, right=each)
    return combined


def operands_of(operation: SetOperation) -> list[Relation]:
    """What a chain of the same operator combines. Of EXCEPT only the first may be a chain."""
    found: list[Relation] = []
    waiting: list[Relation] = [operation]
    while waiting:
        each = waiting.pop()
        if isinstance(each, SetOperation) and _continues(each, operation):
            goes_on = operation.operator is not SetOperator.EXCEPT or not found
            waiting += [each.right, each.left] if goes_on else []
            if goes_on:
                continue
        found.append(each)
    return found


def _continues(inner: SetOperation, outer: SetOperation) -> bool:
    own, others = ((each.operator, each.all, each.window, each.retain) for each in (inner, outer))
    return inner is outer or (own == others and is_free(outer))


def is_free(operation: SetOperation) -> bool:
    """Whether the order of operands does not matter."""
    return operation.retain is None or operation.retain.ticks is None
