"""What a query, or a representative, answers: the rows that satisfy a condition, and that meet, or when windows end.

Forms are compared and merged within a **family** only: queries that read the same inputs, joined by the same equations,
or aggregate the same rows of the same stream by the same keys over windows of the same length. Columns are no part of
a form. A form contains another one if it has all its rows, whatever is shown of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from weft.algebra import DataType, Expression, Input
from weft.optimizer.group_results.changes import Kind
from weft.optimizer.group_results.conditions import Region, Rows, absorbed, regions_contained
from weft.windows.counting import edge_rate
from weft.windows.join_windows import JoinWindows, contains_windows, is_timely, max_gap, merge_timely, merge_within
from weft.windows.slicing import EdgeSet, ResidueClass, reduced, residue_class

#: The largest number of schedules of an aggregate's representative, each of which is a query of its own.
MOST_SCHEDULES = 8


@dataclass(frozen=True)
class Family:
    """What queries must have in common to be merged at all.

    `inputs` have standard aliases and no windows; a single input is called "". `common` is the condition that all of
    them have: equations between inputs, or what an aggregate demands of its rows. Families are equal if their texts and
    inputs are.
    """

    kind: Kind
    inputs: tuple[Input, ...]
    clock_type: DataType
    text: str
    common: Expression | None = field(default=None, compare=False)
    #: Of an aggregate: its keys in the order of their names, and the range of its window.
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
    return (
        _windows_contained(inner, outer, most_delay)
        and _ends_contained(inner.ends, outer.ends)
        and regions_contained(inner.regions, outer.regions)
    )


def _windows_contained(inner: Form, outer: Form, most_delay: int) -> bool:
    if inner.windows is None or outer.windows is None or inner.windows == outer.windows:
        return True
    if is_timely(inner.windows, outer.windows):
        return True
    if not most_delay or not contains_windows(inner.windows, outer.windows):
        return False
    return inner.delay + max_gap(inner.windows, outer.windows) <= most_delay


def _ends_contained(inner: EdgeSet | None, outer: EdgeSet | None) -> bool:
    if inner is None or outer is None:
        return True
    return all(any(_is_inside(each, other) for other in outer) for each in inner)


def _is_inside(inner: ResidueClass, outer: ResidueClass) -> bool:
    return inner.modulus % outer.modulus == 0 and (inner.residue - outer.residue) % outer.modulus == 0


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
    late = max(_late(each, windows) for each in (left, right))
    return Form((), windows, delay=late)


def _late(form: Form, windows: JoinWindows) -> int:
    assert form.windows is not None
    return form.delay + (0 if is_timely(form.windows, windows) else max_gap(form.windows, windows))


def union_of_ends(sets: Sequence[EdgeSet], most: int = MOST_SCHEDULES) -> EdgeSet:
    """The union of schedules; the ones that gain least from being apart are put together, if they are too many."""
    ends = reduced(each for edges in sets for each in edges)
    while len(ends) > most:
        listed = sorted(ends)
        pairs = ((left, right) for number, left in enumerate(listed) for right in listed[:number])
        ends = min(
            (reduced([*ends, _around(*pair)]) for pair in pairs), key=lambda each: (edge_rate(each), sorted(each))
        )
    return ends


def _around(left: ResidueClass, right: ResidueClass) -> ResidueClass:
    """The rarest class with all instants of two."""
    merged = merge_timely(JoinWindows((1,), *left), JoinWindows((1,), *right))
    return residue_class(merged.slide, merged.origin)
