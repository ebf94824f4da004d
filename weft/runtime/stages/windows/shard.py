"""One shard on an executor: some keys' partials in, these keys' answers out, without Spark.

A shard has all live partials of its keys, and is answered by the code that answers in the driver: trees are built, take
in what came before the cycle, and advance through it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from weft.algebra import Query, Stream
from weft.arrays.arrow_streams import streamed
from weft.plan.event_time import Clock
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.runtime.stages.windows.stream_weave import StreamWeave
from weft.runtime.stages.windows.tree_choice import TreeChoice
from weft.runtime.stages.windows.window_answers import answers
from weft.runtime.stages.windows.woven_queries import Woven, woven

#: Which source a row is from, and which task it is for; its other columns are named by `PartialSource`.
SOURCE, KEY_SET = "source", "key_set"

#: What a shard returns: the answers of a query as an Arrow stream, or, without a query, its number of keys.
_ANSWERED = pa.schema([(KEY_SET, pa.int32()), ("query", pa.string()), ("answers", pa.binary()), ("keys", pa.int64())])


@dataclass(frozen=True)
class PartialSource:
    """Files of partials with one layout: whether they are this cycle's, and what their columns (`k0`, `p3`, …) are
    called on the way to the executors."""

    layout: Layout
    arrived: bool
    columns: Mapping[str, str]


@dataclass(frozen=True)
class KeySetTask:
    """What a cycle computes for a key set of a stream."""

    stream: str
    keys: tuple[str, ...]
    #: The aggregates that its measures are read from.
    aggregates: frozenset[str]
    #: Partials before this clock are in no open window.
    since: Clock
    #: The queries and their trees, pickled.
    plan: bytes
    #: The watermark before the cycle and after it, and from when on each query is answered.
    before: Clock
    until: Clock
    after: Mapping[str, Clock]


def pickled_plan(queries: Mapping[str, Query], grouping: TreeChoice) -> bytes:
    """Queries and their trees, to be sent; measures are not sent, since each process makes them from the queries."""
    return pickle.dumps((dict(queries), grouping))


@lru_cache(maxsize=64)
def unpickled_plan(data: bytes) -> tuple[dict[str, Woven], TreeChoice]:
    """Queries and their trees as they were sent; cached, so that a worker has them ready for the next cycle."""
    queries, grouping = pickle.loads(data)
    return {name: woven(query) for name, query in queries.items()}, grouping


def answered(
    sources: Sequence[PartialSource], tasks: Sequence[KeySetTask], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The answers of a shard's keys, task by task. Rows name their source and their task by number."""
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        table = pa.Table.from_batches(parts).combine_chunks()
        for number, rows in _by_number(table, KEY_SET):
            yield _answers_of(number, tasks[number], sources, rows)


def _by_number(rows: pa.Table, column: str) -> Iterator[tuple[int, pa.Table]]:
    """The rows with each number in a column."""
    numbers = np.asarray(rows[column])
    for number in np.unique(numbers).tolist():
        yield number, rows if (numbers == number).all() else rows.filter(pa.array(numbers == number))


def _answers_of(number: int, task: KeySetTask, sources: Sequence[PartialSource], rows: pa.Table) -> pa.RecordBatch:
    shapes, grouping = unpickled_plan(task.plan)
    stream = next(iter(shapes.values())).select.inputs[0].source
    assert isinstance(stream, Stream)
    earlier, arrived = [], None
    for place, mine in _by_number(rows, SOURCE):
        source = sources[place]
        table = pa.table({SLICE: mine[SLICE], **{name: mine[slot] for name, slot in source.columns.items()}})
        if source.arrived:
            arrived = Partials(source.layout, table)
        else:
            earlier.append(Partials(source.layout, table))
    weave = StreamWeave(stream, shapes, grouping=grouping)
    weave.remember(earlier, task.before)
    found: list[dict[str, object]] = []
    for name, part in weave.advance(arrived, task.before, task.until).items():
        table = answers(shapes[name].select, shapes[name].measures, part.since(task.after[name]))
        if table.num_rows:
            # Answers go through two virtual machines on their way: compressing them pays.
            found.append({KEY_SET: number, "query": name, "answers": streamed(table, "lz4"), "keys": None})
    found.append({KEY_SET: number, "query": None, "answers": None, "keys": sum(weave.key_counts().values())})
    return pa.RecordBatch.from_pylist(found, schema=_ANSWERED)
