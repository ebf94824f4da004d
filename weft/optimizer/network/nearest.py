"""Why a node is not shared: the node that comes nearest to it, and the conditions that are in the way.

A node can be shared by selects that want no more than it gives: all that it demands must follow from what is wanted. So
what is in the way is what it demands beyond that:

    node 7      T1.k = T2.k, T1.amount > 100000, T1.ts - T2.ts >= -10
    wanted      T1.k = T2.k, T1.amount > 50000,  T1.ts - T2.ts >= -5
    in the way  T1.amount > 100000                             in its place: T1.amount > 50000

The nearest is the one over the same anchors with the most conditions that follow from what is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest

from weft.optimizer.network.nodes import Entry, Ground, Nodes, equations
from weft.optimizer.network.wanted import leg_name
from weft.predicates.clauses import Disjunction, PredicateSet, set_with
from weft.predicates.operations import residual, under

#: How many of the nodes that look alike are compared condition by condition.
_MOST_COMPARED = 8


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest node. `in_the_way` are the conditions that it demands beyond those that are wanted, each with the
    conditions that are wanted of the same subjects. All of them call legs as the node does that is not shared."""

    node: int
    in_the_way: tuple[tuple[Disjunction, tuple[Disjunction, ...]], ...]
    #: If each looks its pairs up by equations that the other has not: those of the node, and those that are wanted.
    its_equations: tuple[Disjunction, ...] = ()
    own_equations: tuple[Disjunction, ...] = ()
    #: Whether one of the two leaves out rows that come too late, and the other does not.
    differs_in_lateness: bool = False


class Neighbours:
    """The nodes of a network by what they are computed from, made once to look up many."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._alike: dict[Ground, dict[str, list[int]]] = {}
        self._members: dict[Ground, list[int]] = {}
        for entry in nodes.entries.values():
            if entry.parents:
                self._members.setdefault(entry.ground, []).append(entry.number)
                for mark in _marks(entry.demands):
                    self._alike.setdefault(entry.ground, {}).setdefault(mark, []).append(entry.number)

    def nearest(self, number: int, besides: Collection[int] = ()) -> Nearest | None:
        """The node that comes nearest to one, itself and some others left out; None if there is none to compare."""
        entry = self._nodes[number]
        found = (
            self._compared(other, wanted, names, differs)
            for ground, wanted, names, differs in self._grounds(entry)
            for other in self._candidates(ground, wanted, {number, *besides})
        )
        return max(found, key=lambda each: each[0], default=(None, None))[1]

    def _grounds(self, entry: Entry) -> Iterator[tuple[Ground, PredicateSet, dict[str, str], bool]]:
        """Where to look for others: with what is wanted in the names they have there, how to get back to our names,
        and whether they treat late rows in another way."""
        if entry.anchors is None:
            if entry.parents:
                yield entry.anchor, entry.demands, {}, False
            return
        left, right, timely = entry.anchors
        legs, first = range(len(entry.legs)), len(self._nodes[left].legs)
        turning = {leg_name(leg): leg_name((leg - first) % len(legs)) for leg in legs}
        for lateness in (timely, not timely):
            yield (left, right, lateness), entry.joined, {}, lateness != timely
            if (right, left, lateness) in self._members:
                back = {new: old for old, new in turning.items()}
                yield (right, left, lateness), under(turning, entry.joined), back, lateness != timely

    def _candidates(self, ground: Ground, wanted: PredicateSet, besides: Collection[int]) -> list[int]:
        """The nodes on a ground that have the most in common with what is wanted, at first sight."""
        known = self._alike.get(ground, {})
        common = Counter(number for mark in _marks(wanted) for number in known.get(mark, ()))
        members = [number for number in self._members.get(ground, ()) if number not in besides]
        return nlargest(_MOST_COMPARED, members, key=lambda number: (common[number], -number))

    def _compared(
        self, other: int, wanted: PredicateSet, back: dict[str, str], differs: bool
    ) -> tuple[tuple[int, ...], Nearest]:
        """How near a node is, larger for nearer, and what is in the way."""
        theirs = self._nodes[other].demands
        open_ = residual(theirs, wanted).disjunctions
        closeness = not differs, len(theirs.disjunctions) - len(open_), -len(open_), -other
        its = [each for each in open_ if each in equations(theirs)]
        own = [each for each in wanted.disjunctions if each in equations(wanted) - equations(theirs)]
        if not (its and own):
            its, own = [], []

        def ours(conditions: Iterable[Disjunction]) -> tuple[Disjunction, ...]:
            return tuple(under(back, set_with((each,))).disjunctions[0] if back else each for each in conditions)

        in_the_way = [each for each in open_ if each not in its]
        same = (ours(each for each in wanted.disjunctions if _subjects(each) & _subjects(one)) for one in in_the_way)
        pairs = tuple(zip(ours(in_the_way), same, strict=True))
        return closeness, Nearest(other, pairs, ours(its), ours(own), differs)


def _marks(predicates: PredicateSet) -> Iterable[str]:
    """What a predicate set is recognised by: its conditions, and what they are about."""
    conditions = {each.text for each in predicates.disjunctions}
    return conditions | {f"about {text}" for each in predicates.disjunctions for text in _subjects(each)}


def _subjects(condition: Disjunction) -> frozenset[str]:
    return frozenset(each.subject.text for each in condition.literals)
