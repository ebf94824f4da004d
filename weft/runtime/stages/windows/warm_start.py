"""Restores in memory what the last commit left, while Spark starts.

Nothing is decided here. The first cycle takes over what fits its own plan, and builds the rest itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from weft.catalog import Catalog
from weft.kernels.warm import warm_up
from weft.plan.facts import Facts
from weft.plan.log_ids import LogId
from weft.plan.plan import Plan
from weft.runtime.stages.windows import partials
from weft.runtime.stages.windows.kernel_placement import fits_the_driver, placement_settings
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.woven_queries import NotWoven, Woven, woven
from weft.runtime.state.commits import Commit
from weft.runtime.state.seals import Seals, check, seal_of
from weft.runtime.state.status import last_commit
from weft.runtime.statistics import facts


@dataclass(frozen=True)
class RestoredState:
    """What a process has left: the weaves of streams after a cycle, and the shapes of queries by number."""

    cycle: int | None = None
    weaves: Mapping[str, StreamWeave] = field(default_factory=dict)
    shapes: Mapping[int, Woven] = field(default_factory=dict)


#: What is on its way.
PendingRestore: TypeAlias = Future[RestoredState]


def restored(directory: Path) -> RestoredState:
    """Bring back what the last commit of the project in a directory has left."""
    commit = last_commit(directory)
    if commit is None:
        # A first start has time for all kernels: they are compiled the first time ever. Later ones load what they use.
        warm_up()
        return RestoredState()
    with Catalog.open(directory, write=False) as catalog:
        plan: Plan = catalog.plan(commit.plan).plan
        known = facts(catalog)
        limits = placement_settings(catalog)
    shapes = _shapes(plan, commit)
    weaves = {}
    for stream in plan.streams:
        queries = {name: shape for name, shape in shapes.items() if shape.stream == stream.name}
        files = commit.logs.get(LogId.partials(stream.name), ())
        largest = commit.streams[stream.name].largest if stream.name in commit.streams else None
        if queries and largest is not None and fits_the_driver(files, limits):
            weave = StreamWeave(stream, queries, facts=known.get(stream.name, Facts()))
            data = (_sealed(directory / "state" / each.path, commit.seals[each.path]) for each in files)
            weave.remember((piece for each in data for piece in partials.pieces(each)), largest - stream.delay)
            weaves[stream.name] = weave
    number_of = plan.number_of
    return RestoredState(commit.cycle, weaves, {number_of[name]: shape for name, shape in shapes.items()})


def _sealed(file: Path, seals: Seals) -> bytes:
    """The bytes of a file of the commit; StorageError if they are not those that it sealed."""
    data = file.read_bytes()
    check(str(file), seals, {"": seal_of(data)})
    return data


def _shapes(plan: Plan, commit: Commit) -> dict[str, Woven]:
    """The woven queries of a plan, by name."""
    shapes = {}
    for query in plan.queries:
        if query.name in commit.queries and commit.queries[query.name].woven:
            try:
                shapes[query.name] = woven(query)
            except NotWoven:
                continue
    return shapes
