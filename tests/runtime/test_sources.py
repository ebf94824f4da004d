"""Where rows come from, and a loom that runs: replayed files, DataFrames, heartbeats, changes while it is running."""

from __future__ import annotations

import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.runtime.projects import PATIENCE, Live, live, rows_of, run_to_the_end, write_rows
from weft.algebra import Stream
from weft.loom import Loom, change
from weft.runtime.sinks.results import AnswerFiles
from weft.runtime.sources import replay
from weft.runtime.spark.engine_errors import EngineError, SourceError

pytestmark = pytest.mark.spark

COUNT = "SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10]"


def ordinal_stream(name: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    return (
        f"CREATE STREAM {name} (n BIGINT, v BIGINT) WATERMARK FOR n AS n "
        f"USING json OPTIONS (path '{folder}', maxFilesPerTrigger '1');"
    )


# Replay


def replayed(path: Path, clocks: list[int | None], options: str) -> str:
    pq.write_table(pa.table({"n": pa.array(clocks, pa.int64()), "v": pa.array(range(len(clocks)), pa.int64())}), path)
    return f"CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING replay OPTIONS (path '{path}', {options});"


def test_a_replay_takes_one_step_of_the_clock_in_each_cycle(loom: Loom, tmp_path: Path) -> None:
    loom.execute(replayed(tmp_path / "rows.parquet", [21, -3, 4, 12, 3, 19, 25], "step '10'"))
    loom.execute("CREATE CONTINUOUS QUERY q AS SELECT n, v FROM s")
    taken: dict[int, list[tuple[object, ...]]] = {}
    loom.sink("q", lambda answers, cycle: taken.update({cycle: rows_of(answers)}))
    run_to_the_end(loom)
    assert taken == {0: [(-3, 1)], 1: [(3, 4), (4, 2)], 2: [(12, 3), (19, 5)], 3: [(21, 0), (25, 6)]}


def test_a_replay_is_cut_the_same_way_every_time(loom: Loom, tmp_path: Path) -> None:
    loom.execute(replayed(tmp_path / "rows.parquet", [2**60 + 1, 5, None, 2**60, 7], "step '1'"))
    cuts = []
    for attempt in ("first", "second"):
        ready = replay.prepare(loom.catalog.get(Stream, "s"), tmp_path / attempt)
        cuts.append([(file.name, pq.read_table(file).to_pylist()) for file in sorted(ready.iterdir())])
    assert cuts[0] == cuts[1]
    clocks = [[row["n"] for row in rows] for _, rows in cuts[0]]
    # A row without a clock has no step of its own; it comes first, to be set aside.
    assert clocks == [[None, 5], [7], [2**60], [2**60 + 1]]


def test_a_replay_can_be_slowed_down(loom: Loom, tmp_path: Path) -> None:
    """At a speed of 30, two minutes of the clock take four seconds."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    times = [start + timedelta(minutes=minute) for minute in range(3)]
    pq.write_table(pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC"))}), tmp_path / "rows.parquet")
    loom.execute(
        "CREATE STREAM s (ts TIMESTAMP) WATERMARK FOR ts AS ts "
        f"USING replay OPTIONS (path '{tmp_path / 'rows.parquet'}', step '1 minute', speed '30');"
        "CREATE CONTINUOUS QUERY q AS SELECT ts FROM s"
    )
    seen: list[tuple[float, int]] = []
    loom.sink("q", lambda answers, cycle: seen.append((datetime.now().timestamp(), answers.num_rows)))
    before = datetime.now().timestamp()
    with live(loom) as running:
        while sum(rows for _, rows in seen) < 3:
            running.next()
    assert seen[-1][0] - before >= 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("path '{}/nowhere.parquet', step '10'", "does not exist"),
        ("path '{}/rows.parquet'", "needs a step"),
        ("path '{}/rows.parquet', step 'soon'", "cannot replay by steps of 'soon'"),
        ("path '{}/rows.parquet', step '0'", "cannot replay by steps of '0'"),
    ],
)
def test_a_replay_that_cannot_be_says_why(loom: Loom, tmp_path: Path, options: str, message: str) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "rows.parquet")
    loom.execute(f"CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING replay OPTIONS ({options.format(tmp_path)})")
    with pytest.raises(SourceError, match=message):
        loom.start(until_idle=True)


# DataFrames and Spark's own sources


def test_any_streaming_dataframe_is_a_stream(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    write_rows(tmp_path / "data", "a.json", [{"n": 1, "v": 5}, {"n": 12, "v": 6}])
    frame = spark.readStream.schema("n BIGINT, v INT").json(str(tmp_path / "data")).withColumn("w", F.col("v") * 2)
    loom.stream("s", frame, clock="n", watermark="0")
    loom.query("q", "SELECT SUM(w) AS total FROM s [ROWS 10 SLIDE 10]")
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(0, 10, 10)]


def test_a_stream_from_python_needs_its_dataframe_again(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    frame = spark.readStream.schema("n BIGINT, v INT").json(str(tmp_path))
    loom.stream("s", frame, clock="n", watermark="0")
    loom.close()
    with Loom.open(loom.directory) as again, pytest.raises(SourceError, match="hand its DataFrame to loom"):
        again.start(until_idle=True)


@pytest.mark.parametrize(
    ("clock", "watermark", "message"),
    [("v", "5 seconds", "must be one of its TIMESTAMP or BIGINT columns"), ("n", "soon", "cannot be 'soon'")],
)
def test_a_dataframe_needs_a_clock(
    spark: SparkSession, loom: Loom, tmp_path: Path, clock: str, watermark: str, message: str
) -> None:
    frame = spark.readStream.schema("n BIGINT, v INT").json(str(tmp_path))
    with pytest.raises(SourceError, match=message):
        loom.stream("s", frame, clock=clock, watermark=watermark)
    with pytest.raises(SourceError, match="not a streaming one"):
        loom.stream("s", spark.range(3), clock="id", watermark="0")


def test_sparks_own_formats_pass_through(loom: Loom) -> None:
    loom.execute(
        "CREATE STREAM s (timestamp TIMESTAMP, value BIGINT) WATERMARK FOR timestamp AS timestamp "
        "USING rate OPTIONS (rowsPerSecond '50');"
        "CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) AS c, MAX(value) AS newest FROM s [RANGE UNBOUNDED]"
    )
    with live(loom) as running:
        running.until(lambda cycle: cycle.answers > 0)
    counted = [(c, newest) for c, newest in rows_of(loom.results("q"))]
    assert counted
    # The values are 0, 1, 2, …: none is missing and none comes twice.
    assert all(c == newest + 1 for c, newest in counted)


# Time without rows


def test_a_heartbeat_closes_the_windows_of_an_idle_stream(loom: Loom, tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    write_rows(tmp_path / "data", "a.json", [{"ts": now.isoformat(), "v": 7}])
    loom.execute(
        "SET heartbeat = '1 second';"
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WATERMARK FOR ts AS ts - INTERVAL 1 SECOND "
        f"USING json OPTIONS (path '{tmp_path / 'data'}');"
        "CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]"
    )
    with live(loom) as running:
        running.until(lambda cycle: cycle.answers > 0)
    assert [total for *_, total in rows_of(loom.results("q"))] == [7]


# Changes


def test_streams_come_and_go_between_runs_and_the_others_go_on(loom: Loom, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    loom.execute(ordinal_stream("a", a) + "CREATE CONTINUOUS QUERY qa AS SELECT n, v FROM a")
    write_rows(a, "1.json", [{"n": 1, "v": 1}])
    run_to_the_end(loom)

    loom.execute(ordinal_stream("b", b) + "CREATE CONTINUOUS QUERY qb AS SELECT n, v FROM b")
    write_rows(a, "2.json", [{"n": 2, "v": 2}])
    write_rows(b, "1.json", [{"n": 1, "v": 10}])
    run_to_the_end(loom)
    assert rows_of(loom.results("qa")) == [(1, 1), (2, 2)]
    assert rows_of(loom.results("qb")) == [(1, 10)]

    loom.execute("DROP CONTINUOUS QUERY qa; DROP STREAM a")
    write_rows(b, "2.json", [{"n": 2, "v": 20}])
    run_to_the_end(loom)
    assert rows_of(loom.results("qb")) == [(1, 10), (2, 20)]


def test_a_stream_that_is_created_again_begins_again(loom: Loom, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    loom.execute(ordinal_stream("s", old) + f"CREATE CONTINUOUS QUERY q AS {COUNT}")
    write_rows(old, "1.json", [{"n": 1001, "v": 1}, {"n": 1015, "v": 1}])
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(1000, 1010, 1)]

    loom.execute("DROP CONTINUOUS QUERY q; DROP STREAM s")
    new.mkdir()
    loom.execute(
        "CREATE STREAM s (v STRING, n BIGINT) WATERMARK FOR n AS n "
        f"USING json OPTIONS (path '{new}'); CREATE CONTINUOUS QUERY q AS {COUNT}"
    )
    write_rows(new, "1.json", [{"n": 1, "v": "a"}, {"n": 2, "v": "b"}, {"n": 15, "v": "c"}])
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(0, 10, 2)]


def test_a_cycle_that_was_begun_is_finished_with_the_streams_it_had(
    loom: Loom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    loom.execute(ordinal_stream("a", a) + ordinal_stream("b", b) + "CREATE CONTINUOUS QUERY q AS SELECT n, v FROM b")
    write_rows(a, "1.json", [{"n": 1, "v": 1}])
    write_rows(b, "1.json", [{"n": 2, "v": 20}])

    def fail(*arguments: object) -> None:
        raise OSError("no connection")

    with monkeypatch.context() as patch:
        patch.setattr(AnswerFiles, "write", fail)
        with pytest.raises(EngineError, match="no connection"):
            run_to_the_end(loom)
    loom.execute("DROP STREAM a")
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(2, 20)]
    write_rows(b, "2.json", [{"n": 3, "v": 30}])
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(2, 20), (3, 30)]


def test_queries_come_and_go_while_the_loom_runs(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY a AS SELECT n FROM s")
    with live(loom) as running:
        write_rows(data, "1.json", [{"n": 1}])
        running.next()
        loom.execute("CREATE CONTINUOUS QUERY b AS SELECT n FROM s")
        write_rows(data, "2.json", [{"n": 2}])
        running.next()
        kept = rows_of(loom.results("a"))
        loom.execute("DROP CONTINUOUS QUERY a")
        write_rows(data, "3.json", [{"n": 3}])
        assert running.next().answers == 1
    assert kept == [(1,), (2,)]
    assert rows_of(loom.results("b")) == [(2,), (3,)]


def test_requests_are_answered_while_a_cycle_runs(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY a AS SELECT n FROM s")
    in_cycle, go_on = threading.Event(), threading.Event()

    def hold(answers: pa.Table, cycle: int) -> None:
        in_cycle.set()
        assert go_on.wait(PATIENCE)

    loom.sink("a", hold)
    with live(loom) as running:
        write_rows(data, "1.json", [{"n": 1}])
        assert in_cycle.wait(PATIENCE)
        created = change(loom.directory, "CREATE CONTINUOUS QUERY b AS SELECT n FROM s; DROP CONTINUOUS QUERY a")
        assert [each.message for each in created.outcomes] == ["query b created", "query a dropped"]
        assert not change(loom.directory, "DROP CONTINUOUS QUERY c").ok
        go_on.set()
        running.next()
        write_rows(data, "2.json", [{"n": 2}])
        running.next()
    assert rows_of(loom.results("b")) == [(2,)]
    assert [query.name for query in loom.catalog.queries()] == ["b"]


def test_streams_come_and_go_while_the_loom_runs(loom: Loom, tmp_path: Path) -> None:
    """A stream that is registered while others run is read without a restart, and each row once."""
    a, b = tmp_path / "a", tmp_path / "b"
    loom.execute(ordinal_stream("a", a) + "CREATE CONTINUOUS QUERY qa AS SELECT n, v FROM a")
    with live(loom) as running:
        write_rows(a, "1.json", [{"n": 1, "v": 1}])
        running.next()
        b.mkdir()
        write_rows(b, "1.json", [{"n": 1, "v": 10}])
        created, _ = loom.execute(ordinal_stream("b", b) + "CREATE CONTINUOUS QUERY qb AS SELECT n, v FROM b")
        assert created.message == "stream b created; it is read as soon as the cycle that is running is over"
        running.until(lambda cycle: cycle.answers > 0)
        write_rows(a, "2.json", [{"n": 2, "v": 2}])
        running.until(lambda cycle: cycle.answers > 0)
        loom.execute("DROP CONTINUOUS QUERY qa; DROP STREAM a")
        write_rows(b, "2.json", [{"n": 2, "v": 20}])
        running.until(lambda cycle: cycle.answers > 0)
        loom.execute(ordinal_stream("a", a) + "CREATE CONTINUOUS QUERY qa AS SELECT n, v FROM a")
        running.until(lambda cycle: cycle.answers > 0)
        write_rows(b, "3.json", [{"n": 3, "v": 30}])
        running.until(lambda cycle: cycle.answers > 0)
    run_to_the_end(loom)
    assert rows_of(loom.results("qb")) == [(1, 10), (2, 20), (3, 30)]
    assert rows_of(loom.results("qa")) == [(1, 1), (2, 2)]


def test_a_stream_that_cannot_be_read_leaves_the_others_running(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    said: list[str] = []
    with live(loom, said.append) as running:
        write_rows(data, "1.json", [{"n": 1}])
        running.next()
        loom.execute("CREATE STREAM t (n BIGINT) WATERMARK FOR n AS n USING nonsense")
        loom.execute("CREATE CONTINUOUS QUERY r AS SELECT n FROM t")
        write_rows(data, "2.json", [{"n": 2}])
        running.next()
        write_rows(data, "3.json", [{"n": 3}])
        running.next()
    assert rows_of(loom.results("q")) == [(1,), (2,), (3,)]
    assert [sentence for sentence in said if "stream 't' cannot be read" in sentence]


def test_a_function_can_be_attached_while_the_loom_runs(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    taken: list[tuple[object, ...]] = []
    with live(loom) as running:
        write_rows(data, "1.json", [{"n": 1}])
        running.next()
        loom.sink("Q", lambda answers, cycle: taken.extend(rows_of(answers)))
        write_rows(data, "2.json", [{"n": 2}])
        running.next()
    assert taken == [(2,)]


def test_a_dataframe_is_refused_at_once_where_streams_come_from_sql(
    spark: SparkSession, loom: Loom, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    write_rows(data, "1.json", [{"n": 1}])
    run_to_the_end(loom)
    frame = spark.readStream.schema("n BIGINT").json(str(data))
    with pytest.raises(EngineError, match="made without streams from Python DataFrames"):
        loom.stream("t", frame, clock="n", watermark="0")
    assert loom.catalog.find("t") is None


def test_a_folder_that_is_not_there_yet_or_no_more_stops_no_other_stream(loom: Loom, tmp_path: Path) -> None:
    here, later = tmp_path / "here", tmp_path / "later"
    loom.execute(
        ordinal_stream("s", here)
        + ordinal_stream("t", later)
        + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s; CREATE CONTINUOUS QUERY r AS SELECT n FROM t"
    )
    said: list[str] = []
    for turn, folder in enumerate((here, later, here, later)):
        write_rows(here, f"{turn}.json", [{"n": turn}])
        if folder is later:
            write_rows(later, f"{turn}.json", [{"n": 10 * turn}])
        else:
            shutil.rmtree(later)
        loom.start(until_idle=True, say=said.append)
        loom.wait()
    assert rows_of(loom.results("q")) == [(0,), (1,), (2,), (3,)]
    assert rows_of(loom.results("r")) == [(10,), (30,)]
    assert said == [f"stream 't': {later} does not exist; its files are read as soon as they are there"] * 2


# Stopping


def test_stop_lets_the_current_cycle_finish(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    for number in range(1, 4):
        write_rows(data, f"{number}.json", [{"n": number}])
    in_cycle, go_on = threading.Event(), threading.Event()

    def hold(answers: pa.Table, cycle: int) -> None:
        in_cycle.set()
        assert go_on.wait(PATIENCE)

    loom.sink("q", hold)
    running = Live(loom)
    running.start()
    assert in_cycle.wait(PATIENCE)
    stopping = threading.Thread(target=loom.stop)
    stopping.start()
    go_on.set()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    committed = rows_of(loom.results("q"))
    assert committed[0] == (1,)

    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(1,), (2,), (3,)]


def test_a_loom_may_be_stopped_from_inside_a_cycle(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    write_rows(data, "1.json", [{"n": 1}])
    loom.sink("q", lambda answers, cycle: loom.stop())
    loom.start()
    assert loom.wait(PATIENCE)
    assert rows_of(loom.results("q")) == [(1,)]


def test_a_function_that_fails_is_called_again_at_the_next_start(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    loom.execute(ordinal_stream("s", data) + "CREATE CONTINUOUS QUERY q AS SELECT n FROM s")
    write_rows(data, "1.json", [{"n": 1}])
    calls: list[int] = []

    def fail_once(answers: pa.Table, cycle: int) -> None:
        calls.append(cycle)
        if len(calls) == 1:
            raise OSError("the mail server is down")

    loom.sink("q", fail_once)
    run_to_the_end(loom)
    assert loom.errors()["q"].endswith("the mail server is down")
    assert rows_of(loom.results("q")) == [(1,)]
    run_to_the_end(loom)
    assert calls == [0, 0]
    assert loom.errors() == {}
    assert rows_of(loom.results("q")) == [(1,)]
