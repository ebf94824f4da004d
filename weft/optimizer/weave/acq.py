"""Aggregate continuous queries as weaving sees them: a window, what is measured in it, and of which rows and groups.

Equal queries are one entry with a multiplicity: a million dashboards have some thousand different windows, and all
other modules of weaving work on those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from weft.algebra import Window
from weft.kernels.demand import Demand, merged
from weft.windows.slicing import EdgeSet, bounded_range, reduced, window_edges


class AcqMeasure(NamedTuple):
    """One statistic of the rows, such as SUM(price): what a kernel keeps and answers from."""

    name: str
    kernels: tuple[str, ...] = ()
    """The kernels that may serve it; none given means all that the costing knows."""


#: What the papers' queries measure: some function, the same for all.
AGGREGATE = AcqMeasure("aggregate")
_ONE_AGGREGATE = frozenset({AGGREGATE})
_NO_KEYS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Acq:
    """An aggregate continuous query. `predicate` names the rows it is about; the empty name is all of them."""

    window: Window
    measures: frozenset[AcqMeasure] = _ONE_AGGREGATE
    group_by: frozenset[str] = _NO_KEYS
    predicate: str = ""


class Lane(NamedTuple):
    """What one kernel of a tree serves: a measure, of the same rows, by the same keys, over any number of windows."""

    measure: AcqMeasure
    group_by: frozenset[str]
    predicate: str


#: Queries with how often each occurs.
Counted: TypeAlias = Mapping[Acq, int]

#: The demands on a tree, by lane.
Demands: TypeAlias = Mapping[Lane, Demand]


def collapse(queries: Iterable[Acq | Window] | Counted) -> dict[Acq, int]:
    """Each different query with its multiplicity, in the order of first appearance. A bare window is a query too.

    >>> collapse([Window(8, 4), Window(8, 4)])[Acq(Window(8, 4))]
    2
    """
    if isinstance(queries, Mapping):
        return dict(queries)
    counted = Counter(queries)
    return {query if isinstance(query, Acq) else Acq(query): count for query, count in counted.items()}


def together(parts: Iterable[Counted]) -> dict[Acq, int]:
    """All queries of several parts; one that is in more than one of them counts as often as in all of them."""
    everyone: dict[Acq, int] = {}
    for part in parts:
        for query, count in part.items():
            everyone[query] = everyone.get(query, 0) + count
    return everyone


def edges_of(query: Acq) -> EdgeSet:
    """Where the query alone would cut the stream."""
    return frozenset(window_edges(query.window))


def edges_of_all(queries: Iterable[Acq]) -> EdgeSet:
    """Where one tree for all of these cuts the stream."""
    return reduced(
        {edge_class for window in {query.window for query in queries} for edge_class in window_edges(window)}
    )


def lanes_of(query: Acq) -> list[Lane]:
    return [Lane(measure, query.group_by, query.predicate) for measure in sorted(query.measures)]


def demands_of(queries: Counted) -> dict[Lane, Demand]:
    """The demands on one tree for these queries, lane by lane."""
    by_lane: dict[Lane, dict[int, dict[int, int]]] = {}
    for query, count in queries.items():
        reach, slide = bounded_range(query.window), query.window.slide
        for lane in lanes_of(query):
            ranges = by_lane.setdefault(lane, {}).setdefault(slide, {})
            ranges[reach] = ranges.get(reach, 0) + count
    return {lane: _demand(by_slide) for lane, by_slide in by_lane.items()}


def merged_demands(left: Demands, right: Demands) -> dict[Lane, Demand]:
    """The demands of one tree in the place of two."""
    together = dict(left)
    for lane, asked in right.items():
        together[lane] = merged(together[lane], asked) if lane in together else asked
    return together


def _demand(by_slide: dict[int, dict[int, int]]) -> Demand:
    """Ranges with multiplicities, slide by slide. Tables of one slide are written down; only slides need merging."""
    parts = [_demand_of_one_slide(slide, ranges) for slide, ranges in by_slide.items()]
    while len(parts) > 1:
        parts = [merged(*parts[at : at + 2]) if at + 1 < len(parts) else parts[at] for at in range(0, len(parts), 2)]
    return parts[0]


def _demand_of_one_slide(slide: int, counts: dict[int, int]) -> Demand:
    ranges = sorted(counts)
    queries = np.array([counts[reach] for reach in ranges], dtype=np.int64)
    overlap = sum(counts[reach] * -(-reach // slide) for reach in ranges)
    # In a period of one slide every query answers once.
    return Demand(np.array(ranges, dtype=np.int64), queries, queries, slide, overlap)
