"""One account of the memory that all state in the driver takes, under one limit, `max_state_mb`.

Every part of the state says what it takes, indexes and dictionaries included, before it grows. If all parts together
need more than the limit, the queries that need most of it cannot go on; the others can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.runtime.failures.errors import MemoryLimit, megabytes


@dataclass(frozen=True)
class MemoryUse:
    """What a part of the state takes: `bytes` in all, `largest` of them for the queries `names`, or logs they read."""

    #: Begins the sentence: the rows that …, the groups of ….
    part: str
    bytes: int
    largest: int
    names: tuple[str, ...]
    #: What to do beside raising the limit.
    advice: str


class MemoryAccount:
    """What each part of the state takes, as far as it was said."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._uses: dict[str, MemoryUse] = {}

    def begin(self, uses: Iterable[MemoryUse]) -> None:
        """Begin a cycle with what there is."""
        self._uses = {each.part: each for each in uses}

    def room(self, part: str) -> int:
        """Return the bytes that a part may take beside all others."""
        return self.limit - sum(each.bytes for each in self._uses.values() if each.part != part)

    def allows(self, use: MemoryUse) -> bool:
        return use.bytes <= self.room(use.part)

    def grow(self, use: MemoryUse) -> None:
        """Note what a part needs from now on. Raises MemoryLimit if that is too much."""
        self._uses[use.part] = use
        total = sum(each.bytes for each in self._uses.values())
        if total <= self.limit:
            return
        most = max(self._uses.values(), key=lambda each: each.largest)
        beside = f", {megabytes(total)} with other state" if total > most.bytes else ""
        names = f"{', '.join(most.names[:5])}{' and others' if len(most.names) > 5 else ''}"
        raise MemoryLimit(
            f"{most.part} need about {megabytes(most.bytes)} MB{beside} in the driver, and max_state_mb allows "
            f"{megabytes(self.limit)}; {megabytes(most.largest)} of them are for {names}: SET max_state_mb higher, "
            f"{most.advice}",
            most.names,
        )
