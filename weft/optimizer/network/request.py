"""A select on its way into the network: its conditions one by one, and what they are called in nodes.

Conditions keep their numbers all the way. What a node does for the select, and what is left to do above it, are sets of
these numbers, so that a residual is never more than some of the conditions that the select came with.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

from weft.optimizer.network.estimates import Estimates
from weft.optimizer.network.renaming import Renaming
from weft.optimizer.network.wanted import Wanted, leg_name, legs_read
from weft.predicates import PredicateSet
from weft.predicates.clauses import Disjunction, set_with
from weft.predicates.implication import follows_from_one


class Request:
    """What one select wants, for the time of its registration."""

    def __init__(self, wanted: Wanted, estimates: Estimates, renaming: Renaming) -> None:
        self.wanted, self._estimates, self._renaming = wanted, estimates, renaming
        self.conditions = wanted.predicates.disjunctions
        #: For each condition the inputs that it reads. One that is FALSE reads none, and is checked at the first input.
        self.reads = [_inputs(each) or frozenset({0}) for each in self.conditions]
        self._reads_in_order = [tuple(sorted(each)) for each in self.reads]
        self._within: dict[frozenset[int], frozenset[int]] = {}
        self._called: dict[tuple[int, tuple[int, ...]], Disjunction] = {}

    @cached_property
    def shares(self) -> list[Fraction]:
        """The share of rows, or of combinations, that satisfy each condition."""
        return [self._estimates.share(each, self.wanted.logs) for each in self.conditions]

    @cached_property
    def input_rows(self) -> list[int]:
        return [self._estimates.log_rows(log) for log in self.wanted.logs]

    def within(self, inputs: frozenset[int]) -> frozenset[int]:
        """The conditions that these inputs decide."""
        if inputs not in self._within:
            self._within[inputs] = frozenset(number for number, read in enumerate(self.reads) if read <= inputs)
        return self._within[inputs]

    def across(self, left: frozenset[int], right: frozenset[int]) -> bool:
        """Whether some condition compares the one with the other."""
        return any(read & left and read & right for read in self.reads)

    def over(self, legs: tuple[int, ...], conditions: Iterable[int]) -> PredicateSet:
        """Conditions as a node has them whose leg k is input `legs[k]`."""
        return set_with(self._over(legs, number) for number in conditions)

    def not_implied(self, legs: tuple[int, ...], conditions: Iterable[int], known: PredicateSet) -> frozenset[int]:
        """The conditions that what is known of a node with these legs does not imply, looking at two at a time."""
        return frozenset(number for number in conditions if not follows_from_one(self._over(legs, number), known))

    def _over(self, legs: tuple[int, ...], number: int) -> Disjunction:
        read = self._reads_in_order[number]
        places = tuple(map(legs.index, read))
        key = number, places
        if key not in self._called:
            logs = self.wanted.logs
            names = tuple(
                (logs[each], leg_name(each), leg_name(place)) for each, place in zip(read, places, strict=True)
            )
            self._called[key] = self._renaming.renamed(self.conditions[number], names)
        return self._called[key]


def _inputs(condition: Disjunction) -> frozenset[int]:
    return frozenset(legs_read(condition))
