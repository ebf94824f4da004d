"""How many rows nodes have and would have, in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.renaming import Renaming
from weft.optimizer.network.statistics import Statistics, kept_share, log_rows, passing
from weft.optimizer.network.wanted import legs_read
from weft.predicates import Disjunction, PredicateSet

#: A selection below a join is a node of its own if it keeps no larger a share of its rows than this. A selection that
#: keeps most of them is checked by the join: to hand on so many rows once more would cost more than it saves.
MATERIALISED_SHARE = Fraction(3, 10)


class Estimates:
    """Sizes of the nodes of a network: measured ones where there are any, expected ones otherwise."""

    def __init__(self, nodes: Nodes, statistics: Statistics, renaming: Renaming) -> None:
        self._nodes, self._statistics, self._renaming = nodes, statistics, renaming
        #: What nodes are expected to have by what is known now; None as long as that is what was known all the time.
        self._expected: dict[int, int] | None = None

    def expect_anew(self) -> None:
        """What is known has changed: what was expected of nodes when they were made stands no more."""
        self._expected = {}

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected."""
        measured = self._statistics.node_rows(number)
        if measured is not None:
            return measured
        entry = self._nodes[number]
        if not entry.parents:
            return log_rows(self._statistics, entry.legs[0])
        if self._expected is None:
            return entry.rows
        if number not in self._expected:
            if entry.anchors is None:
                self._expected[number] = self.selected(entry.anchor, entry.selected)
            else:
                self._expected[number] = self.joined(*entry.anchors[:2], entry.joined)
        return self._expected[number]

    def shares(self, anchor: int, predicates: PredicateSet) -> list[Fraction]:
        """The share of an anchor's rows that satisfy each condition."""
        return self._shares(self._nodes[anchor].legs, predicates)

    def is_worth_a_node(self, anchor: int, predicates: PredicateSet) -> bool:
        """Whether a selection below a join keeps so few rows that it should be computed apart from the join."""
        return prod(self.shares(anchor, predicates), start=Fraction(1)) <= MATERIALISED_SHARE

    def selected(self, anchor: int, predicates: PredicateSet) -> int:
        """How many of an anchor's rows a selection keeps."""
        return passing(self.rows(anchor), self.shares(anchor, predicates))

    def joined(self, first: int, second: int, predicates: PredicateSet) -> int:
        """How many pairs of two anchors' rows satisfy some conditions."""
        return passing(self.rows(first) * self.rows(second), self.shares_of_pair(first, second, predicates))

    def shares_of_pair(self, first: int, second: int, predicates: PredicateSet) -> list[Fraction]:
        """The share of pairs of two anchors' rows that satisfy each condition."""
        return self._shares(self._nodes[first].legs + self._nodes[second].legs, predicates)

    def log_rows(self, log: str) -> int:
        return log_rows(self._statistics, log)

    def share(self, disjunction: Disjunction, legs: Sequence[str]) -> Fraction:
        """The share of combinations of rows of some legs' logs that satisfy a condition on some of them."""
        read = legs_read(disjunction)
        logs = tuple(legs[leg] for leg in read)
        return kept_share(self._statistics, self._renaming.by_place(disjunction, legs, read), logs)

    def _shares(self, legs: Sequence[str], predicates: PredicateSet) -> list[Fraction]:
        return [self.share(each, legs) for each in predicates.disjunctions]
