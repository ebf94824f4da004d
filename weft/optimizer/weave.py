"""Weave Share: which queries share a tree.

Two trees that become one read their input once instead of twice, and every query in it sees the edges of all others.
Merging pays if the first outweighs the second:

    benefit(x, y)  =  λ  +  F(x) + F(y) − F(x ∪ y)          F = E·Ω, the final aggregation of a tree

Weave Share (Guirguis, "Scalable Processing of Multiple Aggregate Continuous Queries") starts with a tree for each query
and merges the pair with the highest benefit while there is one. TriWeave is the same with the rate of the finest cut in
the place of λ. Either is the same to all pairs, so **the order of merges does not depend on it**; it only says when to
stop. Weaving goes on to a single tree once, and writes down what is left to pay after each merge:

    trees m        5      4      3      2      1
    F             12     12     13     16     21          a plan of m trees costs m·λ + F
    λ = 2         22     20    *19     20     23
    λ = 6         42     36     31     28    *27

Every plan for every rate, two levels or three, is a cut of this one dendrogram, at its cheapest point: it costs no
more than one tree for all (m = 1) or one for each (m = n).

Where the time goes, and what is done about it:

1. Equal queries are one query with a multiplicity. Queries with equal edges are one leaf: merging them saves λ and
   costs nothing, so Weave Share merges them first. A million queries with slides from the 36 factors of 100,000 have
   36 leaves. Where even different edges are too many, queries with equal slides are one leaf.
2. All benefits are computed once and kept (the source's Cost Lookup); a merge computes those of the new tree, and of
   those only what bounds do not settle. Each tree knows its nearest partner: a round looks at one number for each.
3. Benefits are floats; where two are closer than rounding can tell, both are computed exactly, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.kernels.kernel_cost import DUE_AWARE, PRINTED, Omega
from weft.optimizer.acq import (
    Acq,
    Counted,
    collapse,
    demands_of,
    edges_of,
    edges_of_all,
    together,
)
from weft.optimizer.cost_lookup import CostLookup
from weft.optimizer.edge_meter import Meter, TooLongError, estimating_meter, exact_meter
from weft.optimizer.fast_cost import costs_alone
from weft.optimizer.plan_cost import OVERLAP, Costing, Levels, TreeCost, by_overlap, reading_cost
from weft.optimizer.trees import Trees
from weft.optimizer.weave_polish import Part, Partition, polished
from weft.optimizer.woven_plan import PartitionGroup, WovenPlan, assembled, plan_of
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, reduced

# Benefits of all pairs of leaves are held in memory: so many leaves at most.
_MOST_LEAVES = 3_000

# So few leaves are worth polishing; of more, the cut is as good as it gets in the time.
_FEW_LEAVES = 16

# Up to so many different queries, those with equal edges are told apart if a kernel may want them apart.
_FEW_QUERIES = 96

#: Ω for which queries with equal edges are never dearer together: those of which they share the upkeep, or nothing.
_CONTENT_WITH_EQUAL_EDGES: frozenset[Omega] = frozenset(
    {OVERLAP["panes"], *(PRINTED[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba"))}
    | {DUE_AWARE[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba", "prefix", "b_int")}
)


@dataclass(frozen=True, eq=False, slots=True)
class Leaf:
    """Queries that are never told apart: equal ones, and usually all with equal edges."""

    members: Counted
    edges: EdgeSet


@dataclass(frozen=True, eq=False)
class Weaving:
    """The dendrogram: leaves, merges in their order, and what every tree on the way costs.

    Trees are numbered: leaves first, then the tree of each merge.
    """

    leaves: tuple[Leaf, ...]
    merges: tuple[tuple[int, int], ...]
    rates: tuple[Fraction, ...]
    """E of each tree."""

    costs: tuple[Fraction, ...]
    """E·Ω of each tree, over all lanes."""

    union_rate: Fraction
    """E of all queries together."""

    costing: Costing
    exact: bool
    """Whether edge rates are exact."""

    comparisons: int = 0
    """How many pairs of trees were weighed."""

    @cached_property
    def finals(self) -> tuple[Fraction, ...]:
        """What final aggregation costs after k merges, that is with len(leaves) − k trees."""
        total = sum(self.costs[: len(self.leaves)], Fraction(0))
        finals = [total]
        for number, (left, right) in enumerate(self.merges, len(self.leaves)):
            total += self.costs[number] - self.costs[left] - self.costs[right]
            finals.append(total)
        return tuple(finals)

    def cut(self, rate: Fraction | int, levels: Levels = Levels.TWO) -> int:
        """After how many merges a plan is cheapest at this rate; of equals the one with the fewest merges."""
        rate = Fraction(rate)
        costs = (
            reading_cost(len(self.leaves) - k, rate, self.union_rate, levels, self.costing) + final
            for k, final in enumerate(self.finals)
        )
        return min((cost, k) for k, cost in enumerate(costs))[1]

    def cheapest_from(self) -> list[tuple[Fraction, int]]:
        """Cuts that are cheapest at some rate, two levels: (λ, merges), each from that rate on to the next."""
        hull: list[tuple[Fraction, int]] = [(Fraction(0), self.cut(0))]
        while (at := hull[-1][1]) < len(self.merges):
            # From a cut, more merges pay as soon as λ exceeds what they add to F, per tree saved.
            slope, furthest = min(
                ((self.finals[k] - self.finals[at]) / ((k - at) * self.costing.row), -k)
                for k in range(at + 1, len(self.finals))
            )
            hull.append((slope, -furthest))
        return hull

    def trees_after(self, merges: int) -> list[int]:
        """The numbers of the trees that are there after so many merges."""
        gone = {tree for pair in self.merges[:merges] for tree in pair}
        return [tree for tree in range(len(self.leaves) + merges) if tree not in gone]

    def leaves_of(self, tree: int) -> list[int]:
        """The numbers of the leaves below a tree."""
        below, waiting = [], [tree]
        while waiting:
            number = waiting.pop()
            if number < len(self.leaves):
                below.append(number)
            else:
                waiting += self.merges[number - len(self.leaves)]
        return sorted(below)

    def group(self, tree: int) -> PartitionGroup:
        """A tree as a group of queries."""
        return self._group_of(frozenset(self.leaves_of(tree)))

    def plan_after(self, merges: int, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The plan after so many merges, cheapest or not."""
        groups = tuple(self.group(tree) for tree in self.trees_after(merges))
        return assembled(groups, Fraction(rate), levels, self.union_rate, self.costing, exact=self.exact)

    def plan(self, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The cheapest plan found for so many rows per tick; never dearer than sharing all or nothing.

        >>> weaving = weave([Window(16, 4), Window(10, 5), Window(8, 4)])
        >>> float(weaving.plan(Fraction(6, 5)).cost), len(weaving.plan(Fraction(6, 5)).groups)
        (4.3, 2)
        """
        rate = Fraction(rate)
        cut = self.cut(rate, levels)
        plan = self._polished(cut, rate, levels) if self.exact and len(self.leaves) <= _FEW_LEAVES else None
        return self._unless_alone_is_cheaper(plan or self.plan_after(cut, rate, levels))

    def _polished(self, cut: int, rate: Fraction, levels: Levels) -> WovenPlan:
        """The cut and its neighbours, each with its leaves moved to where they are best off."""

        def reading(groups: int) -> Fraction:
            return reading_cost(groups, rate, self.union_rate, levels, self.costing)

        def cost(partition: Partition) -> Fraction:
            return reading(len(partition)) + sum(map(self._final, partition), Fraction(0))

        starts = range(max(0, cut - 1), min(len(self.merges), cut + 1) + 1)
        found = [
            polished(
                frozenset(frozenset(self.leaves_of(tree)) for tree in self.trees_after(merges)), self._final, reading
            )
            for merges in starts
        ]
        best = min(found, key=cost)
        groups = tuple(self._group_of(part) for part in sorted(best, key=sorted))
        return assembled(groups, rate, levels, self.union_rate, self.costing, exact=self.exact)

    @cached_property
    def _finals_of_parts(self) -> dict[Part, TreeCost]:
        return {
            frozenset(self.leaves_of(tree)): TreeCost(self.rates[tree], self.costs[tree])
            for tree in range(len(self.rates))
        }

    def _final(self, part: Part) -> Fraction:
        return self._cost_of(part).final

    def _cost_of(self, part: Part) -> TreeCost:
        known = self._finals_of_parts.get(part)
        if known is None:
            members = together(self.leaves[leaf].members for leaf in part)
            rate = edge_rate(self._edges_of(part))
            known = self._finals_of_parts[part] = TreeCost(rate, self.costing.final_cost(demands_of(members), rate))
        return known

    def _edges_of(self, part: Iterable[int]) -> EdgeSet:
        return reduced(frozenset().union(*(self.leaves[leaf].edges for leaf in part)))

    def _group_of(self, part: Part) -> PartitionGroup:
        members = together(self.leaves[leaf].members for leaf in sorted(part))
        cost = self._cost_of(part)
        return PartitionGroup(members, self._edges_of(part), cost.edge_rate, cost.final, self.costing)

    def _unless_alone_is_cheaper(self, plan: WovenPlan) -> WovenPlan:
        """Leaves are not taken apart by cuts; some Ω would want even equal queries apart when rows are rare."""
        if _is_content(self.costing):
            return plan
        queries = together(leaf.members for leaf in self.leaves)
        number = sum(queries.values())
        reading = reading_cost(number, plan.rate, plan.union_rate, plan.levels, plan.costing)
        if number == len(plan.groups) or reading >= plan.cost:
            return plan
        counts = np.array(list(queries.values()))
        if float(reading) + float(counts @ costs_alone(list(queries), self.costing)) >= float(plan.cost):
            return plan
        alone = plan_of(
            [{query: 1} for query, count in queries.items() for _ in range(count)],
            plan.rate,
            plan.levels,
            self.costing,
        )
        return min(plan, alone, key=lambda candidate: candidate.cost)


def weave(
    queries: Iterable[Acq | Window] | Counted,
    costing: Costing | None = None,
    *,
    start: Iterable[Counted] | None = None,
) -> Weaving:
    """The dendrogram of these queries, by the overlap factor unless another costing is given.

    With `start`, weaving goes on from these groups of them.
    """
    costing = costing or by_overlap()
    if start is not None:
        leaves = [Leaf(dict(part), edges_of_all(part)) for part in start]
    else:
        leaves = _leaves(collapse(queries), costing)
    if not leaves:
        raise ValueError("there is nothing to weave: give at least one query")
    edges = [leaf.edges for leaf in leaves]
    meter = exact_meter(edges)
    if meter is not None:
        try:
            return _Loom(leaves, costing, meter).weave()
        except TooLongError:
            # Some union could not be counted. All rates must come from one meter, so it begins again.
            pass
    return _Loom(leaves, costing, estimating_meter(edges)).weave()


def _leaves(queries: Counted, costing: Costing) -> list[Leaf]:
    if len(queries) <= _FEW_QUERIES and not _is_content(costing):
        return [Leaf({query: count}, edges_of(query)) for query, count in queries.items()]
    by_edges: dict[EdgeSet, dict[Acq, int]] = {}
    known: dict[Window, EdgeSet] = {}
    for query, count in queries.items():
        window = query.window
        edges = known.get(window)
        if edges is None:
            edges = known[window] = edges_of(query)
        by_edges.setdefault(edges, {})[query] = count
    leaves = [Leaf(members, edges) for edges, members in by_edges.items()]
    return leaves if len(leaves) <= _MOST_LEAVES else _coarser(leaves)


def _coarser(leaves: list[Leaf]) -> list[Leaf]:
    """Fewer leaves than there are edge sets: those with equal slides together, and rare slides with frequent ones.

    A slide joins the one that it adds fewest edges to, of its own: of its edges a share gcd/slide of the other meets an
    edge there.
    """
    by_slide: dict[int, dict[Acq, int]] = {}
    for leaf in leaves:
        for query, count in leaf.members.items():
            by_slide.setdefault(query.window.slide, {})[query] = count
    frequent = sorted(by_slide, key=lambda slide: (-len(by_slide[slide]), slide))[:_MOST_LEAVES]
    kept = np.array(sorted(frequent))
    for slide in sorted(by_slide.keys() - set(frequent)):
        meets = np.gcd(kept, slide) / kept
        by_slide[int(kept[np.flatnonzero(meets == meets.max())[-1]])].update(by_slide.pop(slide))
    return [Leaf(by_slide[slide], edges_of_all(by_slide[slide])) for slide in kept.tolist()]


def _is_content(costing: Costing) -> bool:
    """Whether queries with equal edges are never dearer together. With several kernels, each may want another."""
    return len(costing.kernels) == 1 and costing.omegas[costing.kernels[0]] in _CONTENT_WITH_EQUAL_EDGES


class _Loom:
    """A weaving that is going on.

    A tree has a number, which it keeps, and a slot in the lookup, which it inherits: a merged tree takes the lower of
    the two that it is made of.
    """

    def __init__(self, leaves: list[Leaf], costing: Costing, meter: Meter) -> None:
        self._leaves = leaves
        self._trees = Trees(costing, meter)
        self._slots = [self._trees.add(leaf.edges, demands_of(leaf.members)) for leaf in leaves]
        self._lookup = CostLookup(len(leaves))

    def weave(self) -> Weaving:
        for slot in range(1, len(self._leaves)):
            self._weigh(slot, np.arange(slot))
        merges = []
        for _ in range(len(self._leaves) - 1):
            left, right = self._best_pair()
            one, other = sorted((self._slots[left], self._slots[right]))
            merges.append((one, other))
            self._merge(left, right)
        trees = self._trees
        rates = tuple(tree.edge_rate for tree in trees.known)
        costs = tuple(tree.final for tree in trees.known)
        return Weaving(
            tuple(self._leaves),
            tuple(merges),
            rates,
            costs,
            rates[-1],
            trees.costing,
            trees.meter.exact,
            trees.comparisons,
        )

    def _merge(self, left: int, right: int) -> None:
        """Puts one tree in the place of two: in slot `left`, which is the lower."""
        lookup, parts = self._lookup, (self._slots[left], self._slots[right])
        others = lookup.others(left, right)
        trees = [self._slots[slot] for slot in others.tolist()]
        rates_of_parts = lookup.rates[np.ix_(np.array([left, right]), others)]
        self._slots[left] = tree = self._trees.join(*parts)
        lookup.drop(right)
        if trees and self._trees.ledger.rises_with_rate:
            # For want of the edge rate, what the benefit is at most: few pairs are ever looked at again.
            least = self._trees.least_rates(tree, parts, trees, rates_of_parts)
            benefits = self._trees.benefits(tree, trees, least, or_higher=True)
            lookup.fill(left, others, *benefits, least, known=False)
        elif trees:
            self._weigh(left, others)

    def _weigh(self, slot: int, others: NDArray[np.int64]) -> None:
        """Looks up the benefit of merging a tree with each of the others."""
        tree, trees = self._slots[slot], [self._slots[other] for other in others.tolist()]
        rates = self._trees.rates_together(tree, trees)
        self._lookup.fill(slot, others, *self._trees.benefits(tree, trees, rates), rates, known=True)

    def _best_pair(self) -> tuple[int, int]:
        """The slots of the pair with the highest benefit, the lower one first; of equals the first pair."""
        while True:
            pairs = self._lookup.highest()
            unknown = next((left for left, right in pairs if not self._lookup.known[left, right]), None)
            if unknown is not None:
                self._weigh(unknown, self._lookup.most_promising(unknown))
            elif len(pairs) == 1:
                return pairs[0]
            else:
                return max(pairs, key=lambda pair: (self._exact_benefit(*pair), -pair[0], -pair[1]))

    def _exact_benefit(self, left: int, right: int) -> Fraction:
        return self._trees.exact_benefit(self._slots[left], self._slots[right])
