"""Which kernel serves a statistic, and why: the kernels that may, and of those the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from weft.aggregation.kernel import why_not
from weft.aggregation.kernels import ALGORITHMS
from weft.aggregation.statistic import Statistic

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
    cost: Callable[[str], float | Fraction],
    rounding: bool = False,
    steady: bool = False,
) -> Choice:
    """The kernel for a statistic over so many different ranges and group keys.

    `cost` gives the price of a kernel, by its name, for the windows at hand: Ω in operations or in calibrated
    nanoseconds (see `weft/aggregation/cost.py`); it is asked only about kernels that may serve. A kernel that takes
    DOUBLEs out of a sum again is considered if `rounding` allows it: its error is bounded by the values that were in
    the last windows, and not by those of the window alone. With `steady`, no slide may cost as much as the window is
    long.

    >>> from weft.aggregation.statistics import COUNT
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
    best = min(costs, key=lambda name: (costs[name], PREFERENCE.index(name)))
    for name, price in sorted(costs.items(), key=lambda item: item[1]):
        if name != best:
            left_out[name] = f"it costs {float(price):.3g}"
    return Choice(best, _reason(statistic, ranges, keys, float(costs[best]), len(costs)), left_out)


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
