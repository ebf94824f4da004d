"""What final aggregation costs: Ω, the operations that a kernel spends per edge, and the price of an operation.

A tree of queries has edges at a rate E (per tick). At every edge a partial enters the kernel, and the queries that are
due there get their answers; an operation is one combine, one inverse or one comparison of values. A plan is weighed
by E·Ω, summed over its trees.

The formulas are those of Shein and Chrysanthis, "Multi-Query Optimization of Incrementally Evaluated Sliding-Window
Aggregations", but for what the kernels really do (`docs/kernels.md`): query i is due at a share dᵢ = 1/(slideᵢ·E) of
the edges, and is charged there alone. Pᵢ = rangeᵢ·E is the mean number of partials in a window and D = Σ dᵢ the mean
number of answers per edge.

Whatever Ω needs to know of a tree's queries are sums over them, some over those whose range is at least so long. The
queries are therefore kept as a table by distinct range (`Demand`), and all sums are exact: equal costs compare equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, lcm, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window

#: Integers too large for a machine word are kept as Python's own, in arrays of objects.
Integers: TypeAlias = NDArray[Any]

# Answers are counted per common period of all slides, which is exact, unless that is longer than this (hundreds of
# unrelated slides in one tree): then they are rounded to as fine a fraction of a tick.
_LONGEST_PERIOD = 1 << 4096


@dataclass(frozen=True, eq=False)
class Demand:
    """What the queries of a tree ask of its kernel by distinct range; a million queries have some thousand of these."""

    ranges: NDArray[np.int64]
    """The distinct ranges, ascending."""

    queries: NDArray[np.int64]
    """How many queries have each range."""

    answers: Integers
    """How many answers they give together in one period."""

    period: int
    """Ticks in which every query gives a whole number of answers."""

    overlap: int
    """Σ ⌈range/slide⌉ over the queries: Guirguis' overlap factor, the Ω of Weave Share without incremental kernels."""

    @property
    def longest(self) -> int:
        return int(self.ranges[-1])

    @property
    def shortest(self) -> int:
        return int(self.ranges[0])

    @property
    def number_of_queries(self) -> int:
        return int(self.queries.sum())

    @property
    def number_of_ranges(self) -> int:
        return len(self.ranges)

    @property
    def answers_per_tick(self) -> Fraction:
        return Fraction(self.answers_of(0)[0], self.period)

    @property
    def windows_per_row(self) -> Fraction:
        """Σ range/slide: the mean number of window instances, of all queries, that a row is in."""
        return Fraction(self.answers_of(0)[1], self.period)

    def answers_of(self, ticks: int) -> tuple[int, int]:
        """Of ranges of at least this length: how many answers they give in a period, and Σ range over these answers."""
        # NumPy would round what is longer than a machine word.
        index = int(np.searchsorted(self.ranges, ticks)) if ticks <= self.longest else len(self.ranges)
        answers, lengths = self._suffix_sums
        return int(answers[index]), int(lengths[index])

    @cached_property
    def _suffix_sums(self) -> tuple[Integers, Integers]:
        """Σ answers and Σ answers·range, over all ranges from the n-th on."""
        dtype = _dtype(self.longest * sum(self.answers.tolist()))
        answers = self.answers.astype(dtype)
        both = (answers, answers * self.ranges.astype(dtype))
        of_answers, of_lengths = (np.append(np.cumsum(each[::-1])[::-1], 0) for each in both)
        return of_answers, of_lengths


