"""Which kernel serves a statistic, and why: the kernels that may, and of those the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.kernel import why_not
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

#: From this number of keys on, a kernel that takes keys one by one falls behind those that take them in one vector.
MANY_KEYS = 16


@dataclass(frozen=True)
class ChosenKernel:
    """A kernel, and the words for EXPLAIN."""

    kernel: str
    reason: str
    left_out: Mapping[str, str]
    """Why not the others, by kernel."""


def choose(
    statistic: Statistic, *, ranges: int, keys: int, cost: Callable[[str], float | Fraction | None]
) -> ChosenKernel:
    """The kernel for a statistic over a number of different ranges and group keys.

    `cost` gives the price of a kernel, by its name, for the windows at hand: Ω in operations or in calibrated
    nanoseconds (see `kernel_cost`), None where it is not known; it is asked only about kernels that may serve.

    >>> from weft.kernels.monoids import COUNT
    >>> choose(COUNT, ranges=1, keys=1, cost={"prefix": 2, "panes": 9}.get).kernel
    'prefix'
    """
    left_out: dict[str, str] = {}
    costs: dict[str, float | Fraction] = {}
    for name, algorithm in ALGORITHMS.items():
        reason = why_not(algorithm, statistic, ranges)
        if reason is None and not algorithm.data_independent and keys >= MANY_KEYS:
            reason = f"it takes {keys} keys one by one"
        price = cost(name) if reason is None else None
        if price is None:
            left_out[name] = reason or "no price is known for it"
        else:
            costs[name] = price
    if not costs:
        raise ValueError(f"no kernel that may serve {statistic.name} has a cost: {left_out}")
    # Prefixes of many keys go through memory twice per slide, running aggregates three times.
    first = "prefix" if keys >= MANY_KEYS else None
    best = min(costs, key=lambda name: (costs[name], name != first, PREFERENCE.index(name)))
    for name, price in sorted(costs.items(), key=lambda item: item[1]):
        if name != best:
            left_out[name] = f"it costs {float(price):.3g}"
    return ChosenKernel(best, _reason(statistic, ranges, keys, float(costs[best]), len(costs)), left_out)


def _reason(statistic: Statistic, ranges: int, keys: int, price: float, candidates: int) -> str:
    invertible = "invertible" if statistic.exact else "invertible with rounding"
    kind = "selective, " * statistic.selective + (invertible if statistic.inverse else "not invertible")
    ranges_text = "one range" if ranges == 1 else f"{ranges} ranges"
    keys_text = "one key" if keys == 1 else f"{keys:,} keys"
    rank = "the only one that may serve" if candidates == 1 else f"the cheapest of {candidates} that may serve"
    return f"{rank} {statistic.name} ({kind}) over {ranges_text} and {keys_text}, at a cost of {price:.3g}"
