"""The nodes of a network that is being planned, and the index that finds them: which of them compute what.

Each node is known by what it computes since the last join or log below it, so that a chain of selections is found in
one look-up, and by what it computes across one join:

    its anchor       the nearest join or log at or below it: itself, unless it is a selection
    selected         what its rows satisfy beyond those of its anchor
    join anchors     of a join: the anchors of its parents
    joined           of a join: what its rows satisfy beyond pairs of rows of these two, selections below it included

A new query is looked up by anchors. Selections over one anchor, and joins over a pair of anchors, are kept in a
`ClosestIndex` each, so the time to find the closest ones does not grow with the number of queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from heapq import nsmallest
from typing import TypeAlias

from weft.optimizer.network.wanted import leg_name
from weft.plan.log_ids import LogId
from weft.plan.network import Computation, FoundRows, Network, Node, parents_first
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet
from weft.predicates.closest import ClosestIndex
from weft.predicates.operations import columns_of_set

#: How many of the joins that are alike are compared.
MOST_ALIKE = 8

#: A column of a node: leg and name.
LegColumn: TypeAlias = tuple[int, str]

#: The anchors of a join's parents, and whether it is timely.
Anchors: TypeAlias = tuple[int, int, bool]

#: What nodes are looked up by: the anchor of selections, the anchors of joins.
Ground: TypeAlias = int | Anchors


@dataclass(slots=True)
class Entry(Computation):
    """What a node computes, and who needs it. `columns` counts who needs each of them."""

    columns: Counter[LegColumn] = field(default_factory=Counter)
    children: set[int] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    @property
    def is_selection(self) -> bool:
        return len(self.parents) == 1

    @property
    def anchors(self) -> Anchors | None:
        return self.join_anchors and (*self.join_anchors, self.timely)

    @property
    def ground(self) -> Ground:
        """What the node is computed from, as far as others may be computed from the same."""
        return self.anchors or self.anchor

    @property
    def demands(self) -> PredicateSet:
        """What its rows satisfy beyond those of its ground."""
        return self.selected if self.join_anchors is None else self.joined

    @property
    def node(self) -> Node:
        return Node(self.number, self.parents, self.legs, self.predicates, tuple(sorted(self.columns)), self.timely)


class Nodes:
    """Nodes by number, results by place, and the index of both."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.found: dict[str, FoundRows] = {}
        self.next_number = 1
        self._bases: dict[str, int] = {}
        self._index: dict[Ground, ClosestIndex[int]] = {}
        self._equal: dict[tuple[Ground, PredicateSet], int] = {}
        self._alike: dict[tuple[Anchors, frozenset[Disjunction]], set[int]] = {}
        #: The nodes that have changed since changes were last taken, and the selects that have got other rows.
        self._changed: set[int] = set()
        self._places_changed: set[str] = set()

    def __getitem__(self, number: int) -> Entry:
        return self.entries[number]

    @property
    def logs(self) -> Collection[str]:
        """The logs that selects read."""
        return self._bases.keys()

    def base(self, log: LogId) -> int:
        """The node of a log, which is made if there is none yet."""
        if log not in self._bases:
            number = self.next_number
            self._add(Entry(number, (), (log,), TRUE_SET, False, 0, number, TRUE_SET, None, TRUE_SET, 0))
        return self._bases[log]

    def equal(self, ground: Ground, predicates: PredicateSet) -> int | None:
        """The node over a ground that demands just this; an anchor itself if there is nothing to select of it."""
        if isinstance(ground, int) and not predicates.disjunctions:
            return ground
        return self._equal.get((ground, predicates))

    def closest(self, ground: Ground, predicates: PredicateSet) -> Iterable[int]:
        """Nodes over a ground that subsume a predicate set, none of them with another one in between."""
        return self._index[ground].closest(predicates) if ground in self._index else ()

    def has_any(self, ground: Ground) -> bool:
        return ground in self._index

    def joins_alike(self, anchors: Anchors, predicates: PredicateSet) -> list[int]:
        """Some joins over a pair of anchors with the same equations between the two, oldest first."""
        return nsmallest(MOST_ALIKE, self._alike.get((anchors, equations(predicates)), ()))

    def add_selection(self, parent: int, predicates: PredicateSet, selected: PredicateSet, rows: int) -> int:
        """A new selection of a node's rows; with those below it, it selects `selected` of its anchor's."""
        below, number = self.entries[parent], self.next_number
        legs, level, anchor = below.legs, below.level, below.anchor
        self._add(Entry(number, (parent,), legs, predicates, False, level, anchor, selected, None, TRUE_SET, rows))
        return number

    def add_join(
        self, parents: tuple[int, int], predicates: PredicateSet, joined: PredicateSet, timely: bool, rows: int
    ) -> int:
        """A new join of two nodes' rows; in the predicates, the legs of the right one come after those of the left.

        With the selections below it, it demands `joined` of pairs of its anchors' rows.
        """
        (left, right), number = (self.entries[each] for each in parents), self.next_number
        legs, level = left.legs + right.legs, 1 + max(left.level, right.level)
        anchors = left.anchor, right.anchor
        self._add(Entry(number, parents, legs, predicates, timely, level, number, TRUE_SET, anchors, joined, rows))
        return number

    def settle(self, place: str, found: FoundRows) -> None:
        """Gives a select its rows from a node."""
        self.found[place] = found
        self._places_changed.add(place)
        self.entries[found.result.node].places.add(place)
        self._need(found.result.node, found.columns, 1)

    def unsettle(self, place: str) -> int:
        """Takes a select away from its node, which is given back."""
        found = self.found.pop(place)
        self._places_changed.add(place)
        self.entries[found.result.node].places.discard(place)
        self._need(found.result.node, found.columns, -1)
        return found.result.node

    def remove_unused(self, number: int) -> list[int]:
        """Removes a node without readers, and those below it that only it read; returns those that stay."""
        entry = self.entries.get(number)
        if entry is None:
            return []
        if entry.places or entry.children:
            return [number]
        self.unindex(entry)
        self.detach(entry)
        del self.entries[number]
        return [stays for parent in dict.fromkeys(entry.parents) for stays in self.remove_unused(parent)]

    def take_changes(self) -> tuple[list[int], list[int], set[str]]:
        """What has changed since this was last asked: nodes that are there, nodes that are gone, and selects."""
        numbers, places = sorted(self._changed), self._places_changed
        self._changed, self._places_changed = set(), set()
        there = [number for number in numbers if number in self.entries]
        return there, [number for number in numbers if number not in self.entries], places

    def restore(self, computations: Iterable[Computation], found: Mapping[str, FoundRows], next_number: int) -> None:
        """Takes up what was kept, parents before children, into nodes that are empty so far."""
        for each in computations:
            self._add(Entry(*(getattr(each, one.name) for one in fields(Computation))))
        for place, rows in found.items():
            self.settle(place, rows)
        self.next_number = next_number
        self.take_changes()

    def network(self) -> Network:
        order = parents_first({number: self.entries[number].parents for number in sorted(self.entries)})
        nodes = {number: self.entries[number].node for number in order}
        return Network(nodes, {place: found.result for place, found in self.found.items()})

    def _add(self, entry: Entry) -> None:
        self.entries[entry.number] = entry
        self.next_number = max(self.next_number, entry.number + 1)
        self.attach(entry)
        self.index(entry)

    def attach(self, entry: Entry) -> None:
        """Makes a node a child of its parents, which then give it the columns that it needs."""
        for parent in entry.parents:
            self.entries[parent].children.add(entry.number)
        for columns in (_columns_read(entry), entry.columns):
            self._need_of_parents(entry, columns, 1)

    def detach(self, entry: Entry) -> None:
        for parent in entry.parents:
            self.entries[parent].children.discard(entry.number)
        for columns in (entry.columns, _columns_read(entry)):
            self._need_of_parents(entry, columns, -1)

    def index(self, entry: Entry) -> None:
        """Lets a node be found by what it computes."""
        self._changed.add(entry.number)
        if not entry.parents:
            self._bases[entry.legs[0]] = entry.number
            return
        self._index.setdefault(entry.ground, ClosestIndex()).add(entry.number, entry.demands)
        self._equal.setdefault((entry.ground, entry.demands), entry.number)
        if entry.anchors is not None:
            self._alike.setdefault((entry.anchors, equations(entry.joined)), set()).add(entry.number)

    def unindex(self, entry: Entry) -> None:
        """Takes a node out of the index, before what it computes is said in another way."""
        self._changed.add(entry.number)
        if not entry.parents:
            del self._bases[entry.legs[0]]
            return
        self._index[entry.ground].remove(entry.number)
        if self._equal.get((entry.ground, entry.demands)) == entry.number:
            del self._equal[entry.ground, entry.demands]
        if entry.anchors is not None:
            self._alike[entry.anchors, equations(entry.joined)].discard(entry.number)

    def _need(self, number: int, columns: Collection[LegColumn], times: int) -> None:
        """Counts columns as needed once more, or once less. What a node did not need before, its parents must give it;
        what it needs no more, they need not."""
        entry = self.entries[number]
        for column in columns:
            entry.columns[column] += times
            if not entry.columns[column]:
                del entry.columns[column]
        changed = {column for column in columns if entry.columns[column] == (times > 0)}
        if changed:
            self._changed.add(number)
        self._need_of_parents(entry, changed, times)

    def _need_of_parents(self, entry: Entry, columns: Collection[LegColumn], times: int) -> None:
        """Counts those of a node's columns that come from each of its parents, as that one counts legs."""
        first = 0
        for parent in entry.parents:
            legs = range(first, first + len(self.entries[parent].legs))
            self._need(parent, frozenset((leg - first, name) for leg, name in columns if leg in legs), times)
            first = legs.stop


