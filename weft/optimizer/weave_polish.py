"""Polishing a cut: leaves that would be better off elsewhere move.

Weave Share never takes a merge back, and an early merge may turn out to be in the way. On a handful of leaves there is
time to look: move a leaf to another tree or to one of its own, exchange two leaves, join two trees, whichever saves
most, while anything does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

#: Leaves by their numbers.
Part: TypeAlias = frozenset[int]
Partition: TypeAlias = frozenset[Part]


def polished(start: Partition, final: Callable[[Part], Fraction], reading: Callable[[int], Fraction]) -> Partition:
    """A partition that no single move makes cheaper, found by steepest descent.

    A partition costs `final` of each of its parts, and `reading` of their number.
    """
    best = start
    while True:
        moves = ((_saved(taken, given, final), taken, given) for taken, given in _moves(best))
        size = len(best)
        gain, _, better = max(
            (
                (saved + reading(size) - reading(size - len(taken) + len(given)), number, (best - taken) | given)
                for number, (saved, taken, given) in enumerate(moves)
            ),
            key=lambda candidate: (candidate[0], -candidate[1]),
            default=(Fraction(0), 0, best),
        )
        if gain <= 0:
            return best
        best = better


def _saved(taken: Partition, given: Partition, final: Callable[[Part], Fraction]) -> Fraction:
    return sum(map(final, taken), Fraction(0)) - sum(map(final, given), Fraction(0))


def _moves(partition: Partition) -> Iterator[tuple[Partition, Partition]]:
    """Parts that are taken out of a partition, and parts that are put there instead."""
    parts = sorted(partition, key=sorted)
    for part in parts:
        if len(part) > 1:
            for leaf in sorted(part):
                yield frozenset({part}), frozenset({part - {leaf}, frozenset({leaf})})
    for one, other in combinations(parts, 2):
        both = frozenset({one, other})
        yield both, frozenset({one | other})
        for leaf in sorted(one | other):
            home, away = (one, other) if leaf in one else (other, one)
            if len(home) > 1:
                yield both, frozenset({home - {leaf}, away | {leaf}})
        if len(one) > 1 or len(other) > 1:
            for left in sorted(one):
                for right in sorted(other):
                    yield both, frozenset({one - {left} | {right}, other - {right} | {left}})
