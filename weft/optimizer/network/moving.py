"""Nodes that get the rows they had before from somewhere else.

    weaken        a join becomes a selection of a weaker join's rows
    strengthen    such a selection becomes a join again, and the weaker join goes
    shorten       a selection reads what its parent reads, and the parent goes

All keep their numbers, and what is above them stays as it is. What changes is where they are looked up: a selection, or
one side of a join, counts from its anchor, the nearest join or log below it, and that is another one now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.optimizer.network.nodes import Anchors, Entry, Nodes
from weft.optimizer.network.subsumption import both, residual
from weft.optimizer.network.wanted import leg_name
from weft.predicates import TRUE_SET, PredicateSet, under

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
