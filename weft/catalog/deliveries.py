"""What is kept of delivery: who runs for whom, where members find their answers, and how they are grouped.

Representatives are definitions like queries, with numbers from the same sequence; the rest is plain data that only
whoever delivers can read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from weft.catalog.database import Database, Row
from weft.catalog.records import Itinerary

_ITINERARIES = "SELECT member, name, cycle, document FROM itineraries"


class Deliveries:
    """Itineraries and groups in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def itineraries(self) -> tuple[Itinerary, ...]:
        """Those of all members that there are, in the order of their creation."""
        rows = self._database.execute(f"{_ITINERARIES} WHERE document IS NOT NULL ORDER BY member")
        return tuple(map(_itinerary, rows))

    def itinerary(self, name: str) -> Itinerary | None:
        """That of the member of this name, if there is one."""
        rows = self._database.execute(f"{_ITINERARIES} WHERE name = ? AND document IS NOT NULL", (name,))
        return _itinerary(rows[0]) if rows else None

    def changed_in(self, cycle: int) -> tuple[Itinerary, ...]:
        """Those that are other than they were since this cycle, members that went then included."""
        return tuple(
            map(_itinerary, self._database.execute(f"{_ITINERARIES} WHERE cycle = ? ORDER BY member", (cycle,)))
        )

    def keep(self, itinerary: Itinerary) -> None:
        """Write down an itinerary in place of the one that the member had."""
        document = None if itinerary.document is None else json.dumps(itinerary.document)
        self._database.execute(
            "INSERT OR REPLACE INTO itineraries (member, name, cycle, document) VALUES (?, ?, ?, ?)",
            (itinerary.number, itinerary.name, itinerary.cycle, document),
        )

    def forget_gone(self, before: int) -> None:
        """Drop what is kept of members that went before a cycle."""
        self._database.execute("DELETE FROM itineraries WHERE document IS NULL AND cycle < ?", (before,))

    def groups(self) -> Mapping[str, Any] | None:
        """How members are grouped, as it was last kept."""
        rows = self._database.execute("SELECT document FROM delivery_groups")
        return None if not rows else json.loads(rows[0][0])

    def keep_groups(self, document: Mapping[str, Any]) -> None:
        with self._database.transaction():
            self._database.execute("DELETE FROM delivery_groups")
            self._database.execute("INSERT INTO delivery_groups (document) VALUES (?)", (json.dumps(document),))


def _itinerary(row: Row) -> Itinerary:
    number, name, cycle, document = row
    return Itinerary(number, name, cycle, None if document is None else json.loads(document))
