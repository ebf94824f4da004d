"""Which kernel serves a statistic, and why: the kernels that may, and of those the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.demand import Demand
from weft.kernels.kernel import why_not
from weft.kernels.kernel_cost import DUE_AWARE, UNIT_PRICES, Omega, Prices, cost_per_tick
from weft.kernels.statistic import Statistic

#: At equal cost, the one that keeps less, and then the one that does less between slides.
PREFERENCE = (
    "slickdeque_inv",
    "prefix",
    "panes_inv",
    "slickdeque_noninv",
    "two_stacks",
    "daba",
    "flatfit",
    "b_int",
    "flatfat",
    "panes",
)

#: From so many keys on, a kernel that takes keys one by one falls behind those that take them in one vector.
MANY_KEYS = 16


@dataclass(frozen=True)
class Choice:
    """A kernel, and the words for EXPLAIN."""

    kernel: str
    reason: str
    left_out: Mapping[str, str]
    """Why not the others, by kernel."""

    def __str__(self) -> str:
        others = "".join(f"\n  not {ALGORITHMS[name].title}: {why}" for name, why in self.left_out.items())
        return f"{ALGORITHMS[self.kernel].title}: {self.reason}{others}"


def choose(
    statistic: Statistic,
    *,
    ranges: int,
    keys: int,
    cost: Callable[[str], float | Fraction | None],
    rounding: bool = False,
    steady: bool = False,
) -> Choice:
    """The kernel for a statistic over so many different ranges and group keys.

    `cost` gives the price of a kernel, by its name, for the windows at hand: Ω in operations or in calibrated
    nanoseconds (see `weft/kernels/kernel_cost.py`), None where it is not known; it is asked only about kernels that may
    serve. A kernel that takes
    DOUBLEs out of a sum again is considered if `rounding` allows it: its error is bounded by the values that were in
    the last windows, and not by those of the window alone. With `steady`, no slide may cost as much as the window is
    long.

    >>> from weft.kernels.monoids import COUNT
    >>> choose(COUNT, ranges=1, keys=1, cost={"prefix": 2, "panes": 9}.get).kernel
    'prefix'
    """
    left_out: dict[str, str] = {}
    costs: dict[str, float | Fraction] = {}
    for name, algorithm in ALGORITHMS.items():
        reason = why_not(algorithm, statistic, ranges)
        if reason is None and algorithm.inverts and not statistic.exact and not rounding:
            reason = f"it takes values out of a {statistic.name} again, and rounding errors would stay"
        if reason is None and not algorithm.data_independent and keys >= MANY_KEYS:
            reason = f"it takes {keys} keys one by one"
        if reason is None and steady and algorithm.spikes:
            reason = "a slide may cost as much as the window is long"
        if reason is None:
            price = cost(name)
            if price is None:
                reason = "no price is known for it"
            else:
                costs[name] = price
        if reason is not None:
            left_out[name] = reason
    if not costs:
        raise ValueError(f"no kernel that may serve {statistic.name} has a cost: {left_out}")
    best = min(costs, key=lambda name: (costs[name], *_preference(name, statistic, keys)))
    for name, price in sorted(costs.items(), key=lambda item: item[1]):
        if name != best:
            left_out[name] = f"it costs {float(price):.3g}"
    return Choice(best, _reason(statistic, ranges, keys, float(costs[best]), len(costs)), left_out)


def choose_for(
    statistic: Statistic,
    tree: Demand,
    edge_rate: Fraction,
    *,
    keys: int = 1,
    prices: Prices = UNIT_PRICES,
    model: Mapping[str, Omega] = DUE_AWARE,
    rounding: bool = False,
    steady: bool = False,
) -> Choice:
    """The kernel for a statistic of a tree of queries whose edges come at `edge_rate` per tick.

    With the papers' unit prices the one with the fewest operations; with prices that `calibrate` has measured, the
    fastest on this machine for so many keys.

    >>> from weft.kernels.demand import demand
    >>> from weft.kernels.monoids import COUNT
    >>> from weft.algebra import Window
    >>> print(choose_for(COUNT, demand([Window(60, 10), Window(30, 10)]), Fraction(1, 10)).reason)
    the cheapest of 6 that may serve count (invertible) over 2 ranges and one key, at a cost of 0.3
    """

    def cost(kernel: str) -> Fraction | None:
        if kernel not in model or kernel not in prices:
            return None
        return cost_per_tick(kernel, tree, edge_rate, keys=keys, prices=prices, model=model)

    ranges = tree.number_of_ranges
    return choose(statistic, ranges=ranges, keys=keys, cost=cost, rounding=rounding, steady=steady)


def _preference(name: str, statistic: Statistic, keys: int) -> tuple[bool, int]:
    # Exact prefixes of many keys go through memory twice per slide, running aggregates three times.
    first = name == "prefix" and statistic.exact and keys >= MANY_KEYS
    return not first, PREFERENCE.index(name)


def _reason(statistic: Statistic, ranges: int, keys: int, price: float, candidates: int) -> str:
    traits = [
        "selective" if statistic.selective else "",
        ("invertible" if statistic.exact else "invertible with rounding") if statistic.inverse else "not invertible",
    ]
    ranges_text = "one range" if ranges == 1 else f"{ranges} ranges"
    keys_text = "one key" if keys == 1 else f"{keys:,} keys"
    rank = "the only one that may serve" if candidates == 1 else f"the cheapest of {candidates} that may serve"
    kind = ", ".join(trait for trait in traits if trait)
    return f"{rank} {statistic.name} ({kind}) over {ranges_text} and {keys_text}, at a cost of {price:.3g}"