def demand(windows: Iterable[Window]) -> Demand:
    """The demand of a tree with one query for each of these windows (equal ones count as often as they are given)."""
    queries: Counter[int] = Counter()
    by_window = Counter((_bounded_range(window), window.slide) for window in windows)
    period = _common_period(*{slide for _, slide in by_window})
    answers: Counter[int] = Counter()
    overlap = 0
    for (reach, slide), number in by_window.items():
        queries[reach] += number
        answers[reach] += number * period // slide
        overlap += number * -(-reach // slide)
    ranges = sorted(queries)
    return Demand(
        np.array(ranges, dtype=np.int64),
        np.array([queries[reach] for reach in ranges], dtype=np.int64),
        np.array([answers[reach] for reach in ranges], dtype=_dtype(sum(answers.values()))),
        period,
        overlap,
    )


def merged(left: Demand, right: Demand) -> Demand:
    """The demand of one tree in the place of two."""
    period = _common_period(left.period, right.period)
    ranges = np.union1d(left.ranges, right.ranges)
    queries = np.zeros(len(ranges), dtype=np.int64)
    # Before the division below, answers are counted in the product of two periods.
    answers = np.zeros(len(ranges), dtype=_dtype((left.answers_per_tick + right.answers_per_tick) * period**2))
    for part in (left, right):
        at = np.searchsorted(ranges, part.ranges)
        queries[at] += part.queries
        answers[at] += part.answers.astype(answers.dtype) * period // part.period
    return Demand(ranges, queries, answers, period, left.overlap + right.overlap)


def _dtype(highest: int | Fraction) -> type[np.int64] | type[object]:
    """Machine words if no sum can exceed them."""
    return np.int64 if highest < 1 << 63 else object


def _common_period(*periods: int) -> int:
    return min(lcm(*periods), _LONGEST_PERIOD)


def _bounded_range(window: Window) -> int:
    if window.range is None:
        raise ValueError("an UNBOUNDED window has one running aggregate, and no kernel to choose")
    return window.range


# --- operations -------------------------------------------------------------------------------------------------------

# Logarithms and harmonic numbers are rounded to this, so that equal costs compare equal.
_RESOLUTION = 1 << 40

_EULER_GAMMA = 0.5772156649015329

#: Operations per edge, from a demand and the edge rate of its tree.
Omega: TypeAlias = Callable[[Demand, Fraction], Fraction]


def rounded(value: float) -> Fraction:
    """A number in which rounding errors leave no trace: equal costs compare equal."""
    return Fraction(round(value * _RESOLUTION), _RESOLUTION)


def lookup(partials: Fraction | int) -> Fraction:
    """Mean operations to combine P successive leaves of a binary tree, over all positions of the first one.

    look(P) = k − 2 + (P + 1)/2ᵏ with k = ⌊log₂(P + 1)⌋.

    >>> [float(lookup(partials)) for partials in (2, 3, 4, 8, 24)]
    [0.5, 1.0, 1.25, 2.125, 3.5625]
    """
    octave = floor(partials + 1).bit_length() - 1
    return octave - 2 + Fraction(partials + 1) / (1 << octave)


def harmonic(partials: Fraction) -> Fraction:
    """H(P) = 1 + 1/2 + … + 1/P, continued smoothly between the integers: the mean length of a deque over P values.

    A value stays in the deque iff it is the largest of those after it; of P exchangeable values that are H(P) many.

    >>> round(float(harmonic(Fraction(1024))), 2)
    7.51
    """
    # The asymptotic series is good to eleven digits from 32 on; H(x) = H(x + 1) − 1/(x + 1) brings smaller ones there.
    shortfall = 0.0
    at = float(partials)
    while at < 32:
        at += 1
        shortfall += 1 / at
    return rounded(log(at) + _EULER_GAMMA + 1 / (2 * at) - 1 / (12 * at**2) + 1 / (120 * at**4) - shortfall)


def _lookups(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Σ dᵢ·look(Pᵢ), by octaves: the ranges with 2ᵏ ≤ P + 1 < 2ᵏ⁺¹."""
    total, octave = Fraction(0), 1
    answers, length = tree.answers_of(ceil(1 / edge_rate))
    while answers:
        later_answers, later_length = tree.answers_of(ceil((2 ** (octave + 1) - 1) / edge_rate))
        here, length_here = answers - later_answers, length - later_length
        total += (octave - 2) * here + (length_here * edge_rate + here) / 2**octave
        answers, length, octave = later_answers, later_length, octave + 1
    return total / (tree.period * edge_rate)


def _answers_per_edge(tree: Demand, edge_rate: Fraction) -> Fraction:
    return tree.answers_per_tick / edge_rate


def _most_partials(tree: Demand, edge_rate: Fraction) -> Fraction:
    return max(Fraction(1), tree.longest * edge_rate)


def _panes(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Every answer combines its P partials: Σ dᵢ·(Pᵢ − 1)."""
    weight, length = tree.answers_of(ceil(1 / edge_rate))
    return (length - weight / edge_rate) / tree.period


def _flatfat(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Every edge updates one leaf and its ancestors, every answer is a lookup.

    A window that fills the tree is its root, for nothing (unless the function minds the order of its arguments).
    """
    # The power of two that a tree for the longest window needs.
    leaves = int(1 << (ceil(_most_partials(tree, edge_rate)) - 1).bit_length())
    fills = tree.longest * edge_rate == leaves
    at_root = int(tree.answers[-1]) / (tree.period * edge_rate) * lookup(leaves) if fills else 0
    return leaves.bit_length() - 1 + _lookups(tree, edge_rate) - at_root


def _slickdeque_noninv(tree: Demand, edge_rate: Fraction) -> Fraction:
    """Comparisons at the tail, a position test per answer, and one walk along the deque for all that is due.

    An upper bound for exchangeable input. The walk passes what is older than the shortest range, H(P_max) − H(P_min)
    values, and only at edges where something is due; a walk for longer ranges alone ends earlier. Falling input makes
    the deque, and the walk, as long as the window.
    """
    most = _most_partials(tree, edge_rate)
    fewest = max(Fraction(1), tree.shortest * edge_rate)
    due = _answers_per_edge(tree, edge_rate)
    return 2 - 2 / most + due + min(Fraction(1), due) * (harmonic(most) - harmonic(fewest))


#: Ω as it is. Exact for Panes (slides that divide their ranges), Panes (Inv), SlickDeque (Inv) and Prefix.
DUE_AWARE: Mapping[str, Omega] = {
    "panes": _panes,
    # A running aggregate for each distinct range takes every partial in and out again; answers are free.
    "panes_inv": lambda tree, edge_rate: Fraction(2 * tree.number_of_ranges),
    "flatfat": _flatfat,
    # Intervals are completed once, when they are full: one operation per edge, amortised; answers as in FlatFAT.
    "b_int": lambda tree, edge_rate: 1 + _lookups(tree, edge_rate),
    # A rule of thumb: one query spends 3 per answer, the answers of shared trees were seen to take 1.3 to 3.1.
    "flatfit": lambda tree, edge_rate: 3 * _answers_per_edge(tree, edge_rate),
    # Two stacks for each distinct range: every partial is pushed once and flipped once; an answer joins the tops.
    "two_stacks": lambda tree, edge_rate: 2 * tree.number_of_ranges + _answers_per_edge(tree, edge_rate),
    # A queue for each distinct range; an answer joins front and back. DABA Lite, which is what runs, spends three
    # operations per edge on its upkeep, the original four.
    "daba": lambda tree, edge_rate: 3 * tree.number_of_ranges + _answers_per_edge(tree, edge_rate),
    "slickdeque_inv": lambda tree, edge_rate: Fraction(2 * tree.number_of_ranges),
    "slickdeque_noninv": _slickdeque_noninv,
    # One operation to extend the prefix, one difference per answer.
    "prefix": lambda tree, edge_rate: 1 + _answers_per_edge(tree, edge_rate),
}


def operations_per_edge(
    kernel: str, tree: Demand, edge_rate: Fraction, model: Mapping[str, Omega] = DUE_AWARE
) -> Fraction:
    """Ω of a kernel for a tree whose edges come at `edge_rate` per tick.

    >>> tree = demand([Window(60, 10), Window(120, 10)])
    >>> operations_per_edge("prefix", tree, Fraction(1, 10))
    Fraction(3, 1)
    """
    if kernel not in model:
        raise ValueError(f"no Ω is known for kernel {kernel!r}: choose one of {', '.join(model)}")
    return model[kernel](tree, edge_rate)


# --- prices -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tariff:
    """Nanoseconds for what is done to the partials of all group keys at once: for the call, and for each key."""

    single: Fraction
    """For a single key (an ungrouped query), since kernels are compiled for it apart."""

    call: Fraction
    key: Fraction

    def of(self, keys: int) -> Fraction:
        return self.single if keys == 1 else self.call + keys * self.key


_FREE = Tariff(Fraction(0), Fraction(0), Fraction(0))


class Fares(NamedTuple):
    """The charges of a kernel for a number of keys; see `Price`."""

    operation: Any
    edge: Any
    answer: Any
    window: Any

    def per_tick(self, operations: Any, edge_rate: Any, queries: Any, answers: Any) -> Any:
        """What trees cost in a tick whose kernel spends these operations and gives these answers."""
        return operations * self.operation + edge_rate * (self.edge + queries * self.window) + answers * self.answer


@dataclass(frozen=True, slots=True)
class Price:
    """What a kernel costs: its operations, and what Ω does not count."""

    operation: Tariff
    edge: Tariff = _FREE
    """To take in a partial."""

    answer: Tariff = _FREE
    """To hand out an answer."""

    window: Fraction = Fraction(0)
    """At every edge, for each window of the tree, due or not."""

    def at(self, keys: int) -> Fares:
        return Fares(self.operation.of(keys), self.edge.of(keys), self.answer.of(keys), self.window)


#: What each kernel costs.
Prices: TypeAlias = Mapping[str, Price]


def _tariff(numbers: str) -> Tariff:
    return Tariff(*map(Fraction, numbers.split()))


#: Nanoseconds on one core of a busy AMD EPYC: for an operation, an edge, an answer; each of one key, of several keys,
#: and of each of these. `lab/kernels/calibration.py` measures yours.
MEASURED_PRICES: Prices = {
    kernel: Price(_tariff(operation), _tariff(edge), _tariff(answer), window=Fraction("1.29"))
    for kernel, operation, edge, answer in (
        ("panes", "0.63 2.6 0.35", "19.5 18.1 0.31", "0.7 0 0.47"),
        ("panes_inv", "0 3.6 0.05", "19.5 19.9 0.33", "0 1.8 0.50"),
        ("flatfat", "6.4 11.0 0.25", "19.5 18.1 0.31", "0 0 0.47"),
        ("b_int", "8.2 11.2 0.26", "19.5 18.1 0.31", "0 0 0.47"),
        ("flatfit", "2.0 4.4 0.27", "21.9 18.1 0.31", "0.7 1.5 0.56"),
        ("two_stacks", "0 2.1 0.09", "19.5 18.8 0.33", "0 0.7 0.50"),
        ("daba", "0.4 3.2 0.12", "19.6 18.9 0.34", "0.1 0.8 0.50"),
        ("slickdeque_inv", "0.85 3.4 0.15", "20.9 18.1 0.31", "0.1 1.3 0.47"),
        ("slickdeque_noninv", "1.9 0 1.07", "19.5 18.1 0.31", "11.4 0 17.3"),
        ("prefix", "0.84 0 0", "19.9 18.1 0.31", "0.4 3.5 0.71"),
    )
}


def cost_per_tick(
    kernel: str,
    tree: Demand,
    edge_rate: Fraction,
    *,
    keys: int = 1,
    prices: Prices = MEASURED_PRICES,
    model: Mapping[str, Omega] = DUE_AWARE,
) -> Fraction:
    """What the final aggregation of a tree costs in a tick of the clock: E·Ω operations, and what comes with them."""
    operations = edge_rate * operations_per_edge(kernel, tree, edge_rate, model)
    fares = prices[kernel].at(keys)
    return Fraction(fares.per_tick(operations, edge_rate, tree.number_of_queries, tree.answers_per_tick))
