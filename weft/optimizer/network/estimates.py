"""Sizes: what is known, or supposed, of logs, columns and conditions, and how many rows nodes have by that.

Everything is a whole number or a Fraction: two plans that cost the same must cost exactly the same, whatever the order
in which they were looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Protocol

from weft.algebra import Column
from weft.optimizer.network.node_predicates import Renaming
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.wanted import leg_name, legs_read
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple

#: A log of which nothing is known is taken to have so many rows.
ROWS = 100_000
#: And a column so many distinct values.
DISTINCT = 1_000

#: The share of rows that pass a comparison of which nothing is known.
_KEPT = {
    "=": Fraction(1, 10),
    "!=": Fraction(9, 10),
    "<": Fraction(1, 3),
    "<=": Fraction(1, 3),
    ">": Fraction(1, 3),
    ">=": Fraction(1, 3),
    IS_NULL: Fraction(1, 20),
    IS_NOT_NULL: Fraction(19, 20),
}

#: A selection below a join is a node of its own if it keeps no larger a share of its rows than this. A selection that
#: keeps most of them is checked by the join: to hand on so many rows once more would cost more than it saves.
MATERIALISED_SHARE = Fraction(3, 10)


class SizeStatistics(Protocol):
    """What has been measured; None where nothing has."""

    def rows(self, log: str) -> int | None:
        """How many rows of a log are kept."""
        ...

    def distinct(self, log: str, column: str) -> int | None:
        """How many values a column has."""
        ...

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        """The share of rows of a log, or of combinations of rows of several, that satisfy a disjunction.

        The disjunction is given by its text over T1, T2 and so on, the logs in their order.
        """
        ...

    def node_rows(self, node: int) -> int | None:
        """How many rows a node has given and are kept."""
        ...


@dataclass(frozen=True)
class GivenSizes:
    """SizeStatistics from tables; what is not in them is not known."""

    log_rows: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[tuple[str, str], int] = field(default_factory=dict)
    shares: Mapping[tuple[tuple[str, ...], str], Fraction] = field(default_factory=dict)
    nodes: Mapping[int, int] = field(default_factory=dict)

    def rows(self, log: str) -> int | None:
        return self.log_rows.get(log)

    def distinct(self, log: str, column: str) -> int | None:
        return self.values.get((log, column))

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        return self.shares.get((logs, condition))

    def node_rows(self, node: int) -> int | None:
        return self.nodes.get(node)


NOTHING_KNOWN = GivenSizes()


def passing(rows: int, shares: Iterable[Fraction]) -> int:
    """How many of some rows pass several conditions, rounded up: a plan that gives nothing at all is never sure."""
    listed = tuple(shares)
    # The parts apart from each other: to shorten the fraction after every step would take most of the time.
    numerator, denominator = rows * prod(each.numerator for each in listed), prod(each.denominator for each in listed)
    return -(-numerator // denominator)


class Estimates:
    """Sizes of the nodes of a network: measured ones where there are any, expected ones otherwise."""

    def __init__(self, nodes: Nodes, statistics: SizeStatistics, renaming: Renaming) -> None:
        self._nodes, self._statistics, self._renaming = nodes, statistics, renaming
        #: What nodes are expected to have by what is known now; None as long as that is what was known all the time.
        self._expected: dict[int, int] | None = None

    def reset(self) -> None:
        """Forget what was expected of nodes when they were made: other things are known now."""
        self._expected = {}

    # -- rows ---------------------------------------------------------------------------------------------------------

    def log_rows(self, log: str) -> int:
        """How many rows a log has, or is taken to have."""
        known = self._statistics.rows(log)
        return ROWS if known is None else known

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected."""
        measured = self._statistics.node_rows(number)
        if measured is not None:
            return measured
        entry = self._nodes[number]
        if not entry.parents:
            return self.log_rows(entry.legs[0])
        if self._expected is None:
            return entry.rows
        if number not in self._expected:
            if entry.anchors is None:
                self._expected[number] = self.selected(entry.anchor, entry.selected)
            else:
                self._expected[number] = self.joined(*entry.anchors[:2], entry.joined)
        return self._expected[number]

    def selected(self, anchor: int, predicates: PredicateSet) -> int:
        """How many of an anchor's rows a selection keeps."""
        return passing(self.rows(anchor), self.shares(predicates, anchor))

    def joined(self, first: int, second: int, predicates: PredicateSet) -> int:
        """How many pairs of two anchors' rows satisfy some conditions."""
        return passing(self.rows(first) * self.rows(second), self.shares(predicates, first, second))

    def is_worth_a_node(self, anchor: int, predicates: PredicateSet) -> bool:
        """Whether a selection below a join keeps so few rows that it should be computed apart from the join."""
        return prod(self.shares(predicates, anchor), start=Fraction(1)) <= MATERIALISED_SHARE

    # -- shares -------------------------------------------------------------------------------------------------------

    def shares(self, predicates: PredicateSet, *anchors: int) -> list[Fraction]:
        """The share of an anchor's rows, or of pairs of rows of two, that satisfy each condition."""
        legs = [log for anchor in anchors for log in self._nodes[anchor].legs]
        return [self.share(each, legs) for each in predicates.disjunctions]

    def share(self, disjunction: Disjunction, legs: Sequence[str]) -> Fraction:
        """The share of combinations of rows of some legs' logs that satisfy a condition on some of them.

        Where it has not been measured, literals of a disjunction are taken to be independent of each other.
        """
        read = legs_read(disjunction)
        logs = tuple(legs[leg] for leg in read)
        by_place = self._renaming.by_place(disjunction, legs, read)
        measured = self._statistics.kept(logs, by_place.text)
        if measured is not None:
            return measured
        names = {leg_name(leg): log for leg, log in enumerate(logs)}
        return 1 - prod((1 - self._literal_share(each, names) for each in by_place.literals), start=Fraction(1))

    def _literal_share(self, literal: Triple, logs: Mapping[str, str]) -> Fraction:
        across = len(literal.subject.sources) > 1
        if literal.operator != "=" and not (across and literal.operator == "!="):
            return _KEPT[literal.operator]
        columns = [term for term in literal.subject.terms if isinstance(term, Column)]
        distinct = [self._statistics.distinct(logs[each.source], each.name) for each in columns]
        if across:
            equal = Fraction(1, max((each or DISTINCT for each in distinct), default=DISTINCT))
            return equal if literal.operator == "=" else 1 - equal
        known = [each for each in distinct if each]
        return Fraction(1, max(known)) if known else _KEPT["="]