def equations(predicates: PredicateSet) -> frozenset[Disjunction]:
    """The equations between different legs: what a join looks its pairs up by."""
    single = (each for each in predicates.disjunctions if len(each.literals) == 1 and len(each.sources) > 1)
    return frozenset(each for each in single if each.literals[0].operator == "=")


def _columns_read(entry: Entry) -> frozenset[LegColumn]:
    """The columns that a node reads to check its predicates."""
    return frozenset((int(column.source[1:]) - 1, column.name) for column in columns_of_set(entry.predicates))


def require_sound(nodes: Nodes) -> None:
    """Raises ValueError if some node does not fit into its network.

    What a node says must agree with the nodes below it, and something must read it. Whether its conditions are the
    right ones is not looked at: to know that, one would have to plan.
    """
    for entry in nodes.entries.values():
        below = [nodes[parent] for parent in entry.parents]
        legs = tuple(leg for each in below for leg in each.legs)
        width = len(entry.legs)
        read = {column.source for column in columns_of_set(entry.predicates)}
        agrees = {
            "its legs": entry.legs == legs if below else width == 1,
            "its level": entry.level == max((each.level for each in below), default=0) + (len(below) == 2),
            "its anchor": entry.anchor == (below[0].anchor if entry.is_selection else entry.number),
            "its join": entry.join_anchors == (tuple(each.anchor for each in below) if len(below) == 2 else None),
            "its conditions": read <= set(map(leg_name, range(width))),
            "its number": entry.number < nodes.next_number,
            "its readers": bool(entry.children or entry.places),
            "its selects": all(sorted(nodes.found[place].result.legs) == list(range(width)) for place in entry.places),
        }
        wrong = [what for what, is_right in agrees.items() if not is_right]
        if wrong:
            raise ValueError(f"node {entry.number} does not fit into its network: {', '.join(wrong)}")
