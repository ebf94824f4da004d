"""Partials on disk, and how they come back."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from weft.plan.log_ids import LogId, LogKind
from weft.runtime.stages.windows.partials import SLICE, Layout, PartialLog, Partials, decoded, encoded, joined, pieces
from weft.runtime.state import store as rules
from weft.runtime.state.commits import Segment
from weft.runtime.state.storage import Storage
from weft.runtime.state.store import Change, StateStore


def test_pieces_of_a_large_file_come_in_the_order_of_slices_whatever_order_it_has() -> None:
    rows = 450_000
    numbers = np.arange(rows)
    # Cycles follow each other, and the slices of each are in no order.
    slices = numbers // 150_000 * 60 + numbers * 7919 % 60
    table = pa.table({"k0": pa.array([f"s{n % 5}" for n in range(rows)]), SLICE: slices, "p0": numbers})
    found = list(pieces(encoded(Partials(Layout(("c1",), {}, 0, ("sum(c2)",)), table))))
    assert len(found) > 1
    for earlier, later in pairwise(found):
        assert earlier.slices.max() <= later.slices.min()
    read = pa.concat_tables([each.table for each in found]).replace_schema_metadata(None)
    assert read.sort_by("p0").equals(table)


def test_files_come_together_whether_signatures_were_packed_into_slices_or_not() -> None:
    layout = Layout(("c1",), {"(c0 > 1L)": (0, ">", 0)}, 1, ("count(1)",))
    # As Spark delivers them, and as they come out of slices: another order, a wider type.
    plain = pa.table({"k0": ["a"], "g0": pa.array([2], pa.int32()), SLICE: [10], "p0": [7]})
    unpacked = pa.table({"k0": ["b"], SLICE: [20], "p0": [8], "g0": pa.array([0], pa.int64())})
    written = [decoded(encoded(Partials(layout, table))) for table in (plain, unpacked)]
    (together,) = joined(written)
    assert together.table.to_pydict() == {"k0": ["a", "b"], "g0": [2, 0], SLICE: [10, 20], "p0": [7, 8]}


@pytest.mark.spark
def test_small_segments_become_one_and_large_ones_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(Storage.at(spark, str(tmp_path)))
    log = PartialLog(store)
    layout = Layout((), {}, 0, ("count(1)",))

    def kept(name: str, first: int, rows: int) -> Segment:
        table = pa.table({SLICE: np.arange(first, first + rows), "p0": np.ones(rows, dtype=np.int64)})
        return log.written(Partials(layout, table), name)

    small, large, late = kept("a", 0, 10), kept("b", 10, 50_000), kept("c", 60_000, 10)
    name, rewritten = LogId(LogKind.PARTIALS, "s"), partial(log.rewritten, added=None, since=4)
    change = Change(name, [small, large, late], None, rewritten, 4, is_keyed=False)
    monkeypatch.setattr(rules, "MOST_SEGMENTS", 1)
    together, kept_large = store.write("together", [change])[name]
    assert (together.path, together.rows, together.min_clock, together.max_clock) == ("together", 16, 4, 60_009)
    assert kept_large == large
    assert log.read(together).slices.tolist() == [*range(4, 10), *range(60_000, 60_010)]
