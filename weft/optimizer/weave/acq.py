"""Aggregate continuous queries as weaving sees them: a window, what is measured in it, and of which rows and groups.

Equal queries are one entry with a multiplicity: a million dashboards have some thousand different windows, and all
other modules of weaving work on those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from weft.algebra import Window
from weft.kernels.kernel_cost import Demand, demand, merged
from weft.windows.slicing import EdgeSet, shared_edges, window_edges


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
    return shared_edges(query.window for query in queries)


def lanes_of(query: Acq) -> list[Lane]:
    return [Lane(measure, query.group_by, query.predicate) for measure in sorted(query.measures)]


def demands_of(queries: Counted) -> dict[Lane, Demand]:
    """The demands on one tree for these queries, lane by lane."""
    by_lane: dict[Lane, list[Window]] = {}
    for query, count in queries.items():
        for lane in lanes_of(query):
            by_lane.setdefault(lane, []).extend([query.window] * count)
    return {lane: demand(windows) for lane, windows in by_lane.items()}


def merged_demands(left: Demands, right: Demands) -> dict[Lane, Demand]:
    """The demands of one tree in the place of two."""
    both = dict(left)
    for lane, asked in right.items():
        both[lane] = merged(both[lane], asked) if lane in both else asked
    return both
