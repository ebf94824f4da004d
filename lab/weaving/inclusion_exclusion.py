"""Counting edges by inclusion and exclusion: formula F1 of Shein and Chrysanthis, for residue classes.

It is in "Multi-Query Optimization of Incrementally Evaluated Sliding-Window Aggregations". It is fast where few classes
meet, and takes 2ⁿ steps at worst; weft counts by conditioning (`weft/windows/counting.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import gcd, lcm

from weft.windows.slicing import ResidueClass


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


def rate_by_inclusion_exclusion(edges: Iterable[ResidueClass]) -> Fraction:
    """Edges per tick, as the sum over all non-empty sets X of classes of ± 1/period of their meet, if they do meet.

        E  =  Σ 1/mᵢ  −  Σ [they meet]/lcm(mᵢ, mⱼ)  +  Σ …          (+ for an odd number of classes)

    Sets with the same meet are one term: adding a class costs one meet for each different meet before it.

    >>> rate_by_inclusion_exclusion([ResidueClass(5, 0), ResidueClass(5, 3), ResidueClass(4, 0), ResidueClass(4, 1)])
    Fraction(7, 10)
    """
    terms: dict[ResidueClass, int] = {}
    for edge_class in edges:
        change = {edge_class: 1}
        for term, coefficient in terms.items():
            common = meet(term, edge_class)
            if common is not None:
                change[common] = change.get(common, 0) - coefficient
        for term, coefficient in change.items():
            total = terms.pop(term, 0) + coefficient
            if total:
                terms[term] = total
    period = lcm(*{term.modulus for term in terms})
    return Fraction(sum(coefficient * (period // term.modulus) for term, coefficient in terms.items()), period)
