"""The nodes that a select still lacks, built from the bottom up along the joins that were chosen for it.

It may put a weaker join in the place of two: what both have in common, joined once, with the two as selections of its
rows.

    there is    J1   T1.k = T2.k, T1.amount > 100000, T2.ts - T1.ts <= 10
    new         J2   T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 5
    instead     C    T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 10          J1 and J2 are selections of C

What two sets have in common is their semantic intersection: of each, what the other implies. It has the wider of two
ranges, and where ranges do not even touch, the range that covers both. Joins are put together like this only if they
look their pairs up by the same equations, and if that costs less: one pass over the inputs of the weaker join and two
over its rows, instead of a pass over the inputs and the rows of each.

Nodes that get their rows from somewhere else then keep their numbers, and what is above them stays as it is:

    weaken        a join becomes a selection of a weaker join's rows
    strengthen    such a selection becomes a join again, and the weaker join goes
    shorten       a selection reads what its parent reads, and the parent goes

What changes is where they are looked up: a selection, or one side of a join, counts from its anchor, the nearest join
or log below it, and that is another one now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from weft.optimizer.network.choose_joins import ExistingRows, JoinRequest, NewJoin, Part
from weft.optimizer.network.node_predicates import Renaming, both, in_common, residual, with_legs_moved
from weft.optimizer.network.nodes import Anchors, Entry, Nodes, equations
from weft.optimizer.network.sizes import Estimates, passing
from weft.optimizer.network.wanted import leg_name
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet, set_implies, set_with
from weft.predicates.operations import under

#: What a node computes beyond one anchor, made into what it computes beyond another.
Restated: TypeAlias = Callable[[PredicateSet, PredicateSet], PredicateSet]


def weaken(nodes: Nodes, number: int, parent: int, predicates: PredicateSet) -> None:
    """Lets a join select its rows from a weaker join, or from a selection of that one's rows."""
    entry, below = nodes[number], nodes[parent]
    above, before = _anchored_in(nodes, number), entry.parents
    for each in above:
        nodes.unindex(each)
    nodes.detach(entry)
    entry.parents, entry.predicates, entry.timely = (parent,), predicates, False
    entry.anchors, entry.joined, entry.selected = None, TRUE_SET, TRUE_SET
    nodes.attach(entry)
    between = both(below.selected, predicates)
    for each in above:
        _move_anchor(nodes, each, number, below.anchor, between, lambda beyond, added: both(added, beyond))
        nodes.index(each)
    for old in dict.fromkeys(before):
        nodes.remove_unused(old)


def strengthen(
    nodes: Nodes, number: int, parents: tuple[int, int], predicates: PredicateSet, joined: PredicateSet
) -> None:
    """Makes a selection a join again, if it is the only node above the join that it reads."""
    entry = nodes[number]
    weaker = nodes[entry.anchor]
    assert weaker.anchors is not None
    above, between = _anchored_in(nodes, weaker.number)[1:], entry.selected
    for each in above:
        nodes.unindex(each)
    nodes.detach(entry)
    for each in above:
        _move_anchor(nodes, each, weaker.number, number, between, residual)
    entry.parents, entry.predicates, entry.timely = parents, predicates, weaker.timely
    entry.anchors, entry.joined, entry.selected = weaker.anchors, joined, TRUE_SET
    nodes.attach(entry)
    for each in above:
        nodes.index(each)
    nodes.remove_unused(weaker.number)


def shorten(nodes: Nodes, number: int) -> None:
    """Lets a selection read what the selection below it reads, if it is all that there is above that one."""
    entry = nodes[number]
    parent = nodes[entry.parents[0]]
    nodes.unindex(entry)
    nodes.detach(entry)
    entry.parents, entry.predicates = parent.parents, both(parent.predicates, entry.predicates)
    nodes.attach(entry)
    nodes.index(entry)
    nodes.remove_unused(parent.number)


