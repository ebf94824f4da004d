"""Which windows share a tree, and which kernel keeps which measure: the optimizer's decision for one stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from weft.aggregation.choice import Choice, choose
from weft.aggregation.cost import DUE_AWARE, operations_per_edge
from weft.aggregation.demand import Demand, demand
from weft.aggregation.kernel import why_not
from weft.aggregation.kernels import ALGORITHMS
from weft.aggregation.statistic import Statistic
from weft.algebra import Window
from weft.engine.woven.measures import Measure
from weft.engine.woven.shape import Woven
from weft.engine.woven.tree import TreeSpec
from weft.optimizer import acq
from weft.optimizer.plan_cost import Levels, by_operations
from weft.optimizer.weave import weave
from weft.windows import edge_rate, shared_edges

#: How many keys a grouped query is taken to have until it has been seen.
SOME_KEYS = 64

#: From so many windows on, one tree is taken without a search. Prefix spends 1 per edge and 1 per answer, FlatFIT 3 per
#: answer: edges that are shared only save, so with them no split is cheaper, and one of the two serves every statistic.
_TOO_MANY_TO_SPLIT = 32


@dataclass(frozen=True)
class Grouping:
    """The trees of a stream: which one answers each query, and the kernels of each."""

    tree_of: Mapping[str, TreeSpec]
    kernels: Mapping[TreeSpec, Mapping[str, Choice]]


def grouped(queries: Mapping[str, Woven]) -> Grouping:
    """The trees that answer some queries of one stream, by the queries' names.

    Queries of other rows, or by other keys, have no kernel in common; among those that may, weaving decides.
    """
    cohorts: dict[tuple[frozenset[str], tuple[str, ...]], list[str]] = {}
    for name, each in queries.items():
        conditions = frozenset(condition.text for condition in each.conditions)
        cohorts.setdefault((conditions, each.keys), []).append(name)
    tree_of: dict[str, TreeSpec] = {}
    kernels: dict[TreeSpec, Mapping[str, Choice]] = {}
    for (conditions, keys), names in cohorts.items():
        for part in _woven({name: queries[name] for name in names}):
            windows = sorted({queries[name].window for name in part}, key=_longest_first)
            measures = {each.name: each for name in part for each in queries[name].all_measures}
            spec = TreeSpec(conditions, keys, tuple(windows), tuple(measures))
            kernels[spec] = _kernels(spec, measures)
            tree_of |= dict.fromkeys(part, spec)
    return Grouping(tree_of, kernels)


def _woven(queries: Mapping[str, Woven]) -> list[list[str]]:
    """The names of the queries that share a tree, tree by tree."""
    asked = {name: asked_of(each) for name, each in queries.items()}
    number_of = _partition(frozenset(asked.values()))
    parts: dict[int, list[str]] = {}
    for name, query in asked.items():
        parts.setdefault(number_of[query], []).append(name)
    return list(parts.values())


@lru_cache(maxsize=10_000)
def _partition(asked: frozenset[acq.Acq]) -> Mapping[acq.Acq, int]:
    """Which tree serves each query. A query that comes or goes concerns its own cohort; the others are remembered."""
    if len({query.window for query in asked}) > _TOO_MANY_TO_SPLIT:
        return dict.fromkeys(asked, 0)
    # With three levels, which is what one reduction for all of them makes, the rate of rows decides nothing.
    ordered = sorted(asked, key=lambda each: (_longest_first(each.window), sorted(each.measures)))
    plan = weave(ordered, by_operations()).plan(Fraction(1), Levels.THREE)
    return {query: plan.number_of(query) for query in asked}


def _longest_first(window: Window) -> tuple[int, int, int]:
    return -(window.range or 0), window.slide, window.origin


def asked_of(query: Woven) -> acq.Acq:
    """A query as weaving sees it: statistics that the same kernels may serve cost the same."""
    served = {_admitted(each.statistic) for each in query.all_measures}
    return acq.Acq(query.window, frozenset(acq.Measure(", ".join(kernels), kernels) for kernels in served))


@cache
def _admitted(statistic: Statistic) -> tuple[str, ...]:
    """The kernels that may keep a statistic over many ranges and keys."""
    return tuple(
        name
        for name, algorithm in ALGORITHMS.items()
        if name in DUE_AWARE
        and why_not(algorithm, statistic, ranges=2) is None
        and (statistic.exact or not algorithm.inverts)
        and algorithm.data_independent
    )


def _kernels(spec: TreeSpec, measures: Mapping[str, Measure]) -> dict[str, Choice]:
    asked: Demand = demand(spec.windows)
    rate = edge_rate(shared_edges(spec.windows))
    ranges, keys = len(spec.windows), SOME_KEYS if spec.keys else 1
    return {
        name: choose(
            measure.statistic,
            ranges=ranges,
            keys=keys,
            cost=lambda kernel: operations_per_edge(kernel, asked, rate),
        )
        for name, measure in measures.items()
    }
