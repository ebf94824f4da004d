"""Rows that nobody looks at again are taken straight from the batch, and nobody can tell by the answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.runtime.projects import reasons, rows_of, run_to_the_end
from tests.runtime.workload_run import UNCOMMITTED, Run
from weft.algebra import Value
from weft.loom import Loom
from weft.runtime.stages.statistics import measured

pytestmark = pytest.mark.spark

Rows = list[tuple[Value, ...]]

STREAMS = """
    CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - 3 USING memory;
    CREATE STREAM t (n BIGINT, v DOUBLE) WATERMARK FOR n AS n USING memory;
"""

#: What is taken straight: selections and partials, of one stream and the other, and relations above them.
TAKEN = (
    "SELECT n, v FROM s WHERE v > {0}",
    "SELECT k, v * 2 + n AS w FROM s WHERE k = 'a' OR v IS NULL",
    "SELECT * FROM s",
    "SELECT n, v FROM t WHERE v BETWEEN {0} AND {0} + 4",
    "SELECT k, SUM(v) AS total, COUNT(*) AS c FROM s [ROWS 6 SLIDE 3] WHERE v > {0} GROUP BY k",
    "SELECT MAX(v) AS top FROM t [ROWS 5 SLIDE 5] EMIT EMPTY",
    "SELECT k, COUNT(*) AS c FROM s WHERE v > {0} GROUP BY k",
    "SELECT DISTINCT k FROM (SELECT k FROM s WHERE v > {0}) a RETAIN 9",
    "SELECT v FROM s WHERE v > {0} UNION SELECT n AS v FROM s WHERE k = 'b' RETAIN UNBOUNDED",
)
#: Joins, of whose rows those are kept that they look for again.
JOINED = (
    "SELECT a.n, b.v FROM s [ROWS 5] a, t [ROWS 5] b WHERE a.v = b.v AND a.v > {0}",
    "SELECT a.k, b.n FROM s [ROWS 6] a, s [ROWS 6] b WHERE a.k = b.k AND a.v > b.v AND b.v > {0} AND a.n <= b.n",
)


def drawn(cycle: int, chance: random.Random) -> dict[str, Rows]:
    """Rows with NULLs, some late, and in some cycles some without a clock."""

    def rows(wide: bool) -> Rows:
        made: Rows = []
        for _ in range(chance.randint(0, 7)):
            n = None if chance.random() < 0.04 else 4 * cycle + chance.randint(-6, 6)
            k, v = chance.choice(("a", "b", None)), chance.choice((None, *range(9)))
            made.append((n, k, v) if wide else (n, None if v is None else float(v)))
        return made

    return {"s": rows(True), "t": rows(False)}


def beside(start: Callable[[str], Run], seed: int) -> None:
    """A drawn choice of queries over drawn rows, with crashes, queries that come and go, beside the oracle."""
    chance = random.Random(seed)
    texts = chance.sample(TAKEN, chance.randint(1, 5)) + chance.sample(JOINED, chance.randint(0, 2))
    names = [f"q{number}" for number in range(len(texts))]
    run = start(STREAMS)
    run.straight = True
    for name, text in zip(names[1:], texts[1:], strict=True):
        run.execute(f"CREATE CONTINUOUS QUERY {name} AS {text.format(chance.randint(0, 6))}")
    for cycle in range(7):
        if cycle == 2:
            run.execute(f"CREATE CONTINUOUS QUERY {names[0]} AS {texts[0].format(chance.randint(0, 6))}")
        if cycle == 4 and len(names) > 1:
            run.execute(f"DROP CONTINUOUS QUERY {names[-1]}")
        run.crash_at = chance.choice((*UNCOMMITTED, None, None, None))
        differs = run.take(**drawn(cycle, chance))
        assert differs == "", f"seed {seed}: {differs}"


@pytest.mark.parametrize("seed", range(3))
def test_drawn_rows_beside_the_oracle(seed: int, beside_oracle: Callable[[str], Run]) -> None:
    beside(beside_oracle, seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3, 60))
def test_many_drawn_rows_beside_the_oracle(seed: int, beside_oracle: Callable[[str], Run]) -> None:
    beside(beside_oracle, seed)


SELECTION = "CREATE CONTINUOUS QUERY q AS SELECT n, v FROM s WHERE v > 3"


def files_of(run: Run) -> list[Path]:
    return list((run.directory / "state" / "segments").rglob("*.parquet"))


def test_selected_rows_are_never_written_down(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(STREAMS + SELECTION)
    written = []
    for straight in (True, False):
        run.straight = straight
        seen: list[Path] = []
        run.engine._on_step = lambda step, cycle, seen=seen: seen.extend(files_of(run))  # type: ignore[misc]
        assert run.take(s=[(run.cycles, "a", 5), (run.cycles, "b", 1)]) == ""
        written.append(bool(seen))
    assert written == [False, True]


def test_a_row_without_a_clock_is_set_aside_and_no_selection_takes_it(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(STREAMS + SELECTION)
    run.straight = True
    assert run.take(s=[(None, "a", 9)]) == ""
    assert run.take(s=[(1, "a", 9), (None, "a", 8), (2, "a", 1)], t=[(5, 1.0)]) == ""
    assert run.take(s=[(3, "a", 7)]) == ""
    state = run.engine.last.streams["s"]
    assert (state.rows, state.bad, state.largest) == (3, 2, 3)
    assert reasons(run.loom, "s") == ["no clock"] * 2


def test_a_row_that_is_late_for_the_windows_is_taken_by_a_selection(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        STREAMS + SELECTION + "; CREATE CONTINUOUS QUERY w AS SELECT SUM(v) AS total FROM s [ROWS 4 SLIDE 4]"
    )
    run.straight = True
    assert run.take(s=[(1, "a", 5), (20, "a", 6)]) == ""
    assert run.take(s=[(2, "a", 7), (21, "a", 8), (30, "a", 9)]) == ""
    assert run.engine.last.streams["s"].late == 0
    run.execute("DROP CONTINUOUS QUERY q")
    assert run.take(s=[(3, "a", 7), (40, "a", 9)]) == ""
    assert run.engine.last.streams["s"].late == 1


def test_a_late_row_of_a_stream_is_not_taken_for_one_of_another(beside_oracle: Callable[[str], Run]) -> None:
    """What is known of s comes from its partials and from its rows, what is known of t from its rows alone."""
    run = beside_oracle(
        STREAMS
        + "CREATE CONTINUOUS QUERY w AS SELECT SUM(v) AS total FROM s [ROWS 4 SLIDE 4];"
        + "CREATE CONTINUOUS QUERY j AS SELECT a.n, b.v FROM s [ROWS 5] a, t [ROWS 5] b WHERE a.v = b.v"
    )
    run.straight = True
    assert run.take(s=[(20, "a", 6)], t=[(20, 7.0)]) == ""
    assert run.take(s=[(16, "a", 7), (21, "b", 7)], t=[(21, 7.0)]) == ""
    assert run.take(s=[(22, "a", 8)], t=[(3, 7.0), (22, 8.0)]) == ""


def test_jobs_of_selections_and_partials_of_one_batch(beside_oracle: Callable[[str], Run]) -> None:
    """One for all selections and measures, and one for each stream with partials."""
    run = beside_oracle(STREAMS + SELECTION)
    run.straight = True
    assert run.take(s=[(1, "a", 5)], t=[(1, 0.5)]) == ""
    run.execute("CREATE CONTINUOUS QUERY o AS SELECT n FROM t WHERE v < 1")
    assert run.take(s=[(2, "a", 5)], t=[(2, 0.5)]) == ""
    run.execute("CREATE CONTINUOUS QUERY w AS SELECT SUM(v) AS total FROM s [ROWS 4 SLIDE 4]")
    assert run.take(s=[(3, "a", 5)], t=[(3, 0.5)]) == ""
    assert [each.jobs for each in measured(run.loom.catalog).cycles] == [1, 1, 2]


def test_rows_that_are_kept_for_queries_to_come_are_written(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        "CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - 3 BACKFILL 20 USING memory;" + SELECTION
    )
    run.straight = True
    assert run.take(s=[(1, "a", 5), (2, "a", 1)]) == ""
    run.execute("CREATE CONTINUOUS QUERY w AS SELECT SUM(v) AS total FROM s [ROWS 4 SLIDE 4]")
    assert run.take(s=[(9, "a", 4)]) == ""


def _write(folder: Path, file: int, clocks: list[datetime | None]) -> None:
    folder.mkdir(exist_ok=True)
    values = pa.array(range(len(clocks)), pa.int64())
    pq.write_table(
        pa.table({"ts": pa.array(clocks, pa.timestamp("us", "UTC")), "v": values}), folder / f"{file}.parquet"
    )


def test_files_are_read_straight_and_what_is_wrong_in_them_is_set_aside(loom: Loom, tmp_path: Path) -> None:
    """Through Spark's own batches, each with a session of its own; a clock ahead of time is found too."""
    now = datetime.now(UTC)
    data = tmp_path / "data"
    _write(data, 0, [now, now + timedelta(seconds=1)])
    loom.execute(
        f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WATERMARK FOR ts AS ts USING parquet OPTIONS (path '{data}'); "
        "CREATE CONTINUOUS QUERY q AS SELECT v FROM s WHERE v >= 1"
    )
    run_to_the_end(loom)
    _write(data, 1, [None, now, now + timedelta(days=9), now])
    run_to_the_end(loom)
    _write(data, 2, [now, now, now])
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(1,), (1,), (1,), (2,), (3,)]
    assert reasons(loom, "s") == ["clock ahead of time", "no clock"]
    assert sum(each.streams["s"].rows for each in measured(loom.catalog).cycles) == 7
