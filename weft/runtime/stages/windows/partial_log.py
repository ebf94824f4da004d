"""The files of partials: written once in a cycle, read whenever trees are made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from weft.plan.event_time import Clock
from weft.runtime.stages.windows.executors import PartialFiles, files_by_layout
from weft.runtime.stages.windows.partials import Layout, Partials, decoded, encoded, joined, pieces
from weft.runtime.state.commits import Segment
from weft.runtime.state.storage import Storage

#: A file with so many partials stays as it is: to write them again takes longer than opening it will.
_LARGE = 50_000


def small_ones(segments: Iterable[Segment]) -> list[Segment]:
    """The files that are better rewritten as one when there are many of them."""
    return [each for each in segments if each.rows < _LARGE]


class PartialLog:
    """What is on disk. It remembers how the files are laid out, so that most are never opened to find out."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        #: What this cycle has written.
        self._written: dict[str, Segment] = {}
        self._described: dict[str, tuple[Layout, pa.Schema]] = {}

    def begin(self, live: Iterable[str]) -> None:
        """A cycle begins, or is tried again, with these files."""
        paths = set(live)
        self._written = {}
        self._described = {path: known for path, known in self._described.items() if path in paths}

    def read(self, segment: Segment) -> Partials:
        return decoded(self._storage.read_bytes(segment.path))

    def pieces(self, segments: Iterable[Segment]) -> Iterator[Partials]:
        """The partials of some files, as many at a time as are best taken in at once."""
        for each in segments:
            yield from pieces(self._storage.read_bytes(each.path))

    def keep(self, partials: Partials, path: str) -> Segment:
        """Write partials, unless this cycle has written them already."""
        if path not in self._written:
            self._storage.write_bytes(path, encoded(partials))
            slices = partials.slices
            self._written[path] = Segment(path, len(partials), int(slices.min()), int(slices.max()))
            self._described[path] = partials.layout, partials.table.schema
        return self._written[path]

    def compacted(self, segments: Sequence[Segment], since: Clock, path: str) -> list[Segment]:
        """The same partials in fewer files, in the order of time: the small ones, without what is older than anybody
        needs, in one for each layout."""
        small = small_ones(segments)
        needed = [each if since is None else each.since(since) for each in map(self.read, small)]
        tables = [each for each in joined(needed) if len(each)]
        written = [self.keep(each, f"{path}-{number}.parquet") for number, each in enumerate(tables)]
        kept = [each for each in segments if each not in small]
        return sorted([*kept, *written], key=lambda each: (each.min_clock, each.path))

    def files(self, stream: str, kept: Iterable[Segment], arrived: Segment | None) -> list[PartialFiles]:
        """The live partials of a stream as executors read them, this cycle's among them."""
        known = [(each, *self._description(each), False) for each in kept]
        if arrived is not None:
            known.append((arrived, *self._description(arrived), True))
        return files_by_layout(stream, known, self._storage.path)

    def _description(self, segment: Segment) -> tuple[Layout, pa.Schema]:
        if segment.path not in self._described:
            partials = self.read(segment)
            self._described[segment.path] = partials.layout, partials.table.schema
        return self._described[segment.path]
