"""Itineraries and groups of delivery, as the catalog keeps them: plain data that delivery alone can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.catalog.database import Database


@dataclass(frozen=True, slots=True)
class MemberItinerary:
    """Where the answers of a member of a group are found, as plain data, and the first cycle in which that is so.

    A member that `ended` was dropped before that cycle. `number` is the query's.
    """

    number: int
    cycle: int
    document: Mapping[str, Any]
    ended: bool = False


class Deliveries:
    """Where members find their answers, and how they are grouped: plain data that delivery alone can read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def itineraries(self) -> tuple[MemberItinerary, ...]:
        """The itineraries of all members, in the order of their creation."""
        return self._itineraries("NOT ended")

    def itinerary(self, number: int) -> MemberItinerary | None:
        """The itinerary of the query with this number, if it has one."""
        return next(iter(self._itineraries("member = ?", number)), None)

    def changed_in(self, cycle: int) -> tuple[MemberItinerary, ...]:
        """The itineraries that changed with this cycle, those of members that ended with it included."""
        return self._itineraries("cycle = ?", cycle)

    def _itineraries(self, condition: str, *parameters: int) -> tuple[MemberItinerary, ...]:
        statement = f"SELECT member, cycle, document, ended FROM itineraries WHERE {condition} ORDER BY member"
        return tuple(
            MemberItinerary(number, cycle, json.loads(document), bool(ended))
            for number, cycle, document, ended in self._database.execute(statement, parameters)
        )

    def put(self, itinerary: MemberItinerary) -> None:
        """Write down an itinerary in place of the one that the member had."""
        self._database.execute(
            "INSERT OR REPLACE INTO itineraries (member, cycle, document, ended) VALUES (?, ?, ?, ?)",
            (itinerary.number, itinerary.cycle, json.dumps(itinerary.document), itinerary.ended),
        )

    def delete_ended(self, before: int) -> None:
        """Drop the itineraries of members that ended before a cycle."""
        self._database.execute("DELETE FROM itineraries WHERE ended AND cycle < ?", (before,))

    def clear(self) -> None:
        """Drop all itineraries and groups."""
        self._database.empty("itineraries", "delivery_groups")

    def groups(self) -> dict[str, Mapping[str, Any]]:
        """How members are grouped, by the names of the groups."""
        rows = self._database.execute("SELECT name, document FROM delivery_groups ORDER BY name")
        return {name: json.loads(document) for name, document in rows}

    def put_group(self, name: str, document: Mapping[str, Any] | None) -> None:
        """Write down how a group is made up now; None if there is no such group any more."""
        if document is None:
            self._database.execute("DELETE FROM delivery_groups WHERE name = ?", (name,))
        else:
            self._database.execute(
                "INSERT OR REPLACE INTO delivery_groups (name, document) VALUES (?, ?)", (name, json.dumps(document))
            )
