"""What Shein and Chrysanthis report of these kernels (figures 11 to 14, Table 2), beside what was measured here.

The figures have no printed numbers. What their text says of them are four "up to" or "on average" distances between
SlickDeque and the next best kernel, and Table 2 has operations per slide, which is the order that the figures follow.
A difference is reported with its reason, if one is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from bench.kernel_measurements.latency import Latencies
from bench.kernel_measurements.multi_query import MultiQuery
from bench.kernel_measurements.single_query import SingleQuery
from bench.kernel_measurements.subjects import MAX, power, title

#: Kernels by operations per slide, one query (Table 2, amortised): 2, 3, 5, log n, n. Equals stand together.
ORDER_SINGLE = (
    ("slickdeque_inv", "slickdeque_noninv", "panes_inv"),
    ("flatfit", "two_stacks"),
    ("daba",),
    ("flatfat", "b_int"),
    ("panes",),
)

#: And with all ranges 1 … n: n (SlickDeque), 3n, n·log n, n².
ORDER_MULTI = (("slickdeque_inv", "slickdeque_noninv"), ("flatfit",), ("flatfat", "b_int"), ("panes",))

#: Why, most likely, a kernel (first) beats another (second) that Table 2 has before it.
REASONS = {
    ("two_stacks", "slickdeque_noninv"): "which value a deque displaces is a guess to the processor; TwoStacks has "
    "nothing to guess between two flips",
    ("daba", "flatfit"): "DABA's five operations do not wait for each other; FlatFIT follows pointers, and each load "
    "waits for the one before",
    ("flatfat", "flatfit"): "log n combines along a path that is known in advance beat three at the end of pointers; "
    "the window of a power of two is answered by the root",
    ("flatfat", "daba"): "a short path to the root costs less than DABA's bookkeeping",
    ("flatfat", "two_stacks"): "a short path to the root costs about as much as a flip's share",
    ("panes", "b_int"): "folding a few successive values is one vector loop; B-Int looks for the longest interval at "
    "every step",
    ("panes", "flatfat"): "folding a few successive values is one vector loop",
    ("panes", "flatfit"): "folding a few successive values is one vector loop",
    ("panes", "daba"): "folding a few successive values is one vector loop",
    ("flatfit", "slickdeque_inv"): "with all ranges asked for, FlatFIT costs n − 1 operations, not the 3n of Table 2; "
    "SlickDeque (Inv) pays two per range",
    ("flatfit", "slickdeque_noninv"): "with all ranges asked for, FlatFIT costs n − 1 operations, not the 3n of Table "
    "2, and a deque costs the same for few ranges as for many",
}

# Closer than this is called equal.
_TOLERANCE = 0.05


@dataclass(frozen=True)
class Difference:
    """A kernel that was faster than Table 2 lets expect, where (windows by function), and why."""

    faster: str
    slower: str
    where: dict[str, list[int]]
    reason: str

    def __str__(self) -> str:
        where = "; ".join(f"{function} {_span(windows)}" for function, windows in self.where.items())
        return f"{title(self.faster)} before {title(self.slower)} ({where}): {self.reason}"


def _span(windows: list[int]) -> str:
    return power(windows[0]) if len(windows) == 1 else f"{power(windows[0])}–{power(windows[-1])}"


def differences(
    nanoseconds: Mapping[str, Mapping[int, Mapping[str, float]]], order: tuple[tuple[str, ...], ...]
) -> list[Difference]:
    """All pairs of kernels that stand the other way round than in Table 2, with the windows where they do."""
    expected = [(first, second) for early, late in combinations(order, 2) for first in early for second in late]
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    for function, by_window in nanoseconds.items():
        for window, costs in by_window.items():
            for first, second in expected:
                if {first, second} <= costs.keys() and costs[second] < costs[first] * (1 - _TOLERANCE):
                    found.setdefault((second, first), {}).setdefault(function, []).append(window)
    return [Difference(*pair, where, REASONS.get(pair, "not explained")) for pair, where in found.items()]


@dataclass(frozen=True)
class Claim:
    """One figure: what the paper says, what was measured, and the reason where they differ."""

    figure: str
    paper: str
    here: str
    remark: str


def claims(single: SingleQuery, multi: MultiQuery, latencies: Latencies) -> list[Claim]:
    return [_throughput(single), _shared_throughput(multi), _memory(single), _spikes(latencies)]


def _throughput(single: SingleQuery) -> Claim:
    ratios = single.slickdeque_over_best(MAX)
    behind = [power(window) for window, ratio in ratios.items() if ratio < 1 - _TOLERANCE]
    remark = "SlickDeque leads at every window" if not behind else f"it is behind at {', '.join(behind)}"
    return Claim(
        "11, one query, MAX",
        "SlickDeque leads, by up to 19 %",
        f"{_percent(min(ratios.values()))} to {_percent(max(ratios.values()))}",
        remark,
    )


def _shared_throughput(multi: MultiQuery) -> Claim:
    ratios = multi.slickdeque_over_next(MAX)
    ahead = [power(ranges) for ranges, ratio in ratios.items() if ratio >= 1]
    return Claim(
        "12, all ranges, MAX",
        "SlickDeque leads, by up to 345 %",
        f"{_percent(min(ratios.values()))} to {_percent(max(ratios.values()))}",
        f"it leads from {ahead[0]} ranges on; the next best, FlatFIT, costs a third here of what Table 2 charges it"
        if ahead
        else "FlatFIT costs a third here of what Table 2 charges it",
    )


def _memory(single: SingleQuery) -> Claim:
    window, held = max(single.bytes_held.items())
    least = min(size for kernel, size in held.items() if kernel != MAX.slickdeque)
    return Claim(
        "13, memory, MAX",
        "SlickDeque needs up to 5 × less",
        f"{_times_less(least / held[MAX.slickdeque])} than the least other, at {power(window)}",
        "a deque of random values is short, but room for all partials of a call is reserved before it",
    )


def _spikes(latencies: Latencies) -> Claim:
    worst = {label: latency.worst for label, latency in latencies.kernels.items() if label.endswith(MAX.name)}
    slickdeque = worst.pop(f"{title(MAX.slickdeque)}, {MAX.name}")
    next_best = min(worst, key=lambda label: worst[label])
    return Claim(
        "14, spikes, MAX",
        "SlickDeque's are lower by 283 % on average",
        f"{slickdeque:.0f} ns; {next_best.partition(',')[0]} {worst[next_best]:.0f} ns",
        "a batch of gathered partials is merged in one push: less time per push in all, a higher spike"
        if slickdeque > worst[next_best]
        else "no push of SlickDeque takes as long",
    )


def _times_less(ratio: float) -> str:
    return f"{ratio:.2g} × less" if ratio >= 1 else f"{1 / ratio:.2g} × more"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"
