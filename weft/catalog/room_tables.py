"""Tables of the catalog that one other room alone writes and reads: of delivery, and of the network of joins.

The index of computations is written as it changes, all or nothing, and read once, when a project is opened. What is
looked up while a project is open is looked up in memory (`weft/optimizer/network/nodes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final
from zlib import crc32

from weft.algebra.codec import dumps, register
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.database import Database
from weft.plan.log_ids import LogId
from weft.plan.network import Changes, Computation, FoundRows, Result, parents_first
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.domains import Domain
from weft.predicates.literals import Triple
from weft.predicates.subjects import Order, Polynomial, Sum
from weft.predicates.terms import Term

register(Triple, Disjunction, PredicateSet, Sum, Term, Order, Polynomial, Domain)


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


#: What is stored of a node, one after the other, besides its number.
_FIELDS: Final = tuple(field.name for field in fields(Computation))[1:]


class Computations:
    """The index of computations: what each node of the shared network computes, and which node each select reads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> Changes:
        """Read the whole index, parents before children."""
        with self._database.snapshot():
            rows = self._database.execute("SELECT number, document, checksum FROM computations ORDER BY number")
            found = self._database.execute("SELECT place, node, legs, columns FROM found ORDER BY place")
            following = self.next_number
        nodes = {number: self._read(number, document, checksum) for number, document, checksum in rows}
        ordered = parents_first({number: each.parents for number, each in nodes.items()})
        selects = {
            place: FoundRows(Result(node, tuple(json.loads(legs))), frozenset(map(tuple, json.loads(columns))))
            for place, node, legs, columns in found
        }
        return Changes(tuple(nodes[each] for each in ordered), (), selects, (), following)

    def _read(self, number: int, document: str, checksum: int) -> Computation:
        if crc32(document.encode()) != checksum:
            raise CatalogError(f"node {number} of the shared network is not as it was written")
        stored = dict(zip(_FIELDS, self._database.decode(f"node {number}", document), strict=True))
        return Computation(number, **{**stored, "legs": tuple(map(LogId.parse, stored["legs"]))})

    @property
    def made_by(self) -> str:
        """The planner that has made the index; empty if there is none yet."""
        rows = self._database.execute("SELECT made_by FROM next_computation")
        return str(rows[0][0]) if rows else ""

    @property
    def next_number(self) -> int:
        """The number that the next node gets."""
        ((number,),) = self._database.execute("SELECT coalesce(max(number), 1) FROM next_computation")
        return int(number)

    def clear(self) -> None:
        """Drop the whole index. The numbers of its nodes are not used again."""
        with self._database.change():
            number = self.next_number
            self._database.empty("computations", "found", "next_computation")
            self._database.execute("INSERT INTO next_computation (number) VALUES (?)", (number,))

    def save(self, changes: Changes, made_by: str) -> None:
        """Write down what has changed, and the planner that has changed it."""
        with self._database.change():
            for number in changes.removed:
                self._database.execute("DELETE FROM computations WHERE number = ?", (number,))
            for each in changes.computations:
                stored = {name: getattr(each, name) for name in _FIELDS} | {"legs": tuple(map(str, each.legs))}
                document = dumps(tuple(stored.values()))
                self._database.execute(
                    "INSERT OR REPLACE INTO computations (number, document, checksum) VALUES (?, ?, ?)",
                    (each.number, document, crc32(document.encode())),
                )
            for place in changes.lost:
                self._database.execute("DELETE FROM found WHERE place = ?", (place,))
            for place, found in changes.found.items():
                self._database.execute(
                    "INSERT OR REPLACE INTO found (place, node, legs, columns) VALUES (?, ?, ?, ?)",
                    (place, found.result.node, json.dumps(found.result.legs), json.dumps(sorted(found.columns))),
                )
            self._database.execute(
                "UPDATE next_computation SET number = ?, made_by = ?", (changes.next_number, made_by)
            )
