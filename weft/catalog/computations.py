"""The index of computations: what each node of the shared network computes, and which node each select reads.

It is written as it changes, all or nothing, and read once, when a project is opened: the conditions first, each decoded
once however many nodes have it. What is looked up while a project is open is
looked up in memory (`weft/optimizer/network/nodes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count
from typing import TypeAlias

from weft.catalog.codec import dumps, register
from weft.catalog.database import Database, Row
from weft.plan.log_ids import LogId
from weft.plan.network import Changes, Computation, FoundRows, Result, parents_first
from weft.predicates.clauses import Disjunction, PredicateSet, set_with
from weft.predicates.domains import Domain
from weft.predicates.literals import Triple
from weft.predicates.polynomials import Atom, Polynomial
from weft.predicates.terms import Order, Sum, Term

register(Triple, Disjunction, Sum, Term, Order, Polynomial, Atom, Domain)

#: Conditions by their numbers in the file.
Conditions: TypeAlias = dict[int, Disjunction]

_COLUMNS = "number, parents, legs, predicates, timely, level, anchor, selected, left_anchor, right_anchor, joined, rows"


class Computations:
    """The stored index. It is read once, and written as the network changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: The numbers of conditions that were written, by the legs they are about and their texts: legs say of which
        #: types columns are, as long as no node goes. A transaction that failed may have taken some of them back.
        self._written: dict[tuple[tuple[str, ...], str], int] = {}

    @cached_property
    def _following(self) -> Iterator[int]:
        """Numbers of new conditions. SQLite would hand one out again after a rollback, so the only writer counts."""
        ((last,),) = self._database.execute("SELECT coalesce(max(id), 0) FROM conditions")
        return count(last + 1)

    def load(self) -> Changes:
        """Read the whole index, parents before children."""
        with self._database.snapshot():
            conditions = {
                number: self._database.decode("a condition", stored)
                for number, stored in self._database.execute("SELECT id, stored FROM conditions")
            }
            rows = self._database.execute(f"SELECT {_COLUMNS} FROM computations ORDER BY number")
            found = self._database.execute("SELECT place, node, legs, columns FROM found ORDER BY place")
            following = self.next_number
        read: dict[str, PredicateSet] = {}

        def set_of(listed: str) -> PredicateSet:
            if listed not in read:
                read[listed] = set_with(conditions[number] for number in json.loads(listed))
            return read[listed]

        computations = {row[0]: _computation(row, set_of) for row in rows}
        ordered = parents_first({number: each.parents for number, each in computations.items()})
        return Changes(tuple(computations[each] for each in ordered), (), dict(map(_found, found)), (), following)

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
        self._database.require_writable()
        with self._database.transaction():
            number = self.next_number
            for table in ("computations", "found", "conditions", "next_computation"):
                self._database.execute(f"DELETE FROM {table}")
            self._database.execute("INSERT INTO next_computation (number) VALUES (?)", (number,))

    def save(self, changes: Changes, made_by: str) -> None:
        """Write down what has changed, and the planner that has changed it."""
        self._database.require_writable()
        with self._database.transaction():
            if changes.removed:
                self._written.clear()
            for number in changes.removed:
                self._database.execute("DELETE FROM computations WHERE number = ?", (number,))
            for each in changes.computations:
                self._save_node(each)
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

    def delete_unused_conditions(self) -> None:
        """Drop the conditions that no node has any more."""
        self._database.require_writable()
        with self._database.transaction():
            self._database.execute(
                """
                DELETE FROM conditions WHERE id NOT IN (
                    SELECT value FROM computations, json_each(predicates)
                    UNION SELECT value FROM computations, json_each(selected)
                    UNION SELECT value FROM computations, json_each(joined)
                )
                """
            )

    def _save_node(self, each: Computation) -> None:
        left, right = each.join_anchors or (None, None)
        self._database.execute(
            f"INSERT OR REPLACE INTO computations ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                each.number,
                json.dumps(each.parents),
                json.dumps(each.legs),
                self._numbers(each.predicates, each.legs),
                each.timely,
                each.level,
                each.anchor,
                self._numbers(each.selected, each.legs),
                left,
                right,
                self._numbers(each.joined, each.legs),
                each.rows,
            ),
        )

    def _numbers(self, predicates: PredicateSet, legs: tuple[str, ...]) -> str:
        """The numbers of a set's conditions; those that are new get one."""
        return json.dumps([self._number(each, legs) for each in predicates.disjunctions])

    def _number(self, condition: Disjunction, legs: tuple[str, ...]) -> int:
        key = legs, condition.text
        number = self._written.get(key)
        if number is None or not self._database.execute("SELECT 1 FROM conditions WHERE id = ?", (number,)):
            number = self._written[key] = self._stored(condition)
        return number

    def _stored(self, condition: Disjunction) -> int:
        stored = dumps(condition)
        rows = self._database.execute("SELECT id FROM conditions WHERE stored = ?", (stored,))
        if rows:
            return int(rows[0][0])
        number: int = next(self._following)
        self._database.execute(
            "INSERT INTO conditions (id, text, stored) VALUES (?, ?, ?)", (number, condition.text, stored)
        )
        return number


def _computation(row: Row, set_of: Callable[[str], PredicateSet]) -> Computation:
    number, parents, legs, predicates, timely, level, anchor, selected, left, right, joined, rows = row
    return Computation(
        number,
        tuple(json.loads(parents)),
        tuple(map(LogId.parse, json.loads(legs))),
        set_of(predicates),
        bool(timely),
        level,
        anchor,
        set_of(selected),
        None if left is None else (left, right),
        set_of(joined),
        rows,
    )


def _found(row: Row) -> tuple[str, FoundRows]:
    place, node, legs, columns = row
    needed = frozenset((leg, name) for leg, name in json.loads(columns))
    return place, FoundRows(Result(node, tuple(json.loads(legs))), needed)
