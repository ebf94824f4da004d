"""Columns of many schemas in shared slots.

A slot is a type and a number. A schema with two DOUBLEs and a STRING uses the first two slots for DOUBLEs and the first
for STRINGs. So rows of hundreds of schemas fit into one table as wide as the widest of them, and no value changes its
type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

Type = TypeVar("Type", bound=Hashable)


def typed_slots(types: Iterable[Type]) -> list[tuple[Type, int]]:
    """The slot of each column of one schema."""
    taken: Counter[Type] = Counter()
    slots = []
    for type_ in types:
        slots.append((type_, taken[type_]))
        taken[type_] += 1
    return slots


def typed_slots_of_all(schemas: Iterable[Iterable[Type]]) -> list[tuple[Type, int]]:
    """The slots that some schemas need together."""
    return list(dict.fromkeys(slot for types in schemas for slot in typed_slots(types)))