def _anchored_in(nodes: Nodes, number: int) -> list[Entry]:
    """A join, the selections above it, and the joins of its and their rows."""
    found, waiting = {number: nodes[number]}, [number]
    while waiting:
        for child in sorted(nodes[waiting.pop()].children):
            if child not in found:
                found[child] = nodes[child]
                if found[child].is_selection:
                    waiting.append(child)
    return list(found.values())


def _move_anchor(nodes: Nodes, entry: Entry, old: int, new: int, between: PredicateSet, restated: Restated) -> None:
    """Says what a node computes beyond another anchor; `between` is what lies between the two."""
    if entry.anchors is None:
        entry.anchor, entry.selected = new, restated(entry.selected, between)
        return
    first, second, timely = entry.anchors
    if first == old:
        entry.joined = restated(entry.joined, between)
    if second == old:
        width = len(nodes[new].legs)
        by = len(entry.legs) - width
        names = {leg_name(leg): leg_name(leg + by) for leg in range(width)}
        entry.joined = restated(entry.joined, under(names, between))
    moved: Anchors = (new if first == old else first, new if second == old else second, timely)
    entry.anchors = moved


@dataclass(frozen=True, slots=True)
class Option:
    """A join that exists, and what it has in common with a new one, whose sides may have to change places for it."""

    number: int
    common: PredicateSet
    is_turned: bool


def best_option(
    nodes: Nodes, estimates: Estimates, wanted: Iterable[tuple[Anchors, PredicateSet, bool]]
) -> Option | None:
    """The join that a new one is best put together with, if it is worth it with any."""
    options = []
    for anchors, predicates, is_turned in wanted:
        for number in nodes.joins_alike(anchors, predicates):
            common = in_common(predicates, nodes[number].joined)
            if equations(common) != equations(predicates):
                continue
            saving = _saving(estimates, anchors, predicates, nodes[number].joined, common, len(nodes[anchors[0]].legs))
            if saving > 0:
                options.append((-saving, number, is_turned, common))
    if not options:
        return None
    _, number, is_turned, common = min(options, key=lambda each: each[:3])
    return Option(number, common, is_turned)


def _saving(
    estimates: Estimates, anchors: Anchors, new: PredicateSet, old: PredicateSet, common: PredicateSet, width: int
) -> int:
    """The rows that need not be looked at each time if two joins become selections of a common one."""
    apart = sum(_work(estimates, anchors, each, width) for each in (new, old))
    rows = estimates.joined(anchors[0], anchors[1], common)
    return apart - _work(estimates, anchors, common, width) - 2 * rows


def _work(estimates: Estimates, anchors: Anchors, predicates: PredicateSet, width: int) -> int:
    """The rows of a join's inputs, and its own."""
    first, second, _ = anchors
    sides: tuple[list[Disjunction], list[Disjunction]] = ([], [])
    for each in predicates.disjunctions:
        is_left = {int(leg[1:]) <= width for leg in each.sources}
        if len(is_left) == 1:
            sides[not is_left.pop()].append(each)
    inputs = sum(
        passing(estimates.rows(anchor), estimates.shares(set_with(side), first, second))
        for anchor, side in zip((first, second), sides, strict=True)
    )
    return inputs + estimates.joined(first, second, predicates)


@dataclass(frozen=True, slots=True)
class Anchored:
    """Inputs of a select that a join or a log has together: its legs, and the conditions that its rows satisfy."""

    anchor: int
    legs: tuple[int, ...]
    done: frozenset[int]


