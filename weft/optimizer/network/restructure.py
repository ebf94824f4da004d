"""A weaker join in the place of two: what both have in common, joined once, with the two as selections of its rows.

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

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from weft.optimizer.network.estimates import Estimates, passing
from weft.optimizer.network.node_predicates import both, in_common, residual
from weft.optimizer.network.nodes import Anchors, Entry, Nodes, equations
from weft.optimizer.network.wanted import leg_name
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet, set_with
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
    """Lets a selection join its rows by itself, if it is all that there is above the join that it reads."""
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
