"""EMIT EMPTY: the instances that close without a row are answered as well, with counts of 0 and NULLs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.runtime.stages.windows.answers import Closed, Part
from weft.runtime.stages.windows.shape import Woven
from weft.windows import instance, instances_ending

_NONE = np.empty(0, dtype=np.int64)


def with_empty_instances(
    query: Woven, closed: Sequence[Part], counted_from: int, after: int | None, until: int
) -> Part:
    """What has closed for an ungrouped query, and identities for all other instances that end in (after, until].

    They begin with the first one that ends after `counted_from`.
    """
    present = np.concatenate([_NONE, *(part.numbers(part.closed.ends) for part in closed)])
    ends = _ends(query.window, counted_from if after is None else max(counted_from, after), until)
    empty = np.setdiff1d(ends, present, assume_unique=True)
    records = {}
    for each in query.all_measures:
        known = [tuple(map(part.numbers, part.closed.records[each.name])) for part in closed]
        columns = zip(*known, each.statistic.empty(len(empty)), strict=True)
        records[each.name] = tuple(np.concatenate(column) for column in columns)
    every = np.concatenate([present, empty])
    assert query.window.range is not None
    return Part(Closed(every - query.window.range, every, [], records), 0, len(every))


def _ends(window: Window, after: int, until: int) -> NDArray[np.int64]:
    numbers = instances_ending(window, after, until)
    if not numbers:
        return _NONE
    first, last = (instance(window, number).end for number in (numbers[0], numbers[-1]))
    return np.arange(first, last + 1, window.slide, dtype=np.int64)
