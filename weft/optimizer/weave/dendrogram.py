"""Dendrograms: all merges of a weaving, with the cost after each, and the cheapest plan for any rate as a cut of it.

Weave Share never takes a merge back, and an early merge may turn out to be in the way. Where there are only a handful
of leaves the cut is polished: a leaf moves to another tree or to one of its own, two leaves are exchanged, two trees
joined, whichever saves most, while anything does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

import numpy as np

from weft.kernels.kernel_cost import DUE_AWARE, PRINTED, Omega
from weft.optimizer.weave.acq import Counted, demands_of, together
from weft.optimizer.weave.costing import OVERLAP, Costing, Levels, TreeCost, reading_cost
from weft.optimizer.weave.fast_cost import costs_alone
from weft.optimizer.weave.woven_plan import PartitionGroup, WovenPlan, assembled, plan_of
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, reduced

# So few leaves are worth polishing; of more, the cut is as good as it gets in the time.
_FEW_LEAVES = 16

#: Ω for which queries with equal edges are never dearer together: those of which they share the upkeep, or nothing.
_CONTENT_WITH_EQUAL_EDGES: frozenset[Omega] = frozenset(
    {OVERLAP["panes"], *(PRINTED[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba"))}
    | {DUE_AWARE[kernel] for kernel in ("panes", "flatfit", "slickdeque_inv", "two_stacks", "daba", "prefix", "b_int")}
)

#: Leaves by their numbers.
Part: TypeAlias = frozenset[int]
Partition: TypeAlias = frozenset[Part]


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

    def trees_after(self, merges: int) -> list[int]:
        """The numbers of the trees that are left after `merges` merges."""
        gone = {tree for pair in self.merges[:merges] for tree in pair}
        return [tree for tree in range(len(self.leaves) + merges) if tree not in gone]

    def leaves_of(self, tree: int) -> list[int]:
        below, waiting = [], [tree]
        while waiting:
            number = waiting.pop()
            if number < len(self.leaves):
                below.append(number)
            else:
                waiting += self.merges[number - len(self.leaves)]
        return sorted(below)

    def group(self, tree: int) -> PartitionGroup:
        return self._group_of(frozenset(self.leaves_of(tree)))

    def plan_after(self, merges: int, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The plan after `merges` merges, cheapest or not."""
        groups = tuple(self.group(tree) for tree in self.trees_after(merges))
        return assembled(groups, Fraction(rate), levels, self.union_rate, self.costing, exact=self.exact)

    def plan(self, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The cheapest plan found for `rate` rows per tick; never dearer than sharing all or nothing.

        >>> from weft.algebra import Window
        >>> from weft.optimizer.weave.weave import weave
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
        if is_content(self.costing):
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


def is_content(costing: Costing) -> bool:
    """Whether queries with equal edges are never dearer together. With several kernels, each may want another."""
    return len(costing.kernels) == 1 and costing.omegas[costing.kernels[0]] in _CONTENT_WITH_EQUAL_EDGES


# -- polishing ------------------------------------------------------------------------------------------------------


def polished(start: Partition, final: Callable[[Part], Fraction], reading: Callable[[int], Fraction]) -> Partition:
    """A partition that no single move makes cheaper, found by steepest descent.

    A partition costs `final` of each of its parts, and `reading` of their number.
    """
    best = start
    while True:
        moves = ((_saved(taken, given, final), taken, given) for taken, given in _moves(best))
        size = len(best)
        gain, _, better = max(
            (
                (saved + reading(size) - reading(size - len(taken) + len(given)), number, (best - taken) | given)
                for number, (saved, taken, given) in enumerate(moves)
            ),
            key=lambda candidate: (candidate[0], -candidate[1]),
            default=(Fraction(0), 0, best),
        )
        if gain <= 0:
            return best
        best = better


def _saved(taken: Partition, given: Partition, final: Callable[[Part], Fraction]) -> Fraction:
    return sum(map(final, taken), Fraction(0)) - sum(map(final, given), Fraction(0))


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
