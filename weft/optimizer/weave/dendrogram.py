"""Dendrograms: all merges of a weaving, with the cost after each, and the cheapest plan for any rate as a cut of it.

Weave Share never takes a merge back, and an early merge may turn out to be in the way. Where there are only a handful
of leaves the cut is polished: a leaf moves to another tree or to one of its own, two leaves are exchanged, two trees
joined, whichever saves most, while anything does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from weft.optimizer.weave.costing import Acq, Costing, Counted, costs_alone, demands_of, edges_of_all, together
from weft.optimizer.weave.edge_meter import Meter, measured
from weft.optimizer.weave.trees import TreeCost, Trees
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, reduced

# So few leaves are worth polishing; of more, the cut is as good as it gets in the time.
_FEW_LEAVES = 16

#: Leaves by their numbers.
Part: TypeAlias = frozenset[int]
Partition: TypeAlias = frozenset[Part]


@dataclass(frozen=True, eq=False)
class PartitionGroup:
    """Queries that share one tree, which is one cut of the stream."""

    members: Counted
    edges: EdgeSet
    edge_rate: Fraction
    final_cost: Fraction
    """Σ E·Ω over its lanes, per tick."""


@dataclass(frozen=True, eq=False)
class WovenPlan:
    """A partition of queries into groups, for a rate of rows per tick that every group reads."""

    groups: tuple[PartitionGroup, ...]
    rate: Fraction
    exact: bool = True
    """Whether edge rates are exact, or estimated because hundreds of unrelated slides meet too rarely to count."""

    @property
    def cost(self) -> Fraction:
        """What running it costs per tick."""
        return len(self.groups) * self.rate + sum((group.final_cost for group in self.groups), Fraction(0))


def partition_group(members: Counted, costing: Costing) -> PartitionGroup:
    """Some queries as a group."""
    edges = edges_of_all(members)
    rate = edge_rate(edges)
    return PartitionGroup(members, edges, rate, costing.final_cost(demands_of(members), rate))


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
    trees: tuple[TreeCost, ...]
    costing: Costing
    exact: bool
    """Whether edge rates are exact."""

    comparisons: int = 0
    """How many pairs of trees were weighed."""

    @cached_property
    def finals(self) -> tuple[Fraction, ...]:
        """What final aggregation costs after k merges, that is with len(leaves) − k trees."""
        total = sum((tree.final for tree in self.trees[: len(self.leaves)]), Fraction(0))
        finals = [total]
        for number, (left, right) in enumerate(self.merges, len(self.leaves)):
            total += self.trees[number].final - self.trees[left].final - self.trees[right].final
            finals.append(total)
        return tuple(finals)

    def cut(self, rate: Fraction | int) -> int:
        """After how many merges a plan is cheapest at this rate; of equals the one with the fewest merges."""
        costs = [(len(self.leaves) - k) * rate + final for k, final in enumerate(self.finals)]
        return costs.index(min(costs))

    def trees_after(self, merges: int) -> list[int]:
        """The numbers of the trees that are left after `merges` merges."""
        gone = {tree for pair in self.merges[:merges] for tree in pair}
        return [tree for tree in range(len(self.leaves) + merges) if tree not in gone]

    def group(self, tree: int) -> PartitionGroup:
        return self._group_of(self._leaves_of(tree))

    def plan_after(self, merges: int, rate: Fraction | int) -> WovenPlan:
        """The plan after `merges` merges, cheapest or not."""
        return WovenPlan(tuple(map(self.group, self.trees_after(merges))), Fraction(rate), self.exact)

    def plan(self, rate: Fraction | int) -> WovenPlan:
        """The cheapest plan found for `rate` rows per tick; never dearer than sharing all or nothing.

        >>> from weft.algebra import Window
        >>> from weft.optimizer.weave.costing import Acq
        >>> from weft.optimizer.weave.weave import weave
        >>> queries = [Acq(Window(160, 4)), Acq(Window(100, 5)), Acq(Window(80, 4))]
        >>> weaving = weave(dict.fromkeys(queries, 1), Costing(("panes",)))
        >>> [len(weaving.plan(rate).groups) for rate in (1, 100)]
        [2, 1]
        """
        cut = self.cut(rate)
        is_small = self.exact and len(self.leaves) <= _FEW_LEAVES
        plan = self._polished(cut, Fraction(rate)) if is_small else self.plan_after(cut, rate)
        return self._unless_alone_is_cheaper(plan)

    def _polished(self, cut: int, rate: Fraction) -> WovenPlan:
        """The cut and its neighbours, each with its leaves moved to where they are best off."""

        def cost(partition: Partition) -> Fraction:
            return len(partition) * rate + sum(map(self._final, partition), Fraction(0))

        starts = range(max(0, cut - 1), min(len(self.merges), cut + 1) + 1)
        found = [
            polished(frozenset(map(self._leaves_of, self.trees_after(merges))), self._final, rate) for merges in starts
        ]
        best = min(found, key=cost)
        return WovenPlan(tuple(self._group_of(part) for part in sorted(best, key=sorted)), rate, self.exact)

    def _leaves_of(self, tree: int) -> Part:
        below, waiting = [], [tree]
        while waiting:
            number = waiting.pop()
            if number < len(self.leaves):
                below.append(number)
            else:
                waiting += self.merges[number - len(self.leaves)]
        return frozenset(below)

    @cached_property
    def _costs_of_parts(self) -> dict[Part, TreeCost]:
        return {self._leaves_of(number): tree for number, tree in enumerate(self.trees)}

    def _final(self, part: Part) -> Fraction:
        return self._cost_of(part).final

    def _cost_of(self, part: Part) -> TreeCost:
        known = self._costs_of_parts.get(part)
        if known is None:
            members = together(self.leaves[leaf].members for leaf in part)
            rate = edge_rate(self._edges_of(part))
            known = self._costs_of_parts[part] = TreeCost(rate, self.costing.final_cost(demands_of(members), rate))
        return known

    def _edges_of(self, part: Iterable[int]) -> EdgeSet:
        return reduced(frozenset().union(*(self.leaves[leaf].edges for leaf in part)))

    def _group_of(self, part: Part) -> PartitionGroup:
        members = together(self.leaves[leaf].members for leaf in sorted(part))
        return PartitionGroup(members, self._edges_of(part), *self._cost_of(part))

    def _unless_alone_is_cheaper(self, plan: WovenPlan) -> WovenPlan:
        """Leaves are not taken apart by cuts; some Ω would want even equal queries apart when rows are rare."""
        queries = together(leaf.members for leaf in self.leaves)
        number = sum(queries.values())
        if number == len(plan.groups) or number * plan.rate >= plan.cost:
            return plan
        counts = np.array(list(queries.values()))
        if float(number * plan.rate) + float(counts @ costs_alone(list(queries), self.costing)) >= float(plan.cost):
            return plan
        alone = (partition_group({query: 1}, self.costing) for query, count in queries.items() for _ in range(count))
        return min(plan, WovenPlan(tuple(alone), plan.rate), key=lambda candidate: candidate.cost)


# -- polishing ------------------------------------------------------------------------------------------------------


def polished(start: Partition, final: Callable[[Part], Fraction], rate: Fraction) -> Partition:
    """A partition that no single move makes cheaper, found by steepest descent.

    A partition costs `final` of each of its parts, and `rate` for each.
    """
    best = start
    while True:
        gain, better = Fraction(0), best
        for taken, given in _moves(best):
            saved = sum(map(final, taken), Fraction(0)) - sum(map(final, given), Fraction(0))
            saved += (len(taken) - len(given)) * rate
            if saved > gain:
                gain, better = saved, (best - taken) | given
        if better is best:
            return best
        best = better


def _moves(partition: Partition) -> Iterator[tuple[Partition, Partition]]:
    """Parts that are taken out of a partition, and parts that are put there instead."""
    parts = sorted(partition, key=sorted)
    for part in parts:
        if len(part) > 1:
            for leaf in sorted(part):
                yield frozenset({part}), frozenset({part - {leaf}, frozenset({leaf})})
    for one, other in combinations(parts, 2):
        both = frozenset({one, other})
        yield both, frozenset({one | other})
        for leaf in sorted(one | other):
            home, away = (one, other) if leaf in one else (other, one)
            if len(home) > 1:
                yield both, frozenset({home - {leaf}, away | {leaf}})
        if len(one) > 1 or len(other) > 1:
            for left in sorted(one):
                for right in sorted(other):
                    yield both, frozenset({one - {left} | {right}, other - {right} | {left}})


# -- nearest groups -------------------------------------------------------------------------------------------------


def nearest_neighbours(parts: Sequence[Iterable[Acq]], costing: Costing) -> dict[int, tuple[int, Fraction]]:
    """For each part of a partition the one that it would best be merged with, and what final aggregation would cost
    more then; nothing for a single part.

    Merging two parts would save reading. They are apart because that is not more than what it adds.
    """
    members = [together({query: 1} for query in part) for part in parts]
    if len(members) < 2:
        return {}
    edges = [edges_of_all(each) for each in members]

    def nearest(meter: Meter) -> dict[int, tuple[int, Fraction]]:
        trees = Trees(costing, meter)
        numbers = [trees.add(cut, demands_of(each)) for cut, each in zip(edges, members, strict=True)]
        found = {}
        for number in numbers:
            others = [other for other in numbers if other != number]
            benefits, _ = trees.benefits(number, others, trees.rates_together(number, others))
            best = others[int(benefits.argmax())]
            found[number] = best, -trees.exact_benefit(number, best)
        return found

    return measured(edges, nearest)
