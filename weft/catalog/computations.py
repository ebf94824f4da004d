"""The index of computations: what each node of the shared network computes, and which node each select reads.

It is written as it changes, all or nothing, and read once, when a project is opened. What is looked up while a project
is open is looked up in memory (`weft/optimizer/network/nodes.py`).
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from weft.algebra.codec import dumps, register
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.database import Database
from weft.plan.log_ids import LogId
from weft.plan.network import Changes, Computation, FoundRows, Result, parents_first
from weft.predicates.clauses import Disjunction, set_with
from weft.predicates.domains import Domain
from weft.predicates.literals import Triple
from weft.predicates.polynomials import Atom, Polynomial
from weft.predicates.terms import Order, Sum, Term

register(Triple, Disjunction, Sum, Term, Order, Polynomial, Atom, Domain)


class Computations:
    """The stored index."""

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
        parents, legs, predicates, timely, level, anchor, selected, anchors, joined, rows = self._database.decode(
            f"node {number}", document
        )
        return Computation(
            number, parents, tuple(map(LogId.parse, legs)), set_with(predicates), timely, level,
            anchor, set_with(selected), anchors, set_with(joined), rows,
        )  # fmt: skip

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
            for table in ("computations", "found", "next_computation"):
                self._database.execute(f"DELETE FROM {table}")
            self._database.execute("INSERT INTO next_computation (number) VALUES (?)", (number,))

    def save(self, changes: Changes, made_by: str) -> None:
        """Write down what has changed, and the planner that has changed it."""
        with self._database.change():
            for number in changes.removed:
                self._database.execute("DELETE FROM computations WHERE number = ?", (number,))
            for each in changes.computations:
                document = dumps(_fields(each))
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


def _fields(each: Computation) -> tuple[Any, ...]:
    """What is stored of a node besides its number."""
    return (
        each.parents, tuple(map(str, each.legs)), each.predicates.disjunctions, each.timely, each.level,
        each.anchor, each.selected.disjunctions, each.join_anchors, each.joined.disjunctions, each.rows,
    )  # fmt: skip
