"""Partials as they leave Spark and as they are stored: tables that describe their columns.

A file of partials serves any plan: readers find keys, conditions and aggregates by their texts. A query that needs what
a file does not have came after the file, and its windows need nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weft.kernels.statistic import Columns
from weft.optimizer.aggregates.stream_shapes import Measure, rows_counted
from weft.plan.event_time import Clock
from weft.runtime.stages.windows.signatures import Decoder, satisfying
from weft.runtime.state.commits import Segment
from weft.runtime.state.store import Block, StateStore

#: The column of the slice: EXPLAIN shows its name, as that of the others.
SLICE = "cell"
#: The largest clock and the smallest, which only the cycle that rows arrive in needs.
LATEST, LEAST = "latest", "least"

#: Stored partials that are taken in at once: memory that was touched before is cheaper than new memory.
_AT_ONCE = 200_000

_METADATA = b"weft.partials"


@dataclass(frozen=True)
class Layout:
    """What the columns of a table of partials are, by the texts they were computed from."""

    keys: tuple[str, ...]
    decoders: Mapping[str, Decoder]
    signature_columns: int
    aggregates: tuple[str, ...]

    @property
    def group_names(self) -> list[str]:
        signature = [f"g{number}" for number in range(self.signature_columns)]
        return [*signature, *(f"k{number}" for number in range(len(self.keys)))]

    @property
    def aggregate_names(self) -> list[str]:
        return [f"p{number}" for number in range(len(self.aggregates))]


@dataclass(frozen=True)
class Partials:
    """Partials of one stream, and what their columns are."""

    layout: Layout
    table: pa.Table
    #: Computes the records of a measure, if they are not read from the table.
    lift: Callable[[Measure], Columns] | None = field(default=None, repr=False)
    _records: dict[str, Columns] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @cached_property
    def slices(self) -> NDArray[np.int64]:
        """The start of each partial's slice."""
        return np.asarray(self.table[SLICE].to_numpy())

    @property
    def row_counts(self) -> NDArray[np.int64]:
        """The number of rows of each partial."""
        return self.records(rows_counted())[0]

    @cached_property
    def distinct_slices(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The starts of the present slices, ascending, and which of them each partial is of."""
        starts, which = np.unique(self.slices, return_inverse=True)
        return starts, which

    def since(self, clock: int) -> Partials:
        """Those whose slices begin at a clock or after it."""
        return Partials(self.layout, self.table.filter(pa.array(self.slices >= clock)))

    def codes(self, column: int) -> NDArray[np.int64]:
        """A column of the signatures, counted from 0 on, which is NULL for intervals."""
        return np.asarray(self.table[f"g{column}"].to_numpy()).astype(np.int64) + 1

    def has(self, conditions: Collection[str], keys: Collection[str]) -> bool:
        """Whether the conditions and keys were known when the partials were made."""
        return set(conditions) <= self.layout.decoders.keys() and set(keys) <= set(self.layout.keys)

    def number_of_keys(self, keys: Sequence[str]) -> int:
        """A bound on the keys of a grouping: the product over its columns, and at most the number of partials."""
        if not self.has((), keys):
            return 0
        distinct: list[int] = [pc.count_distinct(self.key(each), mode="all").as_py() for each in keys]
        return min(math.prod(distinct), len(self))

    def key(self, text: str) -> pa.ChunkedArray:
        """The values of a grouping key."""
        return self.table[f"k{self.layout.keys.index(text)}"]

    @cached_property
    def _signatures(self) -> tuple[list[NDArray[Any]], NDArray[np.intp]]:
        """The distinct signatures, column by column, and which of them each partial has."""
        names = self.layout.group_names[: self.layout.signature_columns]
        if not names:
            return [], np.zeros(len(self), dtype=np.intp)
        codes = [np.asarray(self.table[name].to_numpy()).astype(np.int64) for name in names]
        if len(codes) == 1:
            distinct, which = np.unique(codes[0], return_inverse=True)
            return [distinct], which
        rows, which = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        return list(rows.T), which.reshape(-1)

    @property
    def signature_numbers(self) -> NDArray[np.intp]:
        """Which of the distinct signatures each partial has."""
        return self._signatures[1]

    def signatures_satisfying(self, conditions: Collection[str]) -> NDArray[np.bool_]:
        """Which of the distinct signatures satisfy all of these conditions."""
        distinct, _ = self._signatures
        return satisfying(self.layout.decoders, distinct, conditions, len(distinct[0]) if distinct else 1)

    def records(self, measure: Measure) -> Columns:
        """The records of a measure; identities if these partials do not have it."""
        known = self._records.get(measure.name)
        if known is None:
            places = {text: number for number, text in enumerate(self.layout.aggregates)}
            if self.lift is not None:
                known = self.lift(measure)
            elif any(text not in places for text in measure.texts):
                known = measure.statistic.empty(len(self))
            else:
                known = measure.read(tuple(self.table[f"p{places[text]}"] for text in measure.texts))
            self._records[measure.name] = known
        return known


def without_clocks(table: pa.Table) -> pa.Table:
    """A table of partials as it is stored: without the clocks of its rows, which are needed only once."""
    return table.drop_columns([name for name in (LATEST, LEAST) if name in table.column_names])


def encoded(partials: Partials) -> bytes:
    """Partials as the bytes of a Parquet file."""
    described = msgspec.json.encode(partials.layout)
    table = partials.table.replace_schema_metadata({_METADATA: described})
    buffer = pa.BufferOutputStream()
    # Numbers that hardly repeat gain nothing from dictionaries and statistics, which take most of the time of writing.
    keys = [name for name in table.column_names if name.startswith("k")]
    pq.write_table(table, buffer, compression="lz4", use_dictionary=keys, write_statistics=False)
    return bytes(buffer.getvalue().to_pybytes())


def decoded(data: bytes) -> Partials:
    # Not `read_table`, which would load pandas first.
    file = pq.ParquetFile(pa.BufferReader(data))
    layout = msgspec.json.decode(file.schema_arrow.metadata[_METADATA], type=Layout)
    names = [*layout.group_names, SLICE, *layout.aggregate_names]
    return Partials(layout, file.read(names).select(names))


def pieces(data: bytes) -> Iterator[Partials]:
    """The partials of a file, as many at a time as are best taken in at once, in the order of their slices.

    The slices of a cycle are in no order. A tree that has advanced to the end of one piece would take partials of the
    same slices in the next piece for late rows, which costs several times as much.
    """
    whole = decoded(data)
    table = whole.table
    if len(whole) > _AT_ONCE:
        table = table.combine_chunks().take(pa.array(np.argsort(whole.slices, kind="stable")))
    for first in range(0, len(whole), _AT_ONCE):
        yield Partials(whole.layout, table.slice(first, _AT_ONCE))


def joined(parts: Iterable[Partials]) -> list[Partials]:
    """The same partials in as few tables as there are layouts, in the order of their first ones."""
    by_layout: dict[str, list[Partials]] = {}
    for each in parts:
        by_layout.setdefault(repr(each.layout), []).append(each)
    # The numbers of signatures have more digits where they were unpacked from slices.
    return [
        Partials(alike[0].layout, pa.concat_tables([each.table for each in alike], promote_options="permissive"))
        for alike in by_layout.values()
    ]


def block_of(partials: Partials) -> Block:
    """Partials as a segment holds them; their clocks are the starts of their slices."""
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
            if each not in self._described:
                partials = self.read(each)
                self._described[each] = partials.layout, partials.table.schema
            layout, schema = self._described[each]
            plain, is_new = schema.remove_metadata(), each is arrived
            place = repr(layout), str(plain), is_new
            files = alike.setdefault(place, PartialFiles(stream, layout, plain, is_new, [], []))
            files.segments.append(each)
            files.paths.append(self._store.path(each.path))
        return list(alike.values())
