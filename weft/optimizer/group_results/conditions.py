"""Conditions as boxes, of which one must hold: what absorbs what, hulls, and the way back to expressions.

A member's condition is a few boxes (`weft.predicates.disjunctive_form`); a representative's are those of its members,
without the ones that lie in others. A thousand members would make it a condition of a thousand boxes. So the closest
ones are replaced by their hull until a few are left: the representative answers more than its members want, and their
subscriptions cut that away again. Boxes that differ in one subject alone become one without any such loss.

Which boxes are close is seen on a sample of rows: a box has a bit for each of them (`cost.Sample`). The bits of a box
that lies in another are among the other's, so they also tell at once that most boxes lie in no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weft.algebra import Expression
from weft.predicates.intervals import ValueSet, union
from weft.predicates.literal_expressions import conjunction, disjunction, expression_of
from weft.predicates.literals import requirements
from weft.predicates.normal_forms import Box, box_contained

#: The largest number of boxes of a representative.
MOST_BOXES = 8

#: The largest number of spans of one subject in a hull; beyond it, gaps are filled.
MOST_SPANS = 16


@dataclass(frozen=True, slots=True)
class Region:
    """A box, and the rows of a sample that lie in it, one bit each."""

    box: Box
    rows: int


Rows = Callable[[Box], int]


def region_contained(inner: Region, outer: Region) -> bool:
    """Whether every row in the inner box is in the outer one."""
    return inner.rows & ~outer.rows == 0 and box_contained(inner.box, outer.box)


def regions_contained(inner: Iterable[Region], outer: Sequence[Region]) -> bool:
    """Whether every region lies in one of the others."""
    return all(any(region_contained(each, other) for other in outer) for each in inner)


def absorbed(regions: Iterable[Region], rows: Rows, most: int = MOST_BOXES) -> tuple[Region, ...]:
    """The regions that lie in no other; hulls of the closest ones, if they are too many."""
    kept: list[Region] = []
    for each in regions:
        _add(kept, each)
        if len(kept) > most:
            first, second = _closest(kept)
            kept = [region for region in kept if region is not first and region is not second]
            box = hull(first.box, second.box)
            _add(kept, Region(box, rows(box)))
    return tuple(kept)


def _add(kept: list[Region], new: Region) -> None:
    if any(region_contained(new, other) for other in kept):
        return
    kept[:] = [other for other in kept if not region_contained(other, new)]
    for other in kept:
        together = _exact_union(other, new)
        if together is not None:
            kept.remove(other)
            _add(kept, together)
            return
    kept.append(new)


def _exact_union(first: Region, second: Region) -> Region | None:
    """Two boxes that differ in one subject, as one box that has their rows and no others."""
    if first.box.keys() != second.box.keys():
        return None
    differing = [subject for subject, values in first.box.items() if second.box[subject] != values]
    if len(differing) > 1:
        return None
    (subject,) = differing
    values = union((first.box[subject], second.box[subject]))
    return Region({**first.box, subject: values}, first.rows | second.rows) if len(values.spans) <= MOST_SPANS else None


def _closest(regions: Sequence[Region]) -> tuple[Region, Region]:
    """The two regions that have the most in common: few rows are in one of them alone, and few ends differ."""
    pairs = ((first, second) for number, first in enumerate(regions) for second in regions[:number])
    return min(pairs, key=lambda pair: ((pair[0].rows ^ pair[1].rows).bit_count(), _differences(*pair)))


def _differences(first: Region, second: Region) -> int:
    return len(first.box.keys() ^ second.box.keys())


def hull(first: Box, second: Box) -> Box:
    """The box around two boxes: what one of them does not limit is not limited."""
    return {subject: _around(values, second[subject]) for subject, values in first.items() if subject in second}


def _around(first: ValueSet, second: ValueSet) -> ValueSet:
    both = union((first, second))
    if len(both.spans) <= MOST_SPANS:
        return both
    return ValueSet(((both.spans[0][0], both.spans[-1][1]),), both.null)


def condition_of_regions(regions: Sequence[Region]) -> Expression | None:
    """Regions as an expression that is TRUE for the rows of at least one; None if that is all rows.

    What all regions demand alike stands apart, where a planner sees it.
    """
    return condition_of_boxes([each.box for each in regions])


def condition_of_boxes(boxes: Sequence[Box]) -> Expression | None:
    """Boxes as an expression that is TRUE for the rows of at least one; None if that is all rows."""
    first, *others = boxes
    shared = {s: values for s, values in first.items() if all(other.get(s) == values for other in others)}
    parts = list(_demands(shared))
    rest = [{s: values for s, values in box.items() if s not in shared} for box in boxes]
    if all(rest):
        choices = (conjunction(list(_demands(box))) for box in rest)
        parts.append(disjunction([each for each in choices if each is not None]))
    return conjunction(parts)


def _demands(box: Box) -> Iterable[Expression]:
    """What must hold for a row to be in a box."""
    for subject, values in sorted(box.items(), key=lambda item: item[0].text):
        for clause in requirements(subject, values):
            yield disjunction([expression_of(literal) for literal in clause])
