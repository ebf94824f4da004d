"""Fabric: the groups of a plan that queries enter and leave, as trees that can be merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lab.weaving.costings import Costing
from lab.weaving.plans import Levels, WovenPlan, assembled, plan_cost, reading_cost
from weft.algebra import Window
from weft.kernels.kernel_cost import Demand
from weft.optimizer.weave.costing import (
    Acq,
    Demands,
    Lane,
    demands_of,
    edges_of,
    edges_of_all,
    lanes_of,
    merged_demands,
)
from weft.optimizer.weave.dendrogram import PartitionGroup
from weft.optimizer.weave.edge_meter import TooLongError, estimating_meter, exact_meter
from weft.optimizer.weave.trees import Trees
from weft.windows.counting import edge_rate, estimated_edge_rate
from weft.windows.slicing import EdgeSet, bounded_range, reduced

# Trees are numbered on and on, and tables by number grow; from so many on they are numbered anew.
_MOST_NUMBERS = 1 << 16

# So many ticks are looked at where the edges of all groups together can only be estimated.
_HORIZON = 1 << 20


@dataclass(slots=True)
class _Group:
    """Queries that share a tree, and the tree's number, which changes whenever they do."""

    members: dict[Acq, int]
    edges: EdgeSet
    tree: int
    cuts: Counter[EdgeSet] | None = None
    """How many different members want each set of edges; counted when the first one leaves."""

    def forget(self, query: Acq) -> None:
        """Takes a member out, and with it the edges that nobody else wants."""
        if self.cuts is None:
            self.cuts = Counter(edges_of(member) for member in self.members)
        del self.members[query]
        wanted = edges_of(query)
        self.cuts[wanted] -= 1
        if not self.cuts[wanted]:
            del self.cuts[wanted]
            self.edges = reduced(frozenset().union(*self.cuts))

    def absorb(self, other: _Group) -> None:
        """Takes the members and edges of another group."""
        self.members.update(other.members)
        self.edges = reduced(self.edges | other.edges)
        self.cuts = None


