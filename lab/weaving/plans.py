"""Plans of two and three levels, and what they cost: rows read by their trees, partials combined, answers made.

A plan is a partition of the queries into m groups. Every group has edges at a rate Eⱼ (per tick) and spends Ωⱼ
operations at each of them; rows come at a rate of λ per tick.

    Levels.TWO      m·λ + Σ Eⱼ·Ωⱼ          every group reads every row
    Levels.THREE    λ + m·E + Σ Eⱼ·Ωⱼ      one finest cut of the stream, at the union E of all edges, is read by all
                                          groups (TriOps). A single group needs no third level: λ + E·Ω.

The engine weaves for the first alone, with the cost of reading partials in the place of λ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property

from lab.weaving.costings import Costing, by_overlap, is_content
from weft.algebra import Window
from weft.optimizer.weave import dendrogram
from weft.optimizer.weave import weave as product
from weft.optimizer.weave.costing import Acq, Counted, Lane, demands_of, edges_of_all
from weft.optimizer.weave.dendrogram import Leaf, PartitionGroup, partition_group
from weft.optimizer.weave.trees import TreeCost
from weft.windows.counting import edge_rate
from weft.windows.slicing import reduced


class Levels(Enum):
    """Whether groups read rows, or partials of one finest cut."""

    TWO = "two-level"
    THREE = "three-level"


@dataclass(frozen=True, eq=False, kw_only=True)
class WovenPlan(dendrogram.WovenPlan):
    """A partition of queries into groups, and what running it costs per tick."""

    levels: Levels
    union_rate: Fraction
    """Edges per tick of all groups together: the finest cut, which three levels make once."""

    costing: Costing

    @cached_property
    def cost(self) -> Fraction:
        """What running it costs per tick."""
        finals = [group.final_cost for group in self.groups]
        return plan_cost(finals, len(finals), self.rate, self.union_rate, self.levels, self.costing)

    @cached_property
    def _groups_by_query(self) -> Mapping[Acq, int]:
        return {query: number for number, group in enumerate(self.groups) for query in group.members}

    def number_of(self, query: Acq) -> int:
        if query not in self._groups_by_query:
            raise ValueError(f"{query} is not in this plan")
        return self._groups_by_query[query]

    @property
    def number_of_queries(self) -> int:
        return sum(map(number_of_queries, self.groups))


def number_of_queries(group: PartitionGroup) -> int:
    return sum(group.members.values())


def kernels_of(group: PartitionGroup, costing: Costing) -> dict[Lane, str]:
    """The kernel that serves each lane of a group: the cheapest that may, of equals the first."""

    return {
        lane: min(
            costing.kernels_for(lane),
            key=lambda kernel: costing.kernel_cost(kernel, lane, asked, group.edge_rate),
        )
        for lane, asked in demands_of(group.members).items()
    }


def plan_of(
    partition: Iterable[Counted | Sequence[Acq]], rate: Fraction, levels: Levels, costing: Costing
) -> WovenPlan:
    """Any partition of queries as a plan: each part may be a list of queries, or queries with multiplicities."""
    groups = tuple(partition_group(Counter(part), costing) for part in partition)
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
    return WovenPlan(groups=groups, rate=rate, exact=exact, levels=levels, union_rate=union_rate, costing=costing)


def tree_cost(queries: Counted, costing: Costing) -> TreeCost:
    """E and E·Ω of one tree for these queries.

    >>> tree_cost({Acq(Window(16, 4)): 1, Acq(Window(8, 4)): 1}, by_overlap())
    TreeCost(edge_rate=Fraction(1, 4), final=Fraction(3, 2))
    """
    rate = edge_rate(edges_of_all(queries))
    return TreeCost(rate, costing.final_cost(demands_of(queries), rate))


def plan_cost(
    finals: Sequence[Fraction] | Fraction,
    groups: int,
    rate: Fraction,
    union_rate: Fraction,
    levels: Levels,
    costing: Costing,
) -> Fraction:
    """The cost per tick of a plan of `groups` groups, whose final aggregation costs `finals` (or their sum)."""
    final = finals if isinstance(finals, Fraction) else sum(finals, Fraction(0))
    return reading_cost(groups, rate, union_rate, levels, costing) + final


def reading_cost(groups: int, rate: Fraction, union_rate: Fraction, levels: Levels, costing: Costing) -> Fraction:
    """The first terms: what rows and the partials of the finest cut cost."""
    if levels is Levels.TWO or groups <= 1:
        return groups * rate * costing.row
    return rate * costing.row + groups * union_rate * costing.partial


# -- weaving ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Weaving(dendrogram.Weaving):
    """A dendrogram that is cut for two levels or three."""

    costing: Costing

    @property
    def union_rate(self) -> Fraction:
        """E of all queries together."""
        return self.trees[-1].edge_rate

    def plan_after(self, merges: int, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The plan after `merges` merges, cheapest or not."""
        return self._with_levels(super().plan_after(merges, rate), Fraction(rate), levels)

    def plan(self, rate: Fraction | int, levels: Levels = Levels.TWO) -> WovenPlan:
        """The cheapest plan found for `rate` rows per tick; never dearer than sharing all or nothing.

        >>> weaving = weave([Window(16, 4), Window(10, 5), Window(8, 4)])
        >>> float(weaving.plan(Fraction(6, 5)).cost), len(weaving.plan(Fraction(6, 5)).groups)
        (4.3, 2)
        """
        rate = Fraction(rate)
        if levels is Levels.TWO:
            return self._with_levels(super().plan(rate * self.costing.row), rate, levels)
        # A further group costs E, as a tree of two levels costs λ; and a single group nothing at all.
        found = self._with_levels(super().plan(self.union_rate * self.costing.partial), rate, levels)
        return min(found, self.plan_after(len(self.merges), rate, levels), key=lambda each: each.cost)

    def _with_levels(self, plan: dendrogram.WovenPlan, rate: Fraction, levels: Levels) -> WovenPlan:
        return assembled(plan.groups, rate, levels, self.union_rate, self.costing, exact=plan.exact)


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
        found = product.woven([Leaf(dict(part), edges_of_all(part)) for part in start], costing)
    elif is_content(costing):
        found = product.woven(product.leaves_by_edges(collapse(queries)), costing)
    else:
        found = product.weave(collapse(queries), costing)
    return Weaving(
        leaves=found.leaves,
        merges=found.merges,
        trees=found.trees,
        costing=costing,
        exact=found.exact,
        comparisons=found.comparisons,
    )


def collapse(queries: Iterable[Acq | Window] | Counted) -> dict[Acq, int]:
    """Each different query with its multiplicity, in the order of first appearance. A bare window is a query too.

    >>> collapse([Window(8, 4), Window(8, 4)])[Acq(Window(8, 4))]
    2
    """
    if isinstance(queries, Mapping):
        return dict(queries)
    counted = Counter(queries)
    return {query if isinstance(query, Acq) else Acq(query): count for query, count in counted.items()}
