"""What an aggregate over rows needs of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.algebra import Aggregate, Answers, Column, Expression, Select, Stream
from weft.kernels.functions import FUNCTIONS
from weft.kernels.statistic import Columns, Statistic
from weft.predicates.terms import text_of
from weft.runtime.stages.windows.expressions import can_be_computed
from weft.runtime.stages.windows.measures import Measure
from weft.runtime.stages.windows.shape import NotWoven, Woven
from weft.runtime.stages.windows.signatures import Condition

_SINCE = "arrived since "

#: Functions whose records are neither numbers nor text.
_SKETCHES = frozenset({"approx_count_distinct", "approx_percentile"})


@dataclass(frozen=True)
class RowStatistic:
    """A statistic of some expressions over a row."""

    statistic: Statistic
    arguments: tuple[Expression, ...]

    @property
    def name(self) -> str:
        listed = ", ".join(f"{text_of(each)} {each.type}" for each in self.arguments)
        return f"rows' {self.statistic.name}({listed})"


@dataclass(frozen=True)
class Derived:
    """An aggregate over rows: as the trees and totals see it, and how its texts are computed of a row."""

    shape: Woven
    keys: Mapping[str, Expression]
    conditions: Mapping[str, Expression]
    statistics: Mapping[str, RowStatistic]


def derived(select: Select, log: str, first: int) -> Derived:
    """What an aggregate needs of the rows of a log from cycle `first` on. Raises NotWoven."""
    if not select.is_grouped or select.distinct or select.retain is not None or len(select.inputs) > 1:
        raise NotWoven("only aggregates of one input have groups")
    source = select.inputs[0].source
    if isinstance(source, Stream):
        raise NotWoven("the rows of a stream are not in the driver")
    keys = {text_of(key): key for key in select.keys}
    conditions = {text_of(select.where): select.where} if select.where is not None else {}
    statistics = [_statistics_of(each) for each in select.aggregates]
    after = [each.expression for each in select.outputs] + ([select.having] if select.having is not None else [])
    values = [*conditions.values(), *(arg for each in statistics for one in each for arg in one.arguments)]
    keyed = [key for key in select.keys if not isinstance(key, Column)]
    if not all(map(can_be_computed, [*keyed, *values, *after])):
        raise NotWoven("it uses functions that are evaluated by Spark")
    assert select.window is not None
    told = [Condition(text) for text in conditions]
    if isinstance(source, Answers):
        # The log of what another query answers has rows from before this query as well.
        told.append(Condition(f"{_SINCE}{first}"))
    shape = Woven(
        log,
        select,
        select.window,
        tuple(told),
        tuple(text_of(key) for key in select.keys),
        tuple(tuple(_measure(one) for one in each) for each in statistics),
    )
    return Derived(shape, keys, conditions, {one.name: one for each in statistics for one in each})


def first_told(condition: str) -> int | None:
    """The cycle that a condition of `derived` says rows must have arrived since; None if it says something else."""
    return int(condition.removeprefix(_SINCE)) if condition.startswith(_SINCE) else None


def _statistics_of(aggregate: Aggregate) -> tuple[RowStatistic, ...]:
    function = FUNCTIONS.get(aggregate.function)
    if function is None or aggregate.distinct or function.holistic or function.name in _SKETCHES:
        raise NotWoven(f"{aggregate.function.upper()} needs the values themselves")
    types = [each.type for each in aggregate.args]
    needs = function.needs(types)
    return tuple(
        RowStatistic(need.statistic, tuple(aggregate.args[place] for place in need.arguments if place < len(types)))
        for need in needs
    )


def _measure(of: RowStatistic) -> Measure:
    def read(columns: object) -> Columns:
        raise AssertionError(f"{of.name} is computed from rows")

    return Measure(of.name, of.statistic, (), read)
