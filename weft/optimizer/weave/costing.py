"""What a plan costs: rows read by its trees, partials combined, answers made.

A plan is a partition of the queries into m groups. Every group has edges at a rate Eⱼ (per tick) and spends Ωⱼ
operations at each of them; rows come at a rate of λ per tick.

    Levels.TWO      m·λ + Σ Eⱼ·Ωⱼ          every group reads every row
    Levels.THREE    λ + m·E + Σ Eⱼ·Ωⱼ      one finest cut of the stream, at the union E of all edges, is read by all
                                          groups (TriOps). A single group needs no third level: λ + E·Ω.

The first terms are Guirguis', "Scalable Processing of Multiple Aggregate Continuous Queries"; Ω is whatever the kernels
spend (`weft/kernels/kernel_cost.py`), counted in operations or in nanoseconds. Costs are exact fractions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from weft.kernels.demand import Demand
from weft.kernels.kernel_cost import DUE_AWARE, MEASURED_PRICES, PRINTED, UNIT_PRICES, Fares, Omega, Prices
from weft.optimizer.weave.acq import Counted, Demands, Lane, demands_of, edges_of_all
from weft.windows.counting import edge_rate

_ONE = Fraction(1)


class Levels(Enum):
    """Whether groups read rows, or partials of one finest cut."""

    TWO = "two-level"
    THREE = "three-level"


@dataclass(frozen=True, eq=False)
class Costing:
    """How to charge for a tree: Ω by kernel, the kernels to choose from, and prices."""

    name: str
    omegas: Mapping[str, Omega]
    kernels: tuple[str, ...]
    """A lane takes the cheapest of these that its measure allows."""

    prices: Prices = field(default_factory=lambda: UNIT_PRICES)
    row: Fraction = _ONE
    """The price of reading a row into an open partial, per group that does."""

    partial: Fraction = _ONE
    """The price of combining a partial of the finest cut into a group's own."""

    keys: Mapping[frozenset[str], int] = field(default_factory=dict)
    """How many group keys there are, by grouping; one where nothing is said."""

    def kernels_for(self, lane: Lane) -> tuple[str, ...]:
        """The kernels that may serve a lane."""
        allowed = lane.measure.kernels
        chosen = tuple(kernel for kernel in self.kernels if kernel in allowed) if allowed else self.kernels
        if not chosen:
            raise ValueError(
                f"none of the kernels {', '.join(self.kernels)} may serve {lane.measure.name}, "
                f"which allows {', '.join(allowed)}: add one of those to the costing"
            )
        return chosen

    def fares_of(self, kernel: str, lane: Lane) -> Fares:
        """What a kernel is charged for the keys of a lane."""
        return self.prices[kernel].at(self.keys.get(lane.group_by, 1))

    def lane_cost(self, lane: Lane, asked: Demand, rate: Fraction) -> tuple[Fraction, str]:
        """What the cheapest kernel for a lane costs per tick, and that kernel. The first of equals wins."""
        best: tuple[Fraction, str] | None = None
        for kernel in self.kernels_for(lane):
            operations = rate * self.omegas[kernel](asked, rate)
            cost = self.fares_of(kernel, lane).per_tick(operations, rate, asked)
            if best is None or cost < best[0]:
                best = cost, kernel
        assert best is not None
        return best

    def final_cost(self, demands: Demands, rate: Fraction) -> Fraction:
        """Σ E·Ω over the lanes of one tree."""
        return sum((self.lane_cost(lane, asked, rate)[0] for lane, asked in demands.items()), Fraction(0))


def _overlap(asked: Demand, rate: Fraction) -> Fraction:
    return Fraction(asked.overlap)


#: Ω without incremental kernels: every partial enters ⌈range/slide⌉ window instances of every query.
OVERLAP: Mapping[str, Omega] = {"panes": _overlap}


#: The kernels that serve trees of many ranges, in the order of `weft.kernels.kernel_choice.PREFERENCE`: of equals the
#: first is taken.
TREE_KERNELS = ("slickdeque_inv", "prefix", "slickdeque_noninv", "flatfit", "b_int", "flatfat", "panes")


def by_overlap() -> Costing:
    """Guirguis' Ω, the overlap factor."""
    return Costing("overlap factor", OVERLAP, ("panes",))


def by_printed(*kernels: str) -> Costing:
    """Ω as Shein and Chrysanthis print it, for one kernel or the cheapest of several."""
    return Costing(f"printed Ω of {', '.join(kernels)}", PRINTED, kernels)


def by_operations(*kernels: str) -> Costing:
    """Ω as it is, in operations; for the cheapest of TREE_KERNELS if none is named."""
    return Costing("operations", DUE_AWARE, kernels or TREE_KERNELS)


def by_nanoseconds(
    *kernels: str,
    prices: Prices = MEASURED_PRICES,
    row: Fraction = Fraction(20),
    partial: Fraction = Fraction(10),
    keys: Mapping[frozenset[str], int] | None = None,
) -> Costing:
    """Ω as it is, in nanoseconds. Prices are measured by `lab/kernels/calibration.py`."""
    return Costing("nanoseconds", DUE_AWARE, kernels or TREE_KERNELS, prices, row, partial, keys or {})


@dataclass(frozen=True, slots=True)
class TreeCost:
    """What one group costs besides reading its input."""

    edge_rate: Fraction
    final: Fraction
    """Σ E·Ω over its lanes."""


def tree_cost(queries: Counted, costing: Costing) -> TreeCost:
    """E and E·Ω of one tree for these queries.

    >>> from weft.algebra import Window
    >>> from weft.optimizer.weave.acq import Acq
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
