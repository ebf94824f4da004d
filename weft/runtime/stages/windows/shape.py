"""Which queries can be woven, and what each of them needs."""

from __future__ import annotations

from dataclasses import dataclass

from weft.algebra import Column, Query, Select, Stream, Window
from weft.plan.sharing import ONLY_AGGREGATES
from weft.runtime.columnar.expressions import Leaf, spark_sql
from weft.runtime.columnar.rows import column
from weft.runtime.stages.windows.expressions import can_be_computed
from weft.runtime.stages.windows.measures import Measure, NotMeasured, latest_clock, measures_of, rows_counted
from weft.runtime.stages.windows.signatures import Condition, conditions_of


@dataclass(frozen=True)
class Woven:
    """An aggregate over one stream, windowed or never closing, as the woven stage sees it."""

    stream: str
    select: Select
    window: Window
    conditions: tuple[Condition, ...]
    keys: tuple[str, ...]
    #: For each aggregate, the measures that it is lowered from.
    measures: tuple[tuple[Measure, ...], ...]

    @property
    def is_running(self) -> bool:
        """Whether its window never closes: groups are answered when they change."""
        return self.window.is_unbounded

    @property
    def all_measures(self) -> tuple[Measure, ...]:
        """Every measure once, with the count of rows, which tells what groups there are."""
        own = [rows_counted(), *([latest_clock()] if self.is_running else [])]
        return tuple(dict.fromkeys([*own, *(measure for each in self.measures for measure in each)]))


class NotWoven(Exception):
    """A query cannot share partials with others; it runs by itself. The text says why."""


def woven(query: Query) -> Woven:
    """What a query needs of the woven stage. Raises NotWoven."""
    select = query.relation
    if not query.sharing:
        raise NotWoven("it was created with SHARING OFF")
    if not isinstance(select, Select) or not select.is_grouped:
        raise NotWoven(ONLY_AGGREGATES)
    stream = select.inputs[0].source
    if len(select.inputs) > 1 or not isinstance(stream, Stream):
        raise NotWoven("it reads more than one stream, or what other queries answer")
    if select.distinct or select.retain is not None:
        raise NotWoven("DISTINCT and RETAIN are evaluated from rows")
    assert select.window is not None
    leaf = leaf_of(stream)
    try:
        measures = tuple(measures_of(each, leaf) for each in select.aggregates)
    except NotMeasured as reason:
        raise NotWoven(str(reason)) from None
    outputs = [each.expression for each in select.outputs]
    if not all(can_be_computed(each) for each in [*outputs, *([select.having] if select.having else [])]):
        raise NotWoven("its select list or HAVING uses functions that are evaluated by Spark")
    return Woven(
        stream.name,
        select,
        select.window,
        conditions_of(select.where, leaf),
        tuple(spark_sql(each, leaf) for each in select.keys),
        measures,
    )


def leaf_of(stream: Stream) -> Leaf:
    """The columns of a stream's rows, by position."""
    positions = {each.name: position for position, each in enumerate(stream.fields)}

    def leaf(expression: object) -> str:
        assert isinstance(expression, Column)
        return column(positions[expression.name])

    return leaf
