"""A weaker join in the place of two: what both have in common, joined once, with the two as selections of its rows.

    there is    J1   T1.k = T2.k, T1.amount > 100000, T2.ts - T1.ts <= 10
    new         J2   T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 5
    instead     C    T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 10          J1 and J2 are selections of C

What two sets have in common is their semantic intersection: of each, what the other implies. It has the wider of two
ranges, and where ranges do not even touch, the range that covers both. Joins are put together like this only if they
look their pairs up by the same equations, and if that costs less: one pass over the inputs of the weaker join and two
over its rows, instead of a pass over the inputs and the rows of each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.optimizer.network.estimates import Estimates
from weft.optimizer.network.nodes import Anchors, Nodes, equations
from weft.optimizer.network.statistics import passing
from weft.optimizer.network.subsumption import in_common
from weft.predicates import PredicateSet
from weft.predicates.clauses import Disjunction, set_with


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
        passing(estimates.rows(anchor), estimates.shares_of_pair(first, second, set_with(side)))
        for anchor, side in zip((first, second), sides, strict=True)
    )
    return inputs + estimates.joined(first, second, predicates)
