"""Weaker joins in the place of two: what both have in common, joined once, with the two as selections of its rows.

    there is    J1   T1.k = T2.k, T1.amount > 100000, T2.ts - T1.ts <= 10
    new         J2   T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 5
    instead     C    T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 10          J1 and J2 are selections of C

What two sets have in common is their semantic intersection: of each, what the other implies. It has the wider of two
ranges, and where ranges do not even touch, the range that covers both. Joins are put together like this only if they
look their pairs up by the same equations, and if that costs less: one pass over the inputs of the weaker join and two
over its rows, instead of a pass over the inputs and the rows of each.

Nodes that get their rows from somewhere else then keep their numbers, and what is above them stays as it is. What
changes is where they are looked up: a selection, or one side of a join, counts from its anchor, the nearest join or log
below it, and that is another one now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from weft.optimizer.network.nodes import Anchors, Entry, Nodes, equations
from weft.optimizer.network.sizes import Estimates, passing
from weft.optimizer.network.wanted import leg_name
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet, set_with
from weft.predicates.operations import both, in_common, residual, under


def best_option(
    nodes: Nodes, estimates: Estimates, ways: Iterable[tuple[Anchors, PredicateSet, bool]]
) -> tuple[int, bool, PredicateSet] | None:
    """The join that a new one is best put together with, whether the new one's sides change places for it, and what
    the two have in common; None if it is worth it with no join."""
    options = []
    for anchors, predicates, is_turned in ways:
        for number in nodes.joins_alike(anchors, predicates):
            there = nodes[number].joined
            common = in_common(predicates, there)
            if equations(common) == equations(predicates):
                new, old, weaker = (_work(nodes, estimates, anchors, each) for each in (predicates, there, common))
                saving = new + old - weaker - 2 * estimates.joined(*anchors[:2], common)
                if saving > 0:
                    options.append((-saving, number, is_turned, common))
    return min(options, key=lambda each: each[:3])[1:] if options else None


def _work(nodes: Nodes, estimates: Estimates, anchors: Anchors, predicates: PredicateSet) -> int:
    """The rows of a join's inputs, and its own."""
    width = len(nodes[anchors[0]].legs)
    sides: dict[bool, list[Disjunction]] = {True: [], False: []}
    for each in predicates.disjunctions:
        is_left = {int(leg[1:]) <= width for leg in each.sources}
        if len(is_left) == 1:
            sides[is_left.pop()].append(each)
    inputs = (
        passing(estimates.rows(anchor), estimates.shares(set_with(side), *anchors[:2]))
        for anchor, side in zip(anchors[:2], sides.values(), strict=True)
    )
    return sum(inputs) + estimates.joined(*anchors[:2], predicates)


def weaken(nodes: Nodes, number: int, parent: int, predicates: PredicateSet) -> None:
    """Lets a join select its rows from a weaker join, or from a selection of that one's rows."""
    entry, below = nodes[number], nodes[parent]
    between = both(below.selected, predicates)

    def move_anchors() -> None:
        entry.anchors, entry.joined, entry.timely = None, TRUE_SET, False
        for each in above:
            _move_anchor(nodes, each, number, below.anchor, between, lambda beyond, added: both(added, beyond))

    above = _anchored_in(nodes, number)
    _rewire(nodes, entry, above, (parent,), predicates, move_anchors)


def strengthen(
    nodes: Nodes, number: int, parents: tuple[int, int], predicates: PredicateSet, joined: PredicateSet
) -> None:
    """Makes a selection a join again, if it is the only node above the join that it reads, which goes."""
    entry = nodes[number]
    weaker = nodes[entry.anchor]
    between = entry.selected

    def move_anchors() -> None:
        for each in above:
            _move_anchor(nodes, each, weaker.number, number, between, residual)
        entry.anchors, entry.joined, entry.timely = weaker.anchors, joined, weaker.timely

    above = _anchored_in(nodes, weaker.number)[1:]
    _rewire(nodes, entry, above, parents, predicates, move_anchors)


def shorten(nodes: Nodes, number: int) -> None:
    """Lets a selection read what its parent reads, if it is all that there is above that one, which goes."""
    entry = nodes[number]
    parent = nodes[entry.parents[0]]
    _rewire(nodes, entry, [entry], parent.parents, both(parent.predicates, entry.predicates), lambda: None)


def _rewire(
    nodes: Nodes,
    entry: Entry,
    above: Sequence[Entry],
    parents: tuple[int, ...],
    predicates: PredicateSet,
    move_anchors: Callable[[], None],
) -> None:
    """Gives a node other parents, and what is above it other anchors."""
    before = entry.parents
    for each in above:
        nodes.unindex(each)
    nodes.detach(entry)
    move_anchors()
    entry.parents, entry.predicates = parents, predicates
    nodes.attach(entry)
    for each in above:
        nodes.index(each)
    for old in dict.fromkeys(before):
        nodes.remove_unused(old)


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


def _move_anchor(
    nodes: Nodes,
    entry: Entry,
    old: int,
    new: int,
    between: PredicateSet,
    restated: Callable[[PredicateSet, PredicateSet], PredicateSet],
) -> None:
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
    entry.anchors = (new if first == old else first, new if second == old else second, timely)
