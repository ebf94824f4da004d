"""Restores in memory what the last commit left, while Spark starts.

Nothing is decided here. The first cycle takes over what fits its own plan, and builds the rest itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np

from weft.algebra.types import BIGINT, DOUBLE
from weft.catalog import Catalog
from weft.kernels.algorithms import ALGORITHMS
from weft.kernels.grouped import KernelPartials, make_kernel
from weft.kernels.kernel import why_not
from weft.kernels.monoids import COUNT, MOMENTS, SUM_OF_DOUBLES, extreme
from weft.kernels.sparse import SparseWindows
from weft.plan.facts import Facts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.query_list import QueryList
from weft.runtime.stages.statistics import facts
from weft.runtime.stages.windows import partials
from weft.runtime.stages.windows.kernel_placement import fits_the_driver
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.woven_queries import NotWoven, Woven, woven
from weft.runtime.state.checksums import Seals, check, seal_of
from weft.runtime.state.commits import Segment, last_commit


@dataclass(frozen=True)
class RestoredState:
    """The state of the last commit: the weaves of streams after a cycle, and the shapes of queries by number."""

    cycle: int | None = None
    weaves: Mapping[str, StreamWeave] = field(default_factory=dict)
    shapes: Mapping[int, Woven] = field(default_factory=dict)


#: A restoration that runs while Spark starts.
PendingRestore: TypeAlias = Future[RestoredState]


def restored(directory: Path) -> RestoredState:
    """Restore the state of the last commit of the project in a directory."""
    commit = last_commit(directory)
    if commit is None:
        # A first start has time for all kernels. Later ones load what they use.
        compile_kernels()
        return RestoredState()
    with Catalog.open(directory, write=False) as catalog:
        plan: QueryList = catalog.plan(commit.plan)
        known = facts(catalog)
        settings = catalog.settings()
    shapes = {}
    for query in plan.queries:
        if query.name in commit.queries and commit.queries[query.name].woven:
            with suppress(NotWoven):
                shapes[query.name] = woven(query)
    weaves = {}
    for stream in plan.streams:
        queries = {name: shape for name, shape in shapes.items() if shape.stream == stream.name}
        files = commit.logs.get(LogId(LogKind.PARTIALS, stream.name), ())
        largest = commit.streams[stream.name].largest if stream.name in commit.streams else None
        if queries and largest is not None and fits_the_driver(files, settings):
            weave = StreamWeave(stream, queries, facts=known.get(stream.name, Facts()))
            stored = (_pieces(directory / "state", each, commit.seals[each.path]) for each in files)
            weave.remember(chain.from_iterable(stored), largest - stream.delay)
            weaves[stream.name] = weave
    number_of = plan.number_of
    return RestoredState(commit.cycle, weaves, {number_of[name]: shape for name, shape in shapes.items()})


def compile_kernels() -> None:
    """Compile all that `GroupedWindows` and `SparseWindows` can ever call: no cycle should wait for a compiler.

    Compiled code is kept on disk, beside the sources or in the user's cache directory: a machine compiles once, for a
    second or two a kernel, and after that a process only loads.
    """
    extremes = (extreme(type_, greatest) for type_ in (BIGINT, DOUBLE) for greatest in (False, True))
    # One statistic for each arithmetic there is on rows; all others use the same.
    for statistic in (COUNT, SUM_OF_DOUBLES, MOMENTS, *extremes):
        for name, algorithm in ALGORITHMS.items():
            if why_not(algorithm, statistic) is None:
                make_kernel(name, statistic, capacity=1, width=2).slide(statistic.empty(1, 2), [[0]])
        # Windows short enough to be added up one by one, and windows long enough for a tree.
        for slices in (2, 200):
            ones = KernelPartials(np.arange(slices), np.zeros(slices, np.int64), {"x": statistic.empty(slices)})
            SparseWindows({"x": statistic}).slide(ones, slices, np.zeros((slices, 1)))


def _pieces(state: Path, segment: Segment, seals: Seals) -> Iterator[partials.Partials]:
    """The partials of a segment of the commit; StorageError if its file is not as it was sealed."""
    file = state / segment.path
    data = file.read_bytes()
    check(str(file), seals, {"": seal_of(data)})
    yield from partials.pieces(segment.part(data))
