"""The rows that a query or a representative answers: conditions as boxes, windows, schedules; and their merging.

Forms are compared and merged within a **family** only: queries that read the same inputs, joined by the same equations,
or aggregate the same rows of the same stream by the same keys over windows of the same length. Columns are no part of
a form. A form contains another one if it has all its rows, whatever is shown of them.

A member's condition is a few boxes (`disjunctive_form`), of which one must hold; a representative's are those of its
members, without the ones that lie in others. The closest ones are replaced by their hull until a few are left: the
representative answers more than its members want, and their subscriptions cut that away again. Boxes that differ in one
subject alone become one without any such loss.

Which boxes are close is seen on a sample of rows: a box has a bit for each of them (`traffic_estimates.Sample`). The
bits also tell at once that most boxes lie in no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import reduce
from typing import Any

from weft.algebra import DataType, Expression, Input, Select
from weft.predicates.domains import ValueSet, clock_facts, union
from weft.predicates.literals import conjunction, disjunction, expression_of, requirements
from weft.predicates.normal_forms import Box, box_contained, conjunctive_form, disjunctive_form
from weft.windows.counting import edge_rate
from weft.windows.join_windows import JoinWindows, contains_windows, is_timely, max_gap, merge_timely, merge_within
from weft.windows.slicing import EdgeSet, ResidueClass, grid_of, reduced

#: The largest number of boxes of a representative.
MOST_BOXES = 8

#: The largest number of spans of one subject in a hull; beyond it, gaps are filled.
MOST_SPANS = 16

#: The largest number of schedules of an aggregate's representative, each of which is a query of its own.
MOST_SCHEDULES = 8


class QueryKind(Enum):
    """How the rows of a representative are counted, and so where one epoch ends and the next one begins."""

    #: Rows pass at once: a member takes the rows of some cycles.
    SELECTION = "selection"
    #: Rows of several streams meet: a member takes rows by the newest of their clocks.
    JOIN = "join"
    #: Windows close: a member takes the rows of instances by their start.
    AGGREGATE = "aggregate"
    #: The query has a group of its own, which never changes.
    ALONE = "alone"


@dataclass(frozen=True)
class QueryFamily:
    """What queries must have in common to be merged at all.

    `inputs` have standard aliases and no windows; a single input is called "". `common` is the condition that all of
    them have: equations between inputs, or what an aggregate demands of its rows. An aggregate has `keys` in the order
    of their names, and the `range` of its window. Families are equal if their texts and inputs are.
    """

    kind: QueryKind
    inputs: tuple[Input, ...]
    clock_type: DataType
    text: str
    common: Expression | None = field(default=None, compare=False)
    keys: tuple[Expression, ...] = field(default=(), compare=False)
    range: int | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """The rows of one of the regions; of a join, those that meet in its windows; of an aggregate, at some ends.

    `delay` is by how much a row may be later than it was in what was merged into this.
    """

    regions: tuple[Region, ...]
    windows: JoinWindows | None = None
    ends: EdgeSet | None = None
    delay: int = 0


def contains(inner: Form, outer: Form, most_delay: int = 0) -> bool:
    """Whether the outer form has all rows of the inner one, none of them late by more than some ticks."""
    if inner.ends is not None and outer.ends is not None:
        if not all(any(grid_of((other, each)) == other for other in outer.ends) for each in inner.ends):
            return False
    elif inner.windows is not None and outer.windows is not None and not is_timely(inner.windows, outer.windows):
        if not most_delay or not contains_windows(inner.windows, outer.windows):
            return False
        if inner.delay + max_gap(inner.windows, outer.windows) > most_delay:
            return False
    return all(any(region_contained(each, other) for other in outer.regions) for each in inner.regions)


def merge(forms: Sequence[Form], rows: Rows, most_delay: int = 0) -> Form:
    """The smallest form, of those that are easy to evaluate, that contains all of some."""
    regions = absorbed((region for each in forms for region in each.regions), rows)
    return replace(met(forms, most_delay), regions=regions)


def met(forms: Sequence[Form], most_delay: int = 0) -> Form:
    """The windows, or the ends, that contain those of all of some, whatever their conditions."""
    if forms[0].ends is not None:
        return Form((), ends=union_of_ends([each.ends for each in forms if each.ends is not None]))
    return reduce(lambda left, right: _joined(left, right, most_delay), forms)


def _joined(left: Form, right: Form, most_delay: int) -> Form:
    """The windows of two forms together, and how late what they had may be in them."""
    if left.windows is None or right.windows is None:
        return left
    # What is late already may not be made later than is tolerated.
    tolerated = most_delay - max(left.delay, right.delay)
    windows = (
        merge_within(left.windows, right.windows, tolerated)
        if tolerated > 0
        else merge_timely(left.windows, right.windows)
    )
    late = (
        delay + (0 if is_timely(own, windows) else max_gap(own, windows))
        for own, delay in ((left.windows, left.delay), (right.windows, right.delay))
    )
    return Form((), windows, delay=max(late))


def union_of_ends(sets: Sequence[EdgeSet]) -> EdgeSet:
    """The union of schedules; the ones that gain least from being apart are put together, if they are too many."""
    ends = reduced(each for edges in sets for each in edges)
    while len(ends) > MOST_SCHEDULES:
        listed = sorted(ends)
        pairs = ((left, right) for number, left in enumerate(listed) for right in listed[:number])
        ends = min(
            (reduced([*ends, ResidueClass(*grid_of(pair))]) for pair in pairs),
            key=lambda each: (edge_rate(each), sorted(each)),
        )
    return ends


# -- conditions as boxes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Region:
    """A box, and the rows of a sample that lie in it, one bit each."""

    box: Box
    rows: int


Rows = Callable[[Box], int]


def region_contained(inner: Region, outer: Region) -> bool:
    return inner.rows & ~outer.rows == 0 and box_contained(inner.box, outer.box)


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

    def differences(pair: tuple[Region, Region]) -> tuple[int, int]:
        one, other = pair
        return (one.rows ^ other.rows).bit_count(), len(one.box.keys() ^ other.box.keys())

    return min(pairs, key=differences)


def hull(first: Box, second: Box) -> Box:
    """The box around two boxes: what one of them does not limit is not limited."""
    both = {subject: union((values, second[subject])) for subject, values in first.items() if subject in second}
    return {
        subject: values
        if len(values.spans) <= MOST_SPANS
        else ValueSet(((values.spans[0][0], values.spans[-1][1]),), values.null)
        for subject, values in both.items()
    }


def condition_of_boxes(boxes: Sequence[Box]) -> Expression | None:
    """Boxes as an expression that is TRUE for the rows of at least one; None if that is all rows.

    What all boxes demand alike stands apart, where a planner sees it.
    """
    first, *others = boxes
    shared = {s: values for s, values in first.items() if all(other.get(s) == values for other in others)}
    parts = list(_demands(shared))
    rest = [{s: values for s, values in box.items() if s not in shared} for box in boxes]
    if all(rest):
        choices = (conjunction(list(_demands(box))) for box in rest)
        parts.append(disjunction([each for each in choices if each is not None]))
    return conjunction(parts)


def _demands(box: Box) -> Iterable[Expression]:
    for subject, values in sorted(box.items(), key=lambda item: item[0].text):
        for clause in requirements(subject, values):
            yield disjunction([expression_of(literal) for literal in clause])


# -- as plain data ----------------------------------------------------------------------------------------------------

#: Conditions are written and read by functions that the caller gives.
Encode = Callable[[Expression | None], Any]
Decode = Callable[[Any], Expression | None]


def form_as_data(form: Form, encode: Encode) -> dict[str, Any]:
    """A form as plain data: conditions as expressions."""
    document: dict[str, Any] = {"boxes": [encode(condition_of_boxes([each.box])) for each in form.regions]}
    if form.windows is not None:
        document["windows"] = [list(form.windows.ranges), form.windows.slide, form.windows.origin, form.delay]
    if form.ends is not None:
        document["ends"] = sorted(map(list, form.ends))
    return document


def form_from_data(document: Mapping[str, Any], family: QueryFamily, rows: Rows, decode: Decode) -> Form:
    """The form that `form_as_data` wrote down."""
    facts = clock_facts(Select(family.inputs, None, (), family.clock_type))
    found = (disjunctive_form(conjunctive_form(decode(each), facts)) for each in document["boxes"])
    regions = tuple(Region(box, rows(box)) for boxes in found if boxes is not None for box in boxes)
    if "ends" in document:
        return Form(regions, ends=frozenset(ResidueClass(*each) for each in document["ends"]))
    if "windows" not in document:
        return Form(regions)
    ranges, slide, origin, delay = document["windows"]
    return Form(regions, JoinWindows(tuple(ranges), slide, origin), delay=delay)
