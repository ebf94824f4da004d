"""Woven plans: which queries share a tree, where each tree cuts the stream, which kernel serves what; and the cost.

A group has a nearest one: the group that it would best be merged with. Merging the two would save reading (λ, or E with
three levels) and add to final aggregation; they are apart because the second is not less than the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from weft.optimizer.weave.acq import Acq, Counted, Lane, demands_of, edges_of_all
from weft.optimizer.weave.costing import Costing, Levels, plan_cost, reading_cost
from weft.optimizer.weave.edge_meter import TooLongError, estimating_meter, exact_meter
from weft.optimizer.weave.trees import Trees
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, reduced


@dataclass(frozen=True, eq=False)
class PartitionGroup:
    """Queries that share one tree: one cut of the stream, and a kernel for each lane."""

    members: Counted
    edges: EdgeSet
    edge_rate: Fraction
    final_cost: Fraction
    """Σ E·Ω over its lanes, per tick."""

    costing: Costing = field(repr=False)

    @property
    def number_of_queries(self) -> int:
        return sum(self.members.values())

    @cached_property
    def kernels(self) -> Mapping[Lane, str]:
        """The kernel that serves each lane: the cheapest that may."""
        asked = demands_of(self.members)
        return {lane: self.costing.lane_cost(lane, demand, self.edge_rate)[1] for lane, demand in asked.items()}

    def __iter__(self) -> Iterator[Acq]:
        return iter(self.members)


@dataclass(frozen=True, eq=False)
class WovenPlan:
    """A partition of queries into groups, and what running it costs per tick."""

    groups: tuple[PartitionGroup, ...]
    rate: Fraction
    """Rows per tick."""

    levels: Levels
    union_rate: Fraction
    """Edges per tick of all groups together: the finest cut, which three levels make once."""

    cost: Fraction
    costing: Costing = field(repr=False)
    exact: bool = True
    """Whether edge rates are exact, or estimated because hundreds of unrelated slides meet too rarely to count."""

    @cached_property
    def _groups_by_query(self) -> Mapping[Acq, int]:
        return {query: number for number, group in enumerate(self.groups) for query in group.members}

    def number_of(self, query: Acq) -> int:
        if query not in self._groups_by_query:
            raise ValueError(f"{query} is not in this plan")
        return self._groups_by_query[query]

    @property
    def number_of_queries(self) -> int:
        return sum(group.number_of_queries for group in self.groups)


def partition_group(members: Counted, costing: Costing) -> PartitionGroup:
    edges = edges_of_all(members)
    rate = edge_rate(edges)
    return PartitionGroup(members, edges, rate, costing.final_cost(demands_of(members), rate), costing)


def plan_of(
    partition: Iterable[Counted | Sequence[Acq]], rate: Fraction, levels: Levels, costing: Costing
) -> WovenPlan:
    """Any partition of queries as a plan: each part may be a list of queries, or queries with multiplicities."""
    groups = tuple(partition_group(_counted(part), costing) for part in partition)
    union = edge_rate(reduced(frozenset().union(*(group.edges for group in groups))))
    return assembled(groups, rate, levels, union, costing)


def assembled(
    groups: tuple[PartitionGroup, ...],
    rate: Fraction,
    levels: Levels,
    union_rate: Fraction,
    costing: Costing,
    *,
    exact: bool = True,
) -> WovenPlan:
    """A plan of groups that are costed already."""
    cost = plan_cost([group.final_cost for group in groups], len(groups), rate, union_rate, levels, costing)
    return WovenPlan(groups, rate, levels, union_rate, cost, costing, exact)


def _counted(part: Counted | Sequence[Acq]) -> dict[Acq, int]:
    if isinstance(part, Mapping):
        return dict(part)
    counted: dict[Acq, int] = {}
    for query in part:
        counted[query] = counted.get(query, 0) + 1
    return counted


# -- nearest groups -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NearestNeighbour:
    """The group that a group would best be merged with, and why they are two."""

    group: int
    saved: Fraction
    """What one group less would save in reading, per tick."""
    added: Fraction
    """What the two groups' final aggregation would cost more, together."""


def nearest_neighbours(plan: WovenPlan) -> dict[int, NearestNeighbour]:
    """For each group the one that it would best be merged with; none in a plan of one group."""
    if len(plan.groups) < 2:
        return {}
    try:
        return _nearest(plan, exact=plan.exact)
    except TooLongError:
        return _nearest(plan, exact=False)


def _nearest(plan: WovenPlan, *, exact: bool) -> dict[int, NearestNeighbour]:
    edges = [group.edges for group in plan.groups]
    trees = Trees(plan.costing, (exact_meter(edges) if exact else None) or estimating_meter(edges))
    for group in plan.groups:
        trees.add(group.edges, demands_of(group.members))
    groups = len(plan.groups)
    now, then = (reading_cost(m, plan.rate, plan.union_rate, plan.levels, plan.costing) for m in (groups, groups - 1))
    found = {}
    for number in range(groups):
        others = [other for other in range(groups) if other != number]
        benefits, _ = trees.benefits(number, others, trees.rates_together(number, others))
        nearest = others[int(benefits.argmax())]
        added = -trees.exact_benefit(number, nearest)
        found[number] = NearestNeighbour(nearest, now - then, added)
    return found