class Builder:
    """Builds nodes for one select after the other."""

    def __init__(
        self, nodes: Nodes, estimates: Estimates, renaming: Renaming, *, shares_joins: bool, restructures: bool
    ) -> None:
        self._nodes, self._estimates, self._renaming = nodes, estimates, renaming
        self._shares_joins, self._restructures = shares_joins, restructures
        self._made_first: list[int] = []

    def build(self, part: Part, request: JoinRequest) -> tuple[int, tuple[int, ...]]:
        """The node that gives a select its rows, and which of its inputs each leg is."""
        selections = _weaker_first(self._selections_of_logs(part, request))
        self._made_first = [self.selection(anchor, predicates) for anchor, predicates in selections]
        top = self._anchored(part, request)
        left = request.within(frozenset(top.legs)) - top.done
        return self.selection(top.anchor, request.over(top.legs, left)), top.legs

    def clear_up(self) -> None:
        """Removes selections that were made in advance, if a weaker join has come about that reads others."""
        for number in self._made_first:
            self._nodes.remove_unused(number)

    # -- selections ---------------------------------------------------------------------------------------------------

    def selection(self, anchor: int, predicates: PredicateSet) -> int:
        """The node that selects from an anchor's rows: a shared one, or a new one above the closest."""
        same = self._nodes.equal_selection(anchor, predicates)
        if same is not None:
            return same
        parent = self._closest(anchor, predicates)
        left = residual(predicates, self._nodes[parent].selected)
        if not left.disjunctions:
            return parent
        return self._nodes.add_selection(parent, left, predicates, self._estimates.selected(anchor, predicates))

    def _closest(self, anchor: int, predicates: PredicateSet) -> int:
        """The smallest of the nodes over an anchor that give all that is wanted, and perhaps more."""
        above = self._nodes.closest_selections(anchor, predicates)
        return min(above, key=lambda number: (self._estimates.rows(number), number), default=anchor)

    def _selections_of_logs(self, part: Part, request: JoinRequest) -> Iterator[tuple[int, PredicateSet]]:
        """The selections that the joins of a part will need of logs and of joins that exist."""
        if isinstance(part, NewJoin):
            for side in (part.left_part, part.right_part):
                yield from self._selections_of_logs(side, request)
                if isinstance(side, ExistingRows) and side.left:
                    predicates = request.over(side.legs, side.left)
                    if self._estimates.is_worth_a_node(side.anchor, predicates):
                        yield side.anchor, predicates

    # -- joins --------------------------------------------------------------------------------------------------------

    def _anchored(self, part: Part, request: JoinRequest) -> Anchored:
        """The join or log that a part's rows come from, which is built if it is not there."""
        if isinstance(part, ExistingRows):
            return Anchored(part.anchor, part.legs, part.done)
        left, right = self._anchored(part.left_part, request), self._anchored(part.right_part, request)
        first, second = _oriented(left, right)
        done = left.done | right.done
        wanted = request.within(frozenset(first.legs + second.legs)) - done
        legs, anchors = first.legs + second.legs, (first.anchor, second.anchor, request.wanted.timely)
        joined = request.over(legs, wanted)
        if self._shares_joins:
            # Building the parts below may have brought about an equal join.
            number = self._nodes.equal_join(anchors, joined)
            if number is not None:
                return Anchored(number, legs, done | wanted)
            if self._restructures:
                turned = (second.anchor, first.anchor, request.wanted.timely)
                turned_legs = second.legs + first.legs
                ways = (anchors, joined, False), (turned, request.over(turned_legs, wanted), True)
                option = best_option(self._nodes, self._estimates, ways)
                if option is not None:
                    legs = turned_legs if option.is_turned else legs
                    number = self._weakened(option)
                    open_ = request.not_implied(legs, wanted, self._nodes[number].joined)
                    return Anchored(number, legs, done | (wanted - open_))
        return Anchored(self.join(anchors, joined), legs, done | wanted)

    def join(self, anchors: Anchors, joined: PredicateSet) -> int:
        """A new join of what two anchors give, with selections below it where they are worth it."""
        parents, checked = self._inputs(anchors, joined)
        rows = self._estimates.joined(anchors[0], anchors[1], joined)
        return self._nodes.add_join(parents, checked, joined, anchors[2], rows)

    def rejoin(self, number: int) -> None:
        """Makes a join again of a selection that is all there is above a weaker join."""
        entry = self._nodes[number]
        weaker = self._nodes[entry.anchor]
        assert weaker.anchors is not None
        joined = both(weaker.joined, entry.selected)
        strengthen(self._nodes, number, *self._inputs(weaker.anchors, joined), joined)

    def _inputs(self, anchors: Anchors, joined: PredicateSet) -> tuple[tuple[int, int], PredicateSet]:
        """The two parents of a join, and what it has to check of their pairs."""
        first, second, _ = anchors
        width, logs = len(self._nodes[first].legs), self._nodes[second].legs
        left, right, across = demands_of_sides(self._nodes, self._renaming, anchors, joined)
        left_node, left_open = self._input(first, left)
        right_node, right_open = self._input(second, right)
        right_open = with_legs_moved(self._renaming, right_open, logs, width)
        checked = [*across.disjunctions, *left_open.disjunctions, *right_open.disjunctions]
        return (left_node, right_node), set_with(checked)

    def _input(self, anchor: int, predicates: PredicateSet) -> tuple[int, PredicateSet]:
        """One side of a join: its node, and what the join has to check of its rows."""
        if self._estimates.is_worth_a_node(anchor, predicates):
            return self.selection(anchor, predicates), set_with(())
        node = self._closest(anchor, predicates)
        return node, residual(predicates, self._nodes[node].selected)

    # -- weaker joins -------------------------------------------------------------------------------------------------

    def _weakened(self, option: Option) -> int:
        """The weaker join of an option, with the join that was there as a selection of its rows."""
        existing = self._nodes[option.number]
        assert existing.anchors is not None
        weaker = self.join(existing.anchors, option.common)
        left = residual(existing.joined, option.common)
        parent = self._closest(weaker, left)
        weaken(self._nodes, option.number, parent, residual(left, self._nodes[parent].selected))
        return weaker


