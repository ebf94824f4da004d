"""Which windows share a tree, and which kernel keeps which measure: the optimizer's decision for one stream.

What decides are nanoseconds: of kernels, for as many keys as there are, and of reading partials, of which there are as
many as rows come (see `CostTerms`). Answers do not depend on any of it.

Trees are reused when queries come and go, since to build one takes all partials that are stored. So trees go on as they
are until most of a tree is unused, or there are too many of them; and until another process takes over:

    a window goes     its tree no longer answers it
    a window comes    it answers for what is still to come, in a tree of its own, which needs nothing that is stored
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from weft.algebra import Window
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import why_not
from weft.kernels.kernel_choice import ChosenKernel, choose
from weft.kernels.kernel_cost import DUE_AWARE, Demand, cost_per_tick, demand
from weft.kernels.statistic import Statistic
from weft.optimizer.aggregates.stream_shapes import Measure, Woven
from weft.optimizer.weave.costing import Acq, AcqMeasure, Costing, demands_of, edges_of_all
from weft.optimizer.weave.dendrogram import Weaving
from weft.optimizer.weave.weave import weave
from weft.plan.facts import StreamFacts, nearest_power
from weft.plan.nodes import TreeSpec
from weft.windows.counting import edge_rate
from weft.windows.slicing import shared_edges

#: The keys that a grouped query is assumed to have until they are measured.
SOME_KEYS = 64

#: Nanoseconds that a tree spends on a partial of the finest cut, for each statistic, and on a cycle, whatever comes.
#: Measured on one core of a busy AMD EPYC; the prices of kernels are in `weft/kernels/kernel_cost.py`.
_PARTIAL = 50
_CYCLE = 250_000


@dataclass(frozen=True)
class CostTerms:
    """What the trees of a cohort are weighed by: the number of keys, and the cost of reading for one more tree.

    `reading` is in nanoseconds per tick. With few rows it is little, and windows that cut time differently are better
    apart; the more partials there are, the more trees are merged. The finest cut has no more partials than rows have
    come, and no more than keys times its slices: past that, rows cost nothing.
    """

    keys: int
    reading: Fraction

    @property
    def costing(self) -> Costing:
        return Costing(keys={frozenset(): self.keys})


def number_of_keys(keys: Sequence[str], facts: StreamFacts) -> int:
    """How many groups a key set is taken to have."""
    return facts.number_of_keys(keys) or SOME_KEYS


def cost_terms(keys: Sequence[str], asked: Iterable[Acq], edges: Fraction, facts: StreamFacts) -> CostTerms:
    """The terms of queries with these keys, for a stream whose finest cut has a number of edges per tick."""
    number = number_of_keys(keys, facts)
    # A tree for all of them has so many kernels.
    statistics = len({measure for query in asked for measure in query.measures})
    most = edges * number
    partials = most if facts.rows_per_tick is None else min(most, facts.rows_per_tick)
    per_cycle = Fraction(_CYCLE) / facts.ticks_per_cycle if facts.ticks_per_cycle else Fraction(0)
    # A window that comes or goes changes the finest cut a little, and must not change the trees of all others.
    return CostTerms(number, statistics * _PARTIAL * nearest_power(partials) + per_cycle)


def planned_trees(conditions: frozenset[str], shapes: Mapping[str, Woven], terms: CostTerms) -> dict[str, TreeSpec]:
    """The trees that are cheapest for the aggregates of a cohort, by the aggregates' ids."""
    asked = {id_: asked_of(shape) for id_, shape in shapes.items()}
    number_of = _partition(frozenset(asked.values()), terms)
    parts: dict[int, list[str]] = {}
    for id_, query in asked.items():
        parts.setdefault(number_of[query], []).append(id_)
    found: dict[str, TreeSpec] = {}
    for part in parts.values():
        windows = sorted({shapes[id_].window for id_ in part}, key=longest_first)
        measures = dict.fromkeys(each.name for id_ in part for each in shapes[id_].all_measures)
        spec = TreeSpec(conditions, shapes[part[0]].keys, tuple(windows), tuple(measures))
        found |= dict.fromkeys(part, spec)
    return found


