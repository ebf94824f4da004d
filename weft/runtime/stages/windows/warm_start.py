"""Restores in memory what the last commit left, while Spark starts.

Nothing is decided here. The first cycle takes over what fits its own plan, and builds the rest itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
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
from weft.optimizer.rules.indexes import stream_shape
from weft.optimizer.rules.share_reductions import readers_over
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import ReduceNode, WindowTreeNode
from weft.runtime.stages.windows import partials
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.state.checksums import Seals, check, seal_of
from weft.runtime.state.commits import Segment, last_commit
from weft.runtime.state.stored_plan import StoredPlan


@dataclass(frozen=True)
class RestoredState:
    """The state of the last commit: the weaves of streams after a cycle."""

    cycle: int | None = None
    weaves: Mapping[str, StreamWeave] = field(default_factory=dict)


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
        streams = {each.name: each for each in catalog.streams()}
        plan, settings = StoredPlan(catalog).load(), catalog.settings()
    weaves = {}
    for reduce in plan.of(ReduceNode):
        name = reduce.stream
        nodes = {each.text: each for each in readers_over(plan, name) if each.start.first <= commit.cycle}
        shapes = {id_: stream_shape(each) for id_, each in nodes.items()}
        trees = {
            id_: tree for id_, each in nodes.items() if isinstance(tree := plan.nodes[each.inputs[0]], WindowTreeNode)
        }
        away = frozenset(each.spec.keys for each in trees.values() if each.on_executors)
        files = commit.logs.get(LogId(LogKind.PARTIALS, name), ())
        largest = commit.streams[name].largest if name in commit.streams else None
        if shapes and largest is not None and not away and settings.kernels != "executors":
            weave = StreamWeave(streams[name], shapes, trees, reduce=reduce)
            stored = (_pieces(directory / "state", each, commit.seals[each.path]) for each in files)
            weave.remember(chain.from_iterable(stored), largest - streams[name].delay)
            weaves[name] = weave
    return RestoredState(commit.cycle, weaves)


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
