"""Residue classes: edges that repeat for ever, written down in two integers.

The starts of a window's instances are origin, origin + slide, origin + 2·slide, … for ever, and so are their ends. Such
a set of instants is the residue class of the origin modulo the slide; whatever slices a stream is a union of a few of
them. Nothing in this package unrolls a union to its common period: that period is the lcm of all slides, and the lcm of
thirty slides below a thousand has 172 bits.

    (6, 0)   |-----|-----|-----|-----|-----|-----|      0, 6, 12, 18 …
    (9, 3)   ---|--------|--------|--------|------      3, 12, 21, 30 …
    they meet in (18, 12): every 18 ticks, at 12
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple, TypeAlias

import numpy as np


class ResidueClass(NamedTuple):
    """All instants t with t ≡ residue (mod modulus), where 0 ≤ residue < modulus."""

    modulus: int
    residue: int


#: A union of residue classes: every instant at which some fragment ends and the next one begins.
EdgeSet: TypeAlias = frozenset[ResidueClass]


def residue_class(modulus: int, instant: int) -> ResidueClass:
    """The class of period `modulus` that goes through `instant`.

    >>> residue_class(9, 12)
    ResidueClass(modulus=9, residue=3)
    """
    return ResidueClass(modulus, instant % modulus)


def meet(left: ResidueClass, right: ResidueClass) -> ResidueClass | None:
    """The instants that two classes have in common: again a class, or None if there are none.

    They meet iff the gcd of the moduli divides the difference of the residues; where is said by Chinese remainders.

    >>> meet(ResidueClass(6, 0), ResidueClass(9, 3))
    ResidueClass(modulus=18, residue=12)
    """
    common = gcd(left.modulus, right.modulus)
    difference = right.residue - left.residue
    if difference % common:
        return None
    step = right.modulus // common
    turns = difference // common * pow(left.modulus // common, -1, step) % step
    return ResidueClass(left.modulus * step, left.residue + turns * left.modulus)


def reduced(classes: Iterable[ResidueClass]) -> EdgeSet:
    """The same instants by the fewest of the given classes: one that lies inside another adds nothing.

    (m, a) lies inside (n, b) iff n divides m and a ≡ b (mod n). A thousand windows whose slides divide 720,720 reduce
    to some thirty classes.

    >>> sorted(reduced([ResidueClass(2, 0), ResidueClass(4, 0), ResidueClass(4, 1)]))
    [ResidueClass(modulus=2, residue=0), ResidueClass(modulus=4, residue=1)]
    """
    residues: dict[int, set[int]] = {}
    for modulus, residue in classes:
        residues.setdefault(modulus, set()).add(residue)
    moduli = np.array(sorted(residues))
    kept: list[ResidueClass] = []
    for index, modulus in enumerate(sorted(residues)):
        alive = residues[modulus]
        for divisor in moduli[:index][modulus % moduli[:index] == 0].tolist():
            coarser = residues[divisor]
            alive = {residue for residue in alive if residue % divisor not in coarser}
        # Emptied or not, the survivors are all that a finer modulus needs to look at: what was dropped here
        # lies inside a coarser class still, and so does what lies inside it.
        residues[modulus] = alive
        kept += [ResidueClass(modulus, residue) for residue in alive]
    return frozenset(kept)
