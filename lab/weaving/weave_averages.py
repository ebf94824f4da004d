"""Averages: a query of several measures is woven as so many queries of one, and put together again if that was in vain.

AVG is SUM and COUNT and a division. Each half may share with plain SUMs and COUNTs, and with other averages' halves:

1. Every measure has a pool: the queries that need it, averages by their halves. Each pool is woven.
2. A query whose parts all ended up alone gains nothing from being taken apart. Such queries leave the pools and are
   woven once more, whole: one operator that keeps all their measures, at as many operations per row and edge.
3. A query with some part shared stays apart.

The engine keeps one record for all measures of a group instead (`lab/weaving/measures.py`), where a row is folded
once whatever the number of measures; this is for operators of one measure each, as Guirguis has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from lab.weaving.costings import Costing, by_overlap
from lab.weaving.plans import Levels, WovenPlan, collapse, number_of_queries, weave
from weft.optimizer.weave.costing import Acq, AcqMeasure, Counted


@dataclass(frozen=True, eq=False)
class AveragesPlan:
    """A plan for each measure, and one for the queries that stay whole, by what they measure."""

    apart: Mapping[AcqMeasure, WovenPlan]
    whole: Mapping[frozenset[AcqMeasure], WovenPlan]

    @property
    def cost(self) -> Fraction:
        return sum((plan.cost for plan in (*self.apart.values(), *self.whole.values())), Fraction(0))

    def is_whole(self, query: Acq) -> bool:
        """Whether a query is served by one operator for all its measures."""
        return query.measures in self.whole and any(
            query in group.members for group in self.whole[query.measures].groups
        )


def weave_averages(
    queries: Iterable[Acq] | Counted,
    rate: Fraction | int,
    levels: Levels = Levels.TWO,
    costing: Costing | None = None,
) -> AveragesPlan:
    """The plan for queries of one measure or several, by operators of one measure each where that helps."""
    costing, rate, counted = costing or by_overlap(), Fraction(rate), collapse(queries)
    apart = {measure: weave(pool, costing).plan(rate, levels) for measure, pool in _pools(counted).items()}
    whole = {query: count for query, count in counted.items() if _is_in_vain(query, apart)}
    shared = {query: count for query, count in counted.items() if query not in whole}
    apart = {measure: weave(pool, costing).plan(rate, levels) for measure, pool in _pools(shared).items()}
    return AveragesPlan(apart, _woven_whole(whole, rate, levels, costing))


def part(query: Acq, measure: AcqMeasure) -> Acq:
    """One measure of a query."""
    return replace(query, measures=frozenset({measure}))


def _pools(queries: Counted) -> dict[AcqMeasure, dict[Acq, int]]:
    pools: dict[AcqMeasure, dict[Acq, int]] = {}
    for query, count in queries.items():
        for measure in sorted(query.measures):
            pool = pools.setdefault(measure, {})
            pool[part(query, measure)] = pool.get(part(query, measure), 0) + count
    return pools


def _is_in_vain(query: Acq, apart: Mapping[AcqMeasure, WovenPlan]) -> bool:
    """Whether taking a query apart let none of its parts share."""
    if len(query.measures) < 2:
        return False
    plans = ((apart[measure], part(query, measure)) for measure in query.measures)
    groups = (plan.groups[plan.number_of(each)] for plan, each in plans)
    return all(number_of_queries(group) == 1 for group in groups)


def _woven_whole(
    queries: Counted, rate: Fraction, levels: Levels, costing: Costing
) -> dict[frozenset[AcqMeasure], WovenPlan]:
    by_measures: dict[frozenset[AcqMeasure], dict[Acq, int]] = {}
    for query, count in queries.items():
        by_measures.setdefault(query.measures, {})[query] = count
    plans = {}
    for measures, pool in by_measures.items():
        # Lanes charge for every measure at the edges; rows and fragments are folded once for each measure as well.
        operations = len(measures)
        charged = replace(costing, row=costing.row * operations, partial=costing.partial * operations)
        plans[measures] = weave(pool, charged).plan(rate, levels)
    return plans
