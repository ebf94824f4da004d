"""The partials of streams as segments: written once in a cycle, read whenever trees are made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from weft.plan.event_time import Clock
from weft.runtime.stages.windows.partials import Layout, Partials, decoded, encoded, joined, pieces
from weft.runtime.state.commits import Segment
from weft.runtime.state.store import Block, StateStore


def block_of(partials: Partials) -> Block:
    """Return partials as a segment holds them; their clocks are the starts of their slices."""
    starts = partials.slices
    return Block(encoded(partials), len(partials), int(starts.min()), int(starts.max()))


@dataclass
class PartialFiles:
    """Files of partials with one layout and schema, all of earlier cycles or all of this one."""

    stream: str
    layout: Layout
    schema: pa.Schema
    arrived: bool
    segments: list[Segment]
    paths: list[str]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.segments)

    @property
    def oldest(self) -> int:
        """The start of the oldest slice."""
        return min(each.min_clock or 0 for each in self.segments)


class PartialLog:
    """Reads and writes segments of partials. It remembers how they are laid out, so that few are opened to see that."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        #: The files that this cycle has written for executors.
        self._written: dict[str, Segment] = {}
        self._described: dict[Segment, tuple[Layout, pa.Schema]] = {}

    def begin(self, live: Iterable[Segment]) -> None:
        """A cycle begins, or is tried again, with these segments."""
        segments = set(live)
        self._written = {}
        self._described = {each: known for each, known in self._described.items() if each in segments}

    def read(self, segment: Segment) -> Partials:
        return decoded(self._store.read(segment))

    def pieces(self, segments: Iterable[Segment]) -> Iterator[Partials]:
        """Return the partials of some segments, as many at a time as are best taken in at once."""
        for each in segments:
            yield from pieces(self._store.read(each))

    def written(self, partials: Partials, path: str) -> Segment:
        """Write partials to a file of their own, unless this cycle has done so already."""
        if path not in self._written:
            segment = self._written[path] = self._store.write_apart(path, block_of(partials))
            self._described[segment] = partials.layout, partials.table.schema
        return self._written[path]

    def apart(self, segments: Sequence[Segment], path: str) -> tuple[Segment, ...]:
        """Return segments that executors can read: those inside files of others are copied to files of their own."""
        return tuple(
            self.written(self.read(each), f"{path}-{number}.parquet") if each.length else each
            for number, each in enumerate(segments)
        )

    def rewritten(self, segments: Iterable[Segment], added: Partials | None, since: Clock) -> Iterator[Block]:
        """Return the partials of some segments, and those that are added, as few blocks as there are layouts."""
        parts = [*map(self.read, segments), *([] if added is None else [added])]
        needed = [each if since is None else each.since(since) for each in parts]
        return (block_of(each) for each in joined(needed) if len(each))

    def files(self, stream: str, kept: Iterable[Segment], arrived: Segment | None) -> list[PartialFiles]:
        """Return the live partials of a stream as executors read them, this cycle's among them."""
        alike: dict[object, PartialFiles] = {}
        for each in [*kept, *([] if arrived is None else [arrived])]:
            layout, schema = self._description(each)
            plain, is_new = schema.remove_metadata(), each is arrived
            place = repr(layout), str(plain), is_new
            files = alike.setdefault(place, PartialFiles(stream, layout, plain, is_new, [], []))
            files.segments.append(each)
            files.paths.append(self._store.path(each.path))
        return list(alike.values())

    def _description(self, segment: Segment) -> tuple[Layout, pa.Schema]:
        if segment not in self._described:
            partials = self.read(segment)
            self._described[segment] = partials.layout, partials.table.schema
        return self._described[segment]
