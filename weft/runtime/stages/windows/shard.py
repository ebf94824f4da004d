"""One shard on an executor: some keys' partials in, these keys' answers out, without Spark.

A shard has all live partials of its keys, and is answered by the code that answers in the driver: trees are built, take
in what came before the cycle, and advance through it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from weft.algebra import Query, Stream
from weft.plan.event_time import Clock
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.tree_choice import TreeChoice
from weft.runtime.stages.windows.window_answers import answers
from weft.runtime.stages.windows.woven_queries import Woven, woven

#: Which source a row is from, and which key set it is for; its other columns are named by `PartialSource`.
SOURCE, KEY_SET = "source", "key_set"

#: What a shard returns: the answers of a query as an Arrow stream, or, without a query, its number of keys.
_ANSWERED = pa.schema([(KEY_SET, pa.int32()), ("query", pa.string()), ("answers", pa.binary()), ("keys", pa.int64())])


@dataclass(frozen=True)
class PartialSource:
    """Files of partials with one layout: the stream they are of, whether they are this cycle's, and what its columns
    (`k0`, `p3`, …) are called on the way to the executors."""

    stream: str
    layout: Layout
    arrived: bool
    columns: Mapping[str, str]


@dataclass(frozen=True)
class ShardTask:
    """What a cycle computes for a key set: the watermark before and after, and from when on each query is answered."""

    stream: str
    #: The queries and their trees, pickled.
    plan: bytes
    before: Clock
    until: Clock
    after: Mapping[str, Clock]


@dataclass(frozen=True)
class ShardOrder:
    """What all shards of a cycle get. Rows name their source and their key set by number."""

    sources: tuple[PartialSource, ...]
    asked: tuple[ShardTask, ...]


def pickled_plan(queries: Mapping[str, Query], grouping: TreeChoice) -> bytes:
    """Queries and their trees, to be sent; measures are not sent, since each process makes them from the queries."""
    return pickle.dumps((dict(queries), grouping))


@lru_cache(maxsize=64)
def unpickled_plan(data: bytes) -> tuple[dict[str, Woven], TreeChoice]:
    """Queries and their trees as they were sent; cached, so that a worker has them ready for the next cycle."""
    queries, grouping = pickle.loads(data)
    return {name: woven(query) for name, query in queries.items()}, grouping


def answered(order: ShardOrder, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The answers of a shard's keys, key set by key set."""
    parts = [batch for batch in batches if batch.num_rows]
    if not parts:
        return
    table = pa.Table.from_batches(parts).combine_chunks()
    sets = np.asarray(table[KEY_SET])
    for number in np.unique(sets).tolist():
        rows = table if (sets == number).all() else table.filter(pa.array(sets == number))
        yield _answers_of(number, order, rows)


def _answers_of(number: int, order: ShardOrder, rows: pa.Table) -> pa.RecordBatch:
    found: list[dict[str, object]] = []
    asked = order.asked[number]
    shapes, grouping = unpickled_plan(asked.plan)
    stream = next(iter(shapes.values())).select.inputs[0].source
    assert isinstance(stream, Stream)
    weave = StreamWeave(stream, shapes, grouping=grouping)
    earlier, arrived = _partials(order, rows)
    weave.remember(earlier, asked.before)
    closed = weave.advance(arrived, asked.before, asked.until)
    for name, part in closed.items():
        table = answers(shapes[name].select, shapes[name].measures, part.since(asked.after[name]))
        if table.num_rows:
            found.append({KEY_SET: number, "query": name, "answers": _streamed(table), "keys": None})
    found.append({KEY_SET: number, "query": None, "answers": None, "keys": sum(weave.key_counts().values())})
    return pa.RecordBatch.from_pylist(found, schema=_ANSWERED)


def _partials(order: ShardOrder, rows: pa.Table) -> tuple[list[Partials], Partials | None]:
    """Partials as they were before they were sent: those of earlier cycles, and this cycle's."""
    sources = np.asarray(rows[SOURCE])
    earlier, arrived = [], None
    for number in np.unique(sources).tolist():
        source = order.sources[number]
        mine = rows.filter(pa.array(sources == number))
        table = pa.table({SLICE: mine[SLICE], **{name: mine[slot] for name, slot in source.columns.items()}})
        if source.arrived:
            arrived = Partials(source.layout, table)
        else:
            earlier.append(Partials(source.layout, table))
    return earlier, arrived


def _streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    # Answers go through two virtual machines on their way: compressing them pays.
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def streamed_back(data: bytes) -> pa.Table:
    """Answers as a shard has sent them."""
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()
