"""Edge meters: E of every union of two trees that weaving asks for, many at a time.

Weaving compares thousands of pairs of trees, and of each it must know how many edges the two would have together. Two
meters do that:

    BitMeter      a bit for each tick of the common period, or of a horizon where that is too long. Counting what a tree
                  has in common with another one is a walk along the one with fewer edges, probing the bits of the
                  other (Guirguis calls it probing reorder); two crowded trees are compared 64 ticks at a time, and
                  two single windows by arithmetic (`Progressions`).
    ClassMeter    residue classes, counted by conditioning (`weft/windows`): exact for periods of any length, one pair
                  at a time.

`exact_meter` takes bits when the period is short enough and classes when trees are few. Hundreds of unrelated slides
are neither; then `estimating_meter` counts over a horizon, at the same place on the clock for all trees, and the plan
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from math import lcm
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.windows.counting import exact_edge_rate
from weft.windows.slicing import EdgeSet, grid_of, reduced

Rates: TypeAlias = NDArray[np.float64]
Bits: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint64]
Places: TypeAlias = NDArray[np.int32]
Integers: TypeAlias = NDArray[np.int64]
Result = TypeVar("Result")

# The longest period that is held as bits. A weaving compares at most _MOST_WORDS words of 64 bits, about a nanosecond
# each, and every tree with at most _COMPARED others.
_LONGEST_PERIOD = 1 << 21
_MOST_WORDS = 1 << 31
_COMPARED = 256
_LONGEST_HORIZON, _SHORTEST_HORIZON = 1 << 20, 1 << 16

# So few trees are counted by their classes, one pair at a time. Most unions take little effort (see `uncovered`), well
# below a millisecond; some take much, and those may not be many.
_FEW_TREES = 160
_LITTLE_EFFORT, _MUCH_EFFORT = 500, 8_000
_MOST_HARD_ONES = 40

# Far from every origin: an arbitrary place sees every residue of every class equally often.
_FAR_AWAY = 0x9E3779B97F4A7C15F39CC0605CEDC834

# The lcm of two steps of progressions, and the products on the way to it, fit a machine word.
_LONGEST_STEP = 1 << 31

# A tree with an edge in _CROWDED ticks, or more, is crowded: comparing words is cheaper than walking along its edges.
_CROWDED = 64


class TooLongError(Exception):
    """These edges cannot be counted exactly by this meter."""


def measured(leaves: Sequence[EdgeSet], work: Callable[[Meter], Result]) -> Result:
    """What some work with trees of these edges comes to: exactly, unless that takes too long.

    All rates must come from one meter, so the work begins again if some union cannot be counted.
    """
    meter = exact_meter(leaves)
    if meter is not None:
        try:
            return work(meter)
        except TooLongError:
            pass
    return work(estimating_meter(leaves))


def exact_meter(leaves: Sequence[EdgeSet]) -> Meter | None:
    """A meter for trees with these edges and all their unions, if they can be counted exactly in reasonable time."""
    unit, origin = grid_of(chain.from_iterable(leaves))
    period = lcm(*{modulus // unit for edges in leaves for modulus, _ in edges})
    if period <= _LONGEST_PERIOD and _words(period, leaves, unit) <= _MOST_WORDS:
        return BitMeter(unit, origin, period, exact=True)
    return ClassMeter() if len(leaves) <= _FEW_TREES else None


def estimating_meter(leaves: Sequence[EdgeSet]) -> Meter:
    """A meter for whatever trees there are; the more of them, the shorter its horizon."""
    unit, origin = grid_of(chain.from_iterable(leaves))
    horizon = _LONGEST_HORIZON
    while horizon > _SHORTEST_HORIZON and _words(horizon, leaves, unit) > _MOST_WORDS:
        horizon //= 2
    return BitMeter(unit, origin, horizon, exact=False)


def _words(ticks: int, leaves: Sequence[EdgeSet], unit: int) -> int:
    """About how many words are compared in a weaving: crowded trees with others that bounds do not rule out."""
    crowded = sum(sum(unit / modulus for modulus, _ in edges) * _CROWDED > 1 for edges in leaves)
    return ticks // 64 * crowded * min(len(leaves), _COMPARED)


class BitMeter:
    """Trees as the ticks of one stretch of time: sorted places, or bits for those that are crowded.

    All edges lie on origin + k·unit: often seconds, on a clock of microseconds.
    """

    def __init__(self, unit: int, origin: int, ticks: int, *, exact: bool) -> None:
        self.exact = exact
        self._unit, self._origin = unit, origin
        self._ticks = ticks
        self._start = 0 if exact else _FAR_AWAY
        self._places: dict[int, Places] = {}
        self._words: dict[int, Words] = {}
        self._counts: dict[int, int] = {}
        self._progressions = Progressions(ticks)
        self._next = 0
        # Stretches that are no multiple of 64 end in bits that are never set.
        words = -(-ticks // 64)
        self._both = np.empty(words, dtype=np.uint64)
        self._last: tuple[int, Bits, Words] | None = None
        self._bits_in_both = np.empty(words, dtype=np.uint8)

    def add(self, edges: EdgeSet) -> int:
        """Takes in a tree with these edges, and gives its number."""
        unit, origin = self._unit, self._origin
        marks = np.zeros(self._ticks, dtype=np.bool_)
        for modulus, residue in edges:
            off_grid = modulus % unit or (residue - origin) % unit
            if off_grid or (self.exact and self._ticks % (modulus // unit)):
                raise TooLongError
            step = modulus // unit
            marks[((residue - origin) // unit - self._start) % step :: step] = True
        tree = self._keep(marks)
        common_step = simple_step(edges)
        if common_step is not None:
            step = common_step // unit
            places = [((residue - origin) // unit - self._start) % step for _, residue in edges]
            self._progressions.enter(tree, places, step)
        return tree

    def join(self, left: int, right: int) -> int:
        """Takes in the union of two trees, which it forgets."""
        union = self._marks(left) | self._marks(right)
        self.drop(left)
        self.drop(right)
        return self._keep(union)

    def drop(self, tree: int) -> None:
        del self._counts[tree]
        self._places.pop(tree, None)
        self._words.pop(tree, None)
        self._progressions.forget(tree)

    def rate(self, tree: int) -> Fraction:
        return self._as_rate(self._counts[tree])

    def rate_together(self, left: int, right: int) -> Fraction:
        """E of the union of two trees."""
        return self._as_rate(self._counts_together(left, [right])[0])

    def rates_together(self, tree: int, others: Sequence[int]) -> Rates:
        """E of the union of a tree with each of the others."""
        return self._counts_together(tree, others) / (self._ticks * self._unit)

    def _counts_together(self, tree: int, others: Sequence[int]) -> NDArray[np.int64]:
        numbers = np.array(others, dtype=np.int64)
        common = np.zeros(len(others), dtype=np.int64)
        simple = self._progressions.knows(numbers) & self._progressions.knows(np.array([tree]))
        if simple.any():
            common[simple] = self._progressions.common(tree, numbers[simple])
        if not simple.all():
            common[~simple] = self._common(tree, numbers[~simple].tolist())
        counts = np.fromiter((self._counts[other] for other in others), dtype=np.int64, count=len(others))
        return self._counts[tree] + counts - common

    def _common(self, tree: int, others: Sequence[int]) -> NDArray[np.int64]:
        """How many edges a tree has in common with each of the others, by looking at them."""
        common = np.zeros(len(others), dtype=np.int64)
        marks, words = self._unfolded(tree)
        walks: list[tuple[int, Places]] = []
        for at, other in enumerate(others):
            if other in self._words:
                common[at] = self._count_common(words, self._words[other])
            elif len(self._places[other]):
                walks.append((at, self._places[other]))
        if walks:
            probed = marks[np.concatenate([places for _, places in walks])]
            starts = np.cumsum([0, *(len(places) for _, places in walks[:-1])])
            common[[at for at, _ in walks]] = np.add.reduceat(probed, starts, dtype=np.int64)
        return common

    def _unfolded(self, tree: int) -> tuple[Bits, Words]:
        """A tree as marks and as words. Many questions in a row are about the same tree."""
        if self._last is None or self._last[0] != tree:
            marks = self._marks(tree)
            self._last = tree, marks, self._packed(marks)
        return self._last[1], self._last[2]

    def _count_common(self, one: Words, other: Words) -> int:
        # Into the same memory every time: fresh memory would cost more than the counting.
        np.bitwise_and(one, other, out=self._both)
        np.bitwise_count(self._both, out=self._bits_in_both)
        return int(np.add.reduce(self._bits_in_both, dtype=np.uint32))

    def _keep(self, marks: Bits) -> int:
        number = self._next
        self._next += 1
        self._counts[number] = count = int(np.count_nonzero(marks))
        if count * _CROWDED > self._ticks:
            self._words[number] = self._packed(marks)
        else:
            self._places[number] = np.flatnonzero(marks).astype(np.int32)
        return number

    def _marks(self, tree: int) -> Bits:
        if tree in self._words:
            as_bytes = self._words[tree].view(np.uint8)
            return np.unpackbits(as_bytes, count=self._ticks, bitorder="little").view(np.bool_)
        marks = np.zeros(self._ticks, dtype=np.bool_)
        marks[self._places[tree]] = True
        return marks

    def _packed(self, marks: Bits) -> Words:
        packed = np.zeros(self._both.nbytes, dtype=np.uint8)
        packed[: -(-self._ticks // 8)] = np.packbits(marks, bitorder="little")
        return packed.view(np.uint64)

    def _as_rate(self, count: int) -> Fraction:
        return Fraction(int(count), self._ticks * self._unit)


class ClassMeter:
    """Trees as residue classes, whatever their common period. Equal unions are counted once."""

    exact = True

    def __init__(self) -> None:
        self._trees: dict[int, EdgeSet] = {}
        self._rates: dict[EdgeSet, Fraction] = {}
        self._hard_ones = 0
        self._next = 0

    def add(self, edges: EdgeSet) -> int:
        number = self._next
        self._next += 1
        self._trees[number] = reduced(edges)
        return number

    def join(self, left: int, right: int) -> int:
        return self.add(self._trees.pop(left) | self._trees.pop(right))

    def drop(self, tree: int) -> None:
        del self._trees[tree]

    def rate(self, tree: int) -> Fraction:
        return self._rate(self._trees[tree])

    def rate_together(self, left: int, right: int) -> Fraction:
        return self._rate(reduced(self._trees[left] | self._trees[right]))

    def rates_together(self, tree: int, others: Sequence[int]) -> Rates:
        rates = (float(self.rate_together(tree, other)) for other in others)
        return np.fromiter(rates, dtype=np.float64, count=len(others))

    def _rate(self, edges: EdgeSet) -> Fraction:
        known = self._rates.get(edges)
        if known is None:
            known = exact_edge_rate(edges, effort=_LITTLE_EFFORT) or self._rate_of_hard_one(edges)
            self._rates[edges] = known
        return known

    def _rate_of_hard_one(self, edges: EdgeSet) -> Fraction:
        self._hard_ones += 1
        rate = exact_edge_rate(edges, effort=_MUCH_EFFORT) if self._hard_ones <= _MOST_HARD_ONES else None
        if rate is None:
            raise TooLongError
        return rate


Meter: TypeAlias = BitMeter | ClassMeter


class Progressions:
    """Trees of at most two progressions with the same step, whose common edges are counted by arithmetic.

    The edges of a single window are one or two progressions with the same step. A million pairs of windows are compared
    before anything is merged, and each pair is a matter of Chinese remainders: t ≡ a (mod m) and t ≡ b (mod n) meet iff
    gcd(m, n) divides b − a, then every lcm(m, n) ticks, from a first time on that a modular inverse gives.
    """

    def __init__(self, ticks: int) -> None:
        self._ticks = ticks
        # Step, first and second residue; a step of 0 is a tree of another kind, a residue of −1 is none.
        self._table = np.zeros((3, 64), dtype=np.int64)

    def enter(self, tree: int, residues: list[int], step: int) -> None:
        """Writes down a tree with edges at these places of each step."""
        while tree >= self._table.shape[1]:
            self._table = np.hstack([self._table, np.zeros_like(self._table)])
        first, second = (*residues, -1)[:2]
        self._table[:, tree] = step, first, second

    def forget(self, tree: int) -> None:
        if tree < self._table.shape[1]:
            self._table[:, tree] = 0

    def knows(self, trees: Integers) -> NDArray[np.bool_]:
        here = np.zeros(len(trees), dtype=np.bool_)
        inside = trees < self._table.shape[1]
        here[inside] = self._table[0, trees[inside]] > 0
        return here

    def common(self, tree: int, others: Integers) -> Integers:
        """How many edges a tree has in common with each of the others."""
        step, *residues = self._table[:, tree].tolist()
        steps = self._table[0, others]
        divisors = np.gcd(step, steps)
        inverses = _inverses(step // divisors, steps // divisors)
        meets = np.zeros(len(others), dtype=np.int64)
        for residue in residues:
            for theirs in self._table[1:, others]:
                if residue >= 0:
                    meets += self._meets(step, residue, steps, theirs, divisors, inverses)
        return meets

    def _meets(
        self, step: int, residue: int, steps: Integers, theirs: Integers, divisors: Integers, inverses: Integers
    ) -> Integers:
        apart, rest = np.divmod(theirs - residue, divisors)
        turns = apart * inverses % (steps // divisors)
        first = residue + turns * step
        times = (self._ticks - 1 - first) // (step // divisors * steps) + 1
        return np.where((theirs >= 0) & (rest == 0) & (first < self._ticks), times, 0)


def simple_step(edges: EdgeSet) -> int | None:
    """The step of edges that are one or two progressions with the same step; None if they are not."""
    steps = {modulus for modulus, _ in edges}
    return steps.pop() if len(steps) == 1 and len(edges) <= 2 and max(steps) < _LONGEST_STEP else None


def _inverses(numbers: Integers, moduli: Integers) -> Integers:
    """The inverse of each number modulo its modulus, to which it is coprime, by Euclid's algorithm on all at once."""
    old, new = moduli.copy(), numbers % moduli
    old_factor, factor = np.zeros_like(moduli), np.ones_like(moduli)
    while (going := new > 0).any():
        quotient = old // np.where(going, new, 1)
        old, new = np.where(going, new, old), np.where(going, old - quotient * new, 0)
        old_factor, factor = (
            np.where(going, factor, old_factor),
            np.where(going, old_factor - quotient * factor, factor),
        )
    return np.asarray(old_factor % moduli)
