"""Answers of two contestants side by side.

Everybody writes the answers over the small files as one Parquet table: query, end (microseconds), key, x.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.aggregate_measurements.data import files_of
from bench.aggregate_measurements.jobs import Job

SCHEMA = pa.schema([("query", pa.int64()), ("end", pa.int64()), ("key", pa.string()), ("x", pa.float64())])

#: Sums of doubles depend on the order of their rows, and nobody promises one.
_TOLERANCE = 1e-9

Answers: TypeAlias = dict[tuple[int, int, str], float | None]


class DifferentAnswers(AssertionError):
    """Two contestants do not agree. The message says where."""


def as_table(query: int, ends: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Table:
    """The answers of one query. Ends may be timestamps."""
    if pa.types.is_timestamp(ends.type):
        ends = pc.cast(ends, pa.timestamp("us", ends.type.tz)).cast(pa.int64())
    numbers = pa.array(np.full(len(ends), query, dtype=np.int64))
    return pa.table([numbers, ends.cast(pa.int64()), keys.cast(pa.string()), values.cast(pa.float64())], SCHEMA)


def write(tables: Iterable[pa.Table], path: str) -> None:
    """Write the answers of all checked queries."""
    pq.write_table(pa.concat_tables([SCHEMA.empty_table(), *tables]), path)


def closed_until(job: Job) -> int:
    """The watermark after the last small file: nobody need have closed a window that ends later."""
    clocks = pq.read_table(files_of(job.small)[-1], columns=[job.about.clock])[0]
    return int(pc.max(clocks.cast(pa.int64())).as_py()) - job.about.delay * job.about.unit_micros


def compare(ours: str | Path, theirs: str | Path, until: int, queries: int) -> int:
    """The number of answers that the first queries have in both files.

    Raises if they differ in any that has closed by then, or if some query has none.
    """
    left, right = _read(ours, until, queries), _read(theirs, until, queries)
    if len({place[0] for place in left}) < queries:
        raise DifferentAnswers(f"{Path(ours).name} has no answers of some queries: there is nothing to compare")
    for place in left.keys() | right.keys():
        if place not in left or place not in right or not _same(left[place], right[place]):
            raise DifferentAnswers(
                f"query {place[0]}, window until {place[1]}, key {place[2]}: "
                f"{left.get(place, 'nothing')} in {Path(ours).name}, "
                f"{right.get(place, 'nothing')} in {Path(theirs).name}"
            )
    return len(left)


def _read(path: str | Path, until: int, queries: int) -> Answers:
    table = pq.read_table(path)
    columns = (table[name].to_pylist() for name in SCHEMA.names)
    rows = zip(*columns, strict=True)
    return {(query, end, key): x for query, end, key, x in rows if end <= until and query < queries}


def _same(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return isclose(left, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