def _oriented(left: Anchored, right: Anchored) -> tuple[Anchored, Anchored]:
    """Which side of a new join comes first: the longer one, then the older one, then the one that FROM has first."""
    first, second = sorted((left, right), key=lambda each: (-len(each.legs), each.anchor, each.legs))
    return first, second


def demands_of_sides(
    nodes: Nodes, renaming: Renaming, anchors: Anchors, joined: PredicateSet
) -> tuple[PredicateSet, PredicateSet, PredicateSet]:
    """What a join demands of each of its anchors' rows, as the anchor has it, and of both together."""
    first, second, _ = anchors
    width = len(nodes[first].legs)
    left, right, across = _sides(joined, width)
    return left, with_legs_moved(renaming, right, nodes[second].legs, -width), across


def _sides(joined: PredicateSet, width: int) -> tuple[PredicateSet, PredicateSet, PredicateSet]:
    """What a join demands of its left legs, of its right ones, and of both together."""
    sides: tuple[list[Disjunction], list[Disjunction], list[Disjunction]] = ([], [], [])
    for each in joined.disjunctions:
        legs = [int(name[1:]) <= width for name in each.sources]
        # What reads nothing is FALSE, and can be said of either side.
        sides[0 if all(legs) else 2 if any(legs) else 1].append(each)
    left, right, across = map(set_with, sides)
    return left, right, across


def _weaker_first(selections: Iterator[tuple[int, PredicateSet]]) -> list[tuple[int, PredicateSet]]:
    """Selections such that stronger ones find the weaker ones made, and are chained to them.

    The three inputs of `r1.amount > 1000000 AND r2.amount > 500000 AND r3.amount > 500000` become one chain.
    """
    listed = list(dict.fromkeys(selections))

    def implying(anchor: int, predicates: PredicateSet) -> int:
        return sum(other == anchor and set_implies(each, predicates) for other, each in listed)

    return sorted(listed, key=lambda item: (-implying(*item), item[0], item[1].text))