class Fabric:
    """Groups, and where each query is."""

    def __init__(self, costing: Costing, groups: Iterable[PartitionGroup] = ()) -> None:
        """Takes over the groups of a plan."""
        self._costing = costing
        self._groups: list[_Group] = []
        self._homes: dict[Acq, _Group] = {}
        for group in groups:
            self._take_over(group)
        self._trees: Trees | None = None
        self._exact = True
        self._union: EdgeSet | None = None
        self._counted = 0
        if self._groups:
            self._weigh_anew()

    @property
    def is_empty(self) -> bool:
        return not self._groups

    @property
    def comparisons(self) -> int:
        """How many pairs of trees were weighed."""
        return self._counted + (self._trees.comparisons if self._trees is not None else 0)

    def insert(self, query: Acq, count: int, rate: Fraction, levels: Levels) -> None:
        """Puts a query where equal ones are, or where it saves most."""
        home = self._homes.get(query)
        if home is not None:
            home.members[query] += count
            demands = merged_demands(self._the_trees().demands[home.tree], demands_of({query: count}))
            self._replant(home, demands)
            return
        group = _Group({query: count}, edges_of(query), -1)
        self._groups.append(group)
        self._homes[query] = group
        if self._union is not None:
            self._union = reduced(self._union | group.edges)
        with suppress(TooLongError):
            group.tree = self._trees.add(group.edges, demands_of(group.members)) if self._trees is not None else -1
        if group.tree < 0 or group.tree >= _MOST_NUMBERS:
            # The first tree of all, one that the meter has no room for, or one of very many over the years.
            self._weigh_anew()
        self._settle(group, rate, levels)

    def remove(self, query: Acq, count: int, rate: Fraction, levels: Levels) -> None:
        """Takes a query out of its group; what is left may go well with another one."""
        home = self._homes[query]
        demands = demands_without(self._the_trees().demands[home.tree], query, count)
        home.members[query] -= count
        if not home.members[query]:
            home.forget(query)
            del self._homes[query]
            self._union = None
        if home.members:
            self._replant(home, demands)
            self._settle(home, rate, levels)
        else:
            drop(self._the_trees(), home.tree)
            self._groups.remove(home)

    def cost(self, rate: Fraction, levels: Levels) -> Fraction:
        """What the groups cost per tick."""
        final = sum((self._the_trees().known[group.tree].final for group in self._groups), Fraction(0))
        return plan_cost(final, len(self._groups), rate, self._union_rate(levels), levels, self._costing)

    def plan(self, rate: Fraction, levels: Levels) -> WovenPlan:
        """The groups as a plan."""
        trees = self._the_trees()
        groups = []
        for group in self._groups:
            known = trees.known[group.tree]
            members = dict(group.members)
            groups.append(PartitionGroup(members, group.edges, known.edge_rate, known.final))
        union = self._union_rate(Levels.THREE)
        return assembled(tuple(groups), rate, levels, union, self._costing, exact=trees.meter.exact)

    def _take_over(self, group: PartitionGroup) -> None:
        """A group of a plan. Equal queries have one home: where they are met first."""
        at_home = [query for query in group.members if query in self._homes]
        for query in at_home:
            self._homes[query].members[query] += group.members[query]
        members = {query: count for query, count in group.members.items() if query not in self._homes}
        if members:
            taken = _Group(members, edges_of_all(members) if at_home else group.edges, -1)
            self._groups.append(taken)
            self._homes.update(dict.fromkeys(members, taken))

    def _settle(self, group: _Group, rate: Fraction, levels: Levels) -> None:
        try:
            self._merge_while_it_pays(group, rate, levels)
        except TooLongError:
            # Some union cannot be counted exactly; from now on all rates are estimates. The group may have merged.
            self._exact = False
            self._weigh_anew()
            self._merge_while_it_pays(self._homes[next(iter(group.members))], rate, levels)

    def _merge_while_it_pays(self, group: _Group, rate: Fraction, levels: Levels) -> None:
        while len(self._groups) > 1:
            others = [other for other in self._groups if other is not group]
            best = self._nearest(group, others)
            benefit = self._the_trees().exact_benefit(group.tree, best.tree)
            if benefit + self._reading_saved(rate, levels) <= 0:
                return
            group = self._merged(group, best)

    def _nearest(self, group: _Group, others: list[_Group]) -> _Group:
        """The group with the highest benefit; of equals the first."""
        trees = self._the_trees()
        numbers = [other.tree for other in others]
        benefits, margin = trees.benefits(group.tree, numbers, trees.rates_together(group.tree, numbers))
        floor = float(benefits.max()) - 2 * margin
        near = [other for other, benefit in zip(others, benefits.tolist(), strict=True) if benefit >= floor]
        if len(near) == 1:
            return near[0]
        return max(near, key=lambda other: trees.exact_benefit(group.tree, other.tree))

    def _merged(self, one: _Group, other: _Group) -> _Group:
        """The larger group takes the members of the smaller."""
        larger, smaller = (one, other) if len(one.members) >= len(other.members) else (other, one)
        larger.tree = self._the_trees().join(one.tree, other.tree)
        larger.absorb(smaller)
        for query in smaller.members:
            self._homes[query] = larger
        self._groups.remove(smaller)
        return larger

    def _reading_saved(self, rate: Fraction, levels: Levels) -> Fraction:
        """What one group less saves in reading."""
        groups, union = len(self._groups), self._union_rate(levels)
        now, then = (reading_cost(m, rate, union, levels, self._costing) for m in (groups, groups - 1))
        return now - then

    def _union_rate(self, levels: Levels) -> Fraction:
        """E of all groups together, where it matters."""
        if levels is Levels.TWO:
            return Fraction(0)
        if self._union is None:
            self._union = reduced(frozenset().union(*(group.edges for group in self._groups)))
        if self._the_trees().meter.exact:
            return edge_rate(self._union)
        # Not to be counted in reasonable time, so without trying.
        return estimated_edge_rate(self._union, _HORIZON)

    def _replant(self, group: _Group, demands: Demands) -> None:
        """A new tree in the place of a group's old one."""
        trees = self._the_trees()
        drop(trees, group.tree)
        group.tree = trees.add(group.edges, demands)

    def _weigh_anew(self) -> None:
        """Starts over with a meter that suits all groups."""
        self._counted = self.comparisons
        known = self._trees.demands if self._trees is not None else {}
        demands = [known.get(group.tree) or demands_of(group.members) for group in self._groups]
        edges = [group.edges for group in self._groups]
        every_edge = frozenset().union(*map(edges_of, self._homes))
        meters = (exact_meter([*edges, every_edge]) if self._exact else None, estimating_meter([*edges, every_edge]))
        for meter in meters:
            if meter is None:
                continue
            trees = Trees(self._costing, meter)
            try:
                numbers = [trees.add(*tree) for tree in zip(edges, demands, strict=True)]
            except TooLongError:
                continue
            for group, number in zip(self._groups, numbers, strict=True):
                group.tree = number
            self._trees = trees
            return

    def _the_trees(self) -> Trees:
        assert self._trees is not None, "there are no groups yet"
        return self._trees


def drop(trees: Trees, tree: int) -> None:
    """Takes a tree out."""
    trees.meter.drop(tree)
    trees.ledger.remove(tree)
    del trees.demands[tree]


def demands_without(demands: Demands, query: Acq, count: int) -> dict[Lane, Demand]:
    """The demands of a tree that so many of these queries leave; others stay."""
    left = dict(demands)
    for lane in lanes_of(query):
        asked = left.pop(lane)
        if asked.number_of_queries > count:
            left[lane] = _without(asked, query.window, count)
    return left


def _without(asked: Demand, window: Window, count: int) -> Demand:
    reach = bounded_range(window)
    at = int(np.searchsorted(asked.ranges, reach))
    queries, answers = asked.queries.copy(), asked.answers.copy()
    queries[at] -= count
    answers[at] -= count * asked.period // window.slide
    stay = queries > 0
    overlap = asked.overlap - count * -(-reach // window.slide)
    return Demand(asked.ranges[stay], queries[stay], answers[stay], asked.period, overlap)
