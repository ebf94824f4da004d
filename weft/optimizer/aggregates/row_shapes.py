"""Aggregates over rows in the driver: what each needs of a row.

Every row is one partial. Its statistics are computed when a window tree or a group reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import weft.algebra as algebra
from weft.expressions.array_expressions import can_be_computed
from weft.kernels.aggregate_functions import FUNCTIONS
from weft.kernels.statistic import Columns
from weft.optimizer.aggregates.stream_shapes import Measure, NotWoven, Woven
from weft.plan.nodes import Condition
from weft.predicates.terms import text_of


@dataclass(frozen=True)
class RowAggregate:
    """An aggregate over rows: its shape for trees and running aggregates, and how its texts are computed for a row."""

    shape: Woven
    keys: Mapping[str, algebra.Expression]
    #: Expressions, or the first cycle that rows must have arrived in.
    conditions: Mapping[str, algebra.Expression | int]
    #: What each measure is a statistic of, by its name.
    arguments: Mapping[str, tuple[algebra.Expression, ...]]


def row_aggregate(select: algebra.Select, log: str, first: int) -> RowAggregate:
    """What an aggregate needs of the rows of a log from cycle `first` on. Raises NotWoven."""
    if not select.is_grouped or select.distinct or select.retain is not None or len(select.inputs) > 1:
        raise NotWoven("only aggregates of one input have groups")
    source = select.inputs[0].source
    if isinstance(source, algebra.Stream):
        raise NotWoven("the rows of a stream are not in the driver")
    keys = {text_of(key): key for key in select.keys}
    where = [] if select.where is None else [select.where]
    conditions: dict[str, algebra.Expression | int] = {text_of(each): each for each in where}
    arguments: dict[str, tuple[algebra.Expression, ...]] = {}
    measures = tuple(tuple(_measures_of(each, arguments)) for each in select.aggregates)
    after = [each.expression for each in select.outputs] + ([select.having] if select.having is not None else [])
    values = [*where, *(each for of in arguments.values() for each in of)]
    keyed = [key for key in select.keys if not isinstance(key, algebra.Column)]
    if not all(map(can_be_computed, [*keyed, *values, *after])):
        raise NotWoven("it uses functions that are evaluated by Spark")
    assert select.window is not None
    if isinstance(source, algebra.Answers):
        # The log of what another query answers has rows from before this query as well.
        conditions[f"arrived since {first}"] = first
    shape = Woven(
        log,
        select,
        select.window,
        tuple(map(Condition, conditions)),
        tuple(text_of(key) for key in select.keys),
        measures,
    )
    return RowAggregate(shape, keys, conditions, arguments)


def _measures_of(
    aggregate: algebra.Aggregate, arguments: dict[str, tuple[algebra.Expression, ...]]
) -> Iterator[Measure]:
    """The measures of an aggregate; what they are statistics of is noted among the `arguments`."""
    function = FUNCTIONS.get(aggregate.function)
    if function is None or aggregate.distinct:
        raise NotWoven(f"{aggregate.function.upper()} needs the values themselves")
    types = [each.type for each in aggregate.args]
    for need in function.needs(types):
        needed = tuple(aggregate.args[place] for place in need.arguments if place < len(types))
        name = f"rows' {need.statistic.name}({', '.join(f'{text_of(each)} {each.type}' for each in needed)})"
        arguments[name] = needed
        yield Measure(name, need.statistic, (), _not_read)


def _not_read(columns: object) -> Columns:
    raise AssertionError("records are computed from rows")
