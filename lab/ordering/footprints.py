"""Footprints: which sub-queries a tuple has been through, as one bit each, and which of them let it pass where.

A tuple that has been through node n has bit n. Joined tuples have the bits of both. An output module lets a tuple pass
if the bits under its mask are as it allows: those of the sender and of a parent of the receiver set, so that the
receiver has something to do (no void routing), and that of the receiver clear, so that it is not sent twice (no
redundant routing). A tuple with all bits is an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Descriptor:
    """What a module lets pass: the AllowingBits, and the ValidatingMask that says which of them count."""

    allow: int
    mask: int

    def accepts(self, footprint: int) -> bool:
        return (footprint ^ self.allow) & self.mask == 0


def bits(positions: Iterable[int]) -> int:
    return sum({1 << position for position in positions})


def descriptor(sender: int, parent: int, receiver: int) -> Descriptor:
    allow = bits((sender, parent))
    return Descriptor(allow, allow | bits((receiver,)))


def storage_bytes(tuples: int, sites: int, modules: int) -> tuple[float, float, float]:
    """What footprints, AllowingBits and ValidatingMasks take (Table 5.1 of the COSMOS thesis)."""
    of_modules = sites * modules / 8
    return tuples * sites / 8, of_modules, of_modules