@lru_cache(maxsize=10_000)
def _partition(asked: frozenset[Acq], terms: CostTerms) -> Mapping[Acq, int]:
    """Which tree serves each query. A query that comes or goes concerns its own cohort; the others are remembered."""
    if terms.reading >= _cost_of_one_tree(asked, terms):
        # Reading for a second tree would cost more than all that the first one spends.
        return dict.fromkeys(asked, 0)
    plan = _weaving(asked, terms.keys).plan(terms.reading)
    return {query: number for number, group in enumerate(plan.groups) for query in group.members}


def _cost_of_one_tree(asked: frozenset[Acq], terms: CostTerms) -> Fraction:
    """An upper bound on what one tree for all spends: by a kernel that may serve and whose cost is quick to compute."""
    rate, cost = edge_rate(edges_of_all(asked)), Fraction(0)
    for lane, tree in demands_of(dict.fromkeys(asked, 1)).items():
        kernel = "prefix" if "prefix" in lane.measure.kernels else "flatfit"
        cost += cost_per_tick(kernel, tree, rate, keys=terms.keys)
    return cost


@lru_cache(maxsize=1_000)
def _weaving(asked: frozenset[Acq], keys: int) -> Weaving:
    """The dendrogram of some queries: one for all rates, which only decide where it is cut."""
    ordered = sorted(asked, key=lambda each: (longest_first(each.window), sorted(each.measures)))
    return weave(dict.fromkeys(ordered, 1), CostTerms(keys, Fraction(0)).costing)


def longest_first(window: Window) -> tuple[int, int, int]:
    """The order in which a tree has its windows."""
    return -(window.range or 0), window.slide, window.origin


def asked_of(query: Woven) -> Acq:
    """A query as weaving sees it: statistics that the same kernels may serve cost the same."""
    served = {_admitted(each.statistic) for each in query.all_measures}
    return Acq(query.window, frozenset(AcqMeasure(", ".join(kernels), kernels) for kernels in served))


@cache
def _admitted(statistic: Statistic) -> tuple[str, ...]:
    """The kernels that may keep a statistic over many ranges and keys."""
    return tuple(
        name
        for name, algorithm in ALGORITHMS.items()
        if name in DUE_AWARE and why_not(algorithm, statistic, ranges=2) is None and algorithm.data_independent
    )


def kernels_of(spec: TreeSpec, measures: Mapping[str, Measure], keys: int) -> dict[str, ChosenKernel]:
    """The kernel that keeps each measure of a tree, for a number of keys."""
    asked: Demand = demand(spec.windows)
    rate = edge_rate(shared_edges(spec.windows))

    @cache
    def nanoseconds_per_edge(kernel: str) -> Fraction:
        return cost_per_tick(kernel, asked, rate, keys=keys) / rate

    return {
        name: choose(measures[name].statistic, ranges=len(spec.windows), keys=keys, cost=nanoseconds_per_edge)
        for name in spec.measures
    }


#: The trees beyond those planned that a cohort may keep.
_MORE_TREES = 3


def reused_trees(
    planned: Collection[TreeSpec], queries: Mapping[str, Woven], newborn: Set[str], known: Iterable[TreeSpec]
) -> dict[str, TreeSpec] | None:
    """The trees that answer the queries of a cohort if those that are `known` are reused; None to build all of them.

    At most one of them is new. It serves queries that are `newborn`, which need nothing that is stored. Those that are
    known come in the order in which they were made: where two have a window, the older one has more of its past.
    """
    needs = {name: {each.name for each in query.all_measures} for name, query in queries.items()}
    homes: dict[str, TreeSpec] = {}
    for spec in known:
        known_windows, measures = set(spec.windows), set(spec.measures)
        fits = {name for name, query in queries.items() if query.window in known_windows and measures >= needs[name]}
        homes |= dict.fromkeys(fits - homes.keys(), spec)
    young = queries.keys() - homes.keys()
    if not homes or not young <= newborn:
        return None
    for spec in set(homes.values()):
        asked = {queries[name].window for name, home in homes.items() if home == spec}
        if 2 * len(asked) < len(spec.windows):
            return None
    if young:
        first = next(iter(planned))
        windows = sorted({queries[name].window for name in young}, key=longest_first)
        needed = {measure for name in young for measure in needs[name]}
        # In the order of those that are planned, since the first one counts rows.
        in_order = dict.fromkeys(each for spec in planned for each in spec.measures if each in needed)
        homes |= dict.fromkeys(young, TreeSpec(first.conditions, first.keys, tuple(windows), tuple(in_order)))
    return homes if len(set(homes.values())) <= len(planned) + _MORE_TREES else None
