"""Counting edges: how many distinct ones are there in a composite slide, and so how many per tick?

The *edge rate* E is the share of all instants that are edges, an exact fraction; a composite slide CS holds E·CS edges.
There are as many ways to it as there are shapes of workloads:

    method         exact   time                          memory        suits
    bit set        yes     CS, and the edges in it       a bit a tick  a short CS, however many classes
    conditioning   yes     see below                     by effort     a huge CS: 300 slides below 1,000
    estimate       1e-4    horizon, and the edges in it  a horizon     where nothing else finishes

`edge_rate` takes the first that suits. (Formula F1 of Shein and Chrysanthis, inclusion and exclusion over slides, is in
`lab/weaving/inclusion_exclusion.py`.)

**Conditioning** (`uncovered`). Write the moduli as products of powers of a few pairwise coprime *bases* (their prime
factors would do; a coarser base needs no factoring and branches less). By the Chinese remainder theorem an instant is a
point with one coordinate per base, all coordinates are independent, and a class fixes a residue in each base that its
modulus mentions:

    bases 2 and 3                       coordinate mod 2³ ↓      mod 3² ↓
    class (6, 0)   t ≡ 0 (mod 6)        ≡ 0 (mod 2)              ≡ 0 (mod 3)
    class (8, 5)   t ≡ 5 (mod 8)        ≡ 5 (mod 8)              any
    class (9, 3)   t ≡ 3 (mod 9)        any                      ≡ 3 (mod 9)

The share of points that avoid all classes is then counted as a model counter counts satisfying assignments:

1. *Condition* on the base that most classes mention. Its residues fall into few *blocks* whose points satisfy the same
   classes' demands on it: at most one for each different demand, and one for the rest, not one for each residue.
   In a block, classes whose demand is not met are out; the others forget this base. A class with no base left covers
   the block.
2. Classes that no longer have a base in common, even through others, are independent: multiply.
3. What is left to solve is named by the classes still in play and the bases still open. Equal names, one answer.

The problem is NP-hard, so some sets need too long; `uncovered` gives up after a given effort and the caller estimates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm, prod
from typing import TypeAlias

import numpy as np

from weft.windows.slicing import EdgeSet, ResidueClass, grid_of

#: A set of small integers (numbers of classes, or of bases) as the bits of one integer.
Bits = int

# Python's own limit on nested calls is a thousand, of which the caller may have used some.
_DEEPEST = 400


class EffortExceededError(Exception):
    """The exact answer would take longer than the caller allows."""


#: What a class asks of one base b, as (exponent, residue): that the coordinate be ≡ residue (mod b^exponent).
_Demand: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Base:
    """One coordinate. `size` is the number of its residues, `members` the classes that ask something of it."""

    size: int
    members: Bits
    blocks: tuple[tuple[int, Bits], ...]
    """Residues that meet the same demands: how many they are, and the classes that stay in play in them."""
    share: dict[int, int]
    """For each member, how many of the residues meet its demand."""


def coprime_bases(numbers: Sequence[int]) -> list[int]:
    """Pairwise coprime integers above 1 such that each of the numbers is a product of powers of them.

    >>> coprime_bases([35, 6, 12])
    [2, 3, 35]
    """
    bases: list[int] = []
    waiting = sorted(set(numbers), reverse=True)
    while waiting:
        number = waiting.pop()
        if number == 1:
            continue
        for index, base in enumerate(bases):
            common = gcd(number, base)
            if common > 1:
                del bases[index]
                waiting += [common, number // common, base // common]
                break
        else:
            bases.append(number)
    return sorted(bases)


def uncovered(classes: Sequence[ResidueClass], effort: int) -> Fraction:
    """The share of all instants that lie in none of the classes.

    `effort` bounds the work, in classes looked at (some two microseconds each): EffortExceededError says it is spent.

    >>> uncovered([ResidueClass(2, 0), ResidueClass(3, 0)], effort=100)
    Fraction(1, 3)
    """
    if any(edge_class.modulus == 1 for edge_class in classes):
        return Fraction(0)
    numbers = coprime_bases([edge_class.modulus for edge_class in classes])
    bases = [_base(number, _demands_on(number, classes), len(classes)) for number in numbers]
    mentioned = [0] * len(classes)
    for index, base in enumerate(bases):
        for member in bits_of(base.members):
            mentioned[member] |= 1 << index
    points = _Counter(bases, mentioned, effort).avoiding((1 << len(classes)) - 1, (1 << len(bases)) - 1)
    return Fraction(points, prod(base.size for base in bases))


class _Counter:
    """Counts the points that avoid all classes in play, among the points of the open bases."""

    def __init__(self, bases: list[_Base], mentioned: list[Bits], effort: int) -> None:
        self._bases = bases
        self._mentioned = mentioned
        self._effort = effort
        self._known: dict[tuple[Bits, Bits], int] = {}

    def avoiding(self, in_play: Bits, open_bases: Bits, depth: int = 0) -> int:
        """How many points of the open bases avoid every class in play. Each class must mention some open base."""
        count = 1
        for classes, bases in self._components(in_play, open_bases):
            count *= self._avoiding_connected(classes, bases, depth)
            open_bases &= ~bases
        return count * self._points(open_bases)

    def _avoiding_connected(self, in_play: Bits, open_bases: Bits, depth: int) -> int:
        if in_play & (in_play - 1) == 0:
            member = in_play.bit_length() - 1
            inside = prod(self._bases[base].share[member] for base in bits_of(open_bases))
            return self._points(open_bases) - inside
        known = self._known.get((in_play, open_bases))
        if known is not None:
            return known
        self._effort -= in_play.bit_count()
        if self._effort < 0 or depth > _DEEPEST:
            raise EffortExceededError

        chosen = max(bits_of(open_bases), key=lambda base: (self._bases[base].members & in_play).bit_count())
        still_open = open_bases & ~(1 << chosen)
        blocks: dict[Bits, int] = {}
        for size, stay in self._bases[chosen].blocks:
            blocks[in_play & stay] = blocks.get(in_play & stay, 0) + size
        count = 0
        for stay, size in blocks.items():
            covered = any(not self._mentioned[member] & still_open for member in bits_of(stay))
            if not covered:
                count += size * self.avoiding(stay, still_open, depth + 1)
        self._known[in_play, open_bases] = count
        return count

    def _points(self, open_bases: Bits) -> int:
        return prod(self._bases[base].size for base in bits_of(open_bases))

    def _components(self, in_play: Bits, open_bases: Bits) -> Iterator[tuple[Bits, Bits]]:
        """The classes in play, split so that classes in different parts have no open base in common."""
        while in_play:
            classes = in_play & -in_play
            bases = waiting = self._mentioned[classes.bit_length() - 1] & open_bases
            in_play ^= classes
            while waiting:
                lowest = waiting & -waiting
                waiting ^= lowest
                joining = self._bases[lowest.bit_length() - 1].members & in_play
                in_play ^= joining
                classes |= joining
                for member in bits_of(joining):
                    waiting |= self._mentioned[member] & open_bases & ~bases
                    bases |= waiting
            yield classes, bases


def bits_of(bits: Bits) -> Iterator[int]:
    """The numbers of the bits that are set, from the lowest."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _demands_on(base: int, classes: Sequence[ResidueClass]) -> dict[int, _Demand]:
    """What each class, by its number, asks of a base; classes whose modulus does not contain it ask nothing."""
    demands = {}
    for number, (modulus, residue) in enumerate(classes):
        exponent = 0
        while modulus % base ** (exponent + 1) == 0:
            exponent += 1
        if exponent:
            demands[number] = exponent, residue % base**exponent
    return demands


def _base(base: int, demands: dict[int, _Demand], classes: int) -> _Base:
    """Cuts the residues of a base into blocks.

    Any two demands are nested or disjoint, so they form a tree; a block is what a demand's residues have left
    after the demands inside it.
    """
    size = base ** max(exponent for exponent, _ in demands.values())
    askers: dict[_Demand, Bits] = {}
    for number, demand in demands.items():
        askers[demand] = askers.get(demand, 0) | 1 << number
    members = sum(askers.values())

    met: dict[_Demand, Bits] = {(0, 0): 0}
    left: dict[_Demand, int] = {(0, 0): size}
    for exponent, residue in sorted(askers):
        wider = ((level, residue % base**level) for level in reversed(range(exponent)))
        parent = next(candidate for candidate in wider if candidate in met)
        met[exponent, residue] = met[parent] | askers[exponent, residue]
        left[exponent, residue] = size // base**exponent
        left[parent] -= size // base**exponent
    others = ((1 << classes) - 1) & ~members
    blocks = tuple((left[demand], others | met[demand]) for demand in met if left[demand])
    return _Base(size, members, blocks, {number: size // base**exponent for number, (exponent, _) in demands.items()})


# Where the methods change places, by measurement: a bit set of 2²⁰ ticks takes about a millisecond, and so does
# conditioning on thirty classes; half a second is as long as a planner should think about one tree.
_FEW_CLASSES = 4
_SHORT_PERIOD = 1 << 20
_MOST_CLASSES = 1_000
_EFFORT = 250_000

_HORIZON = 1 << 22
# Far from every origin, and the same for all sets, so that the estimate of a union is never below that of a part.
_FAR_AWAY = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276BF3A27251F86C6A11D0C18E95


@lru_cache(maxsize=1 << 16)
def edge_rate(edges: EdgeSet) -> Fraction:
    """Edges per tick: exact if that takes less than about half a second, otherwise estimated.

    Optimizers ask for the same unions again and again, so answers are remembered.

    >>> from weft.algebra import Window
    >>> from weft.windows.slicing import shared_edges
    >>> edge_rate(shared_edges([Window(12, 9), Window(10, 6)]))
    Fraction(4, 9)
    """
    rate = exact_edge_rate(edges, effort=_EFFORT)
    return estimated_edge_rate(edges) if rate is None else rate


def exact_edge_rate(edges: EdgeSet, effort: int | None = None) -> Fraction | None:
    """Edges per tick, exactly; None if that takes more than `effort` (see `uncovered`).

    >>> exact_edge_rate(frozenset({ResidueClass(2, 0), ResidueClass(3, 0)}))
    Fraction(2, 3)
    """
    if not edges:
        return Fraction(0)
    unit, classes = _in_units(edges)
    period = lcm(*{edge_class.modulus for edge_class in classes})
    if len(classes) > _FEW_CLASSES and period <= _SHORT_PERIOD:
        return Fraction(_count_between(classes, 0, period), period * unit)
    if effort is not None and len(classes) > _MOST_CLASSES:
        return None
    try:
        return (1 - uncovered(classes, effort if effort is not None else 1 << 62)) / unit
    except EffortExceededError:
        return None


def estimated_edge_rate(edges: EdgeSet, horizon: int = _HORIZON) -> Fraction:
    """Edges per tick, counted over a horizon of possible edges somewhere far away.

    A uniformly drawn place sees every residue of every class equally often, so the estimate has no bias. Every set is
    counted at the same place: differences between sets of the same unit are consistent.
    """
    if not edges:
        return Fraction(0)
    unit, classes = _in_units(edges)
    return Fraction(_count_between(classes, _FAR_AWAY, horizon), horizon * unit)


def _in_units(edges: EdgeSet) -> tuple[int, list[ResidueClass]]:
    """The same classes on a coarser clock: the unit of their grid, and the classes counted in it from its first point.

    That is the same place on the clock for all sets of this grid.
    """
    unit, _ = grid_of(edges)
    return unit, [ResidueClass(modulus // unit, residue // unit) for modulus, residue in edges]


def _count_between(classes: list[ResidueClass], start: int, length: int) -> int:
    """The number of distinct edges in [start, start + length)."""
    marks = np.zeros(length, dtype=np.bool_)
    for modulus, residue in classes:
        marks[(residue - start) % modulus :: modulus] = True
    return int(np.count_nonzero(marks))
