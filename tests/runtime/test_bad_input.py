"""Bad input: what cannot be read is set aside with its reason, what cannot go on says why, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import dead_letters, reasons, rows_of, run_to_the_end, write_rows, write_text
from tests.runtime.workload_run import Run
from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.catalog import CatalogLocked
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.spark.engine_errors import EngineError, SourceError, StorageError
from weft.runtime.state.checksums import opened, sealed

pytestmark = pytest.mark.spark

ORDINAL = "CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n"
SUM = "CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS total FROM s [ROWS 10 SLIDE 10]"


# Records


def test_malformed_json_is_set_aside_and_the_stream_goes_on(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    good, later = '{"n": 1, "v": 5}\n', '{"n": 12, "v": 1}\n'
    broken, wrong_type, no_clock = '{"n": 2, "v":\n', '{"n": 3, "v": "many"}\n', '{"v": 7}\n{"n": null, "v": 8}\n'
    write_text(data, "a.json", good + broken + wrong_type + no_clock)
    loom.execute(f"{ORDINAL} USING json OPTIONS (path '{data}', maxFilesPerTrigger '1'); {SUM}")
    run_to_the_end(loom)
    write_text(data, "b.json", later)
    run_to_the_end(loom)

    assert rows_of(loom.results("q")) == [(0, 10, 5)]
    assert reasons(loom, "s") == ["malformed", "malformed", "no clock", "no clock"]
    letters = dead_letters(loom, "s")
    assert {letter.get("text") for letter in letters if letter["reason"] == "malformed"} == {
        broken.strip(),
        wrong_type.strip(),
    }
    assert [letter["row"]["v"] for letter in letters if letter["reason"] == "no clock"] == [7, 8]


def test_malformed_csv_is_set_aside_and_the_stream_goes_on(loom: Loom, tmp_path: Path) -> None:
    write_text(tmp_path / "data", "a.csv", "1,5\ntwo,5\n3\n4,x\n,6\n12,1\n")
    loom.execute(f"{ORDINAL} USING csv OPTIONS (path '{tmp_path / 'data'}'); {SUM}")
    run_to_the_end(loom)

    assert rows_of(loom.results("q")) == [(0, 10, 5)]
    assert reasons(loom, "s") == ["malformed", "malformed", "malformed", "no clock"]
    malformed = {letter["text"] for letter in dead_letters(loom, "s") if letter["reason"] == "malformed"}
    assert malformed == {"two,5", "3", "4,x"}


def test_late_rows_are_set_aside(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_rows(data, "a.json", [{"n": 25, "v": 1}])
    loom.execute(f"{ORDINAL} USING json OPTIONS (path '{data}'); {SUM}")
    run_to_the_end(loom)
    write_rows(data, "b.json", [{"n": 19, "v": 3}, {"n": 20, "v": 4}, {"n": 30, "v": 5}])
    run_to_the_end(loom)

    assert rows_of(loom.results("q")) == [(20, 30, 5)]
    assert [(letter["reason"], letter["row"]) for letter in dead_letters(loom, "s")] == [("late", {"n": 19, "v": 3})]


# Clocks


def test_a_clock_in_the_far_future_does_not_make_all_that_follows_late(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    now = datetime.now()
    clocks = ["9999-12-31 23:59:59", f"{now + timedelta(days=2)}", "2024-01-01 10:00:00", "2024-01-01 10:10:00"]
    write_rows(data, "a.json", [{"ts": clock, "v": number} for number, clock in enumerate(clocks)])
    loom.execute(
        f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WATERMARK FOR ts AS ts USING json OPTIONS (path '{data}');"
        "CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] EMIT EMPTY"
    )
    run_to_the_end(loom)

    assert [total for *_, total in rows_of(loom.results("q"))] == [2] + 9 * [None]
    assert reasons(loom, "s") == ["clock ahead of time", "clock ahead of time"]


def test_whoever_means_the_future_can_say_so(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_rows(data, "a.json", [{"ts": "9000-01-01 00:00:00", "v": 1}, {"ts": "9000-01-01 01:00:00"}])
    loom.execute(
        "SET max_ahead = off;"
        f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) WATERMARK FOR ts AS ts USING json OPTIONS (path '{data}');"
        "CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]"
    )
    run_to_the_end(loom)
    assert [total for *_, total in rows_of(loom.results("q"))] == [1]


def test_a_clock_that_leaves_no_room_to_calculate_is_set_aside(loom: Loom, tmp_path: Path) -> None:
    extremes = [2**63 - 1, -(2**63), 2**62 + 1]
    write_rows(tmp_path / "data", "a.json", [{"n": n, "v": 1} for n in [*extremes, 3, 12]])
    loom.execute(f"{ORDINAL} USING json OPTIONS (path '{tmp_path / 'data'}'); {SUM}")
    run_to_the_end(loom)

    assert rows_of(loom.results("q")) == [(0, 10, 1)]
    assert reasons(loom, "s") == 3 * ["clock out of range"]


# Files


def test_a_corrupt_parquet_file_is_named_and_the_run_goes_on_without_it(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(pa.table({"n": [1, 12], "v": [5, 1]}), data / "good.parquet")
    loom.execute(f"{ORDINAL} USING parquet OPTIONS (path '{data}'); {SUM}")
    run_to_the_end(loom)
    corrupt = write_text(data, "corrupt.parquet", "this is no parquet file")
    pq.write_table(pa.table({"n": [15, 20], "v": [7, 1]}), data / "more.parquet")

    run_to_the_end(loom)
    assert [(letter["reason"], letter["file"]) for letter in dead_letters(loom, "s")] == [
        ("file set aside", f"file:{corrupt}")
    ]
    assert rows_of(loom.results("q")) == [(0, 10, 5), (10, 20, 8)]


def test_a_source_that_lacks_a_column_says_which(loom: Loom) -> None:
    fields = (Field("timestamp", TIMESTAMP), Field("size", BIGINT))
    loom.catalog.add(Stream("s", fields, "timestamp", 0, "rate"))
    with pytest.raises(SourceError, match="stream 's' declares size, but its source has only timestamp, value"):
        loom.start(until_idle=True)


# State


def test_a_full_disk_during_the_commit_loses_nothing(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{ORDINAL} USING memory; {SUM}")
    assert run.take(s=[(1, 5)]) == ""
    full = run.directory / "state" / "commits" / ".000000000001.json.draft"
    full.symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"could not be written.*nothing was committed"):
        run.engine.cycle(None, 1, {"s": 8})
    assert run.engine.last.cycle == 0

    full.unlink()
    run.restart()
    # The attempt had been written down with its heartbeat, and that is what the next one counts.
    assert run.take(heartbeats={"s": 8}) == ""
    assert run.take(s=[(2, 7), (12, 1)]) == ""


def test_the_state_of_another_project_is_refused(spark: SparkSession, loom: Loom, tmp_path: Path) -> None:
    loom.execute(f"{ORDINAL} USING memory; {SUM}")
    Engine(spark, loom.catalog, state_directory(loom.directory))
    with Loom.open(tmp_path / "other" / "project") as other, pytest.raises(StorageError, match="another project"):
        Engine(spark, other.catalog, state_directory(loom.directory))


def test_a_project_may_be_moved(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{ORDINAL} USING memory; {SUM}")
    assert run.take(s=[(1, 5)]) == ""
    run.close()
    elsewhere = run.directory.rename(run.directory.parent / "elsewhere")
    with Loom.open(elsewhere) as moved:
        assert Engine(run.spark, moved.catalog, state_directory(elsewhere)).last.cycle == 0


def test_state_of_another_format_is_refused(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{ORDINAL} USING memory; {SUM}")
    assert run.take(s=[(1, 5)]) == ""
    commit = run.directory / "state" / "commits" / "000000000000.json"
    commit.write_bytes(sealed(commit.name, {**opened(commit.read_bytes(), str(commit)), "format": 1_000}))
    with pytest.raises(StorageError, match="written by another weft"):
        run.restart()


def test_a_damaged_commit_is_named(beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(f"{ORDINAL} USING memory; {SUM}")
    assert run.take(s=[(1, 5)]) == ""
    commit = run.directory / "state" / "commits" / "000000000000.json"
    commit.write_text(commit.read_text()[:50])
    with pytest.raises(StorageError, match=r"000000000000\.json is not as it was written"):
        run.restart()


def test_a_checkpoint_without_its_state_is_refused(loom: Loom, tmp_path: Path) -> None:
    write_rows(tmp_path / "data", "a.json", [{"n": 1, "v": 5}])
    loom.execute(f"{ORDINAL} USING json OPTIONS (path '{tmp_path / 'data'}'); {SUM}")
    run_to_the_end(loom)
    for file in (loom.directory / "state" / "commits").iterdir():
        file.unlink()
    write_rows(tmp_path / "data", "b.json", [{"n": 12, "v": 5}])
    with pytest.raises(EngineError, match="commits are missing"):
        run_to_the_end(loom)


def test_one_process_writes_and_others_watch(loom: Loom) -> None:
    loom.execute(f"{ORDINAL} USING memory; {SUM}")
    with pytest.raises(CatalogLocked, match="is open for writing by process"):
        Loom.open(loom.directory)
    with Loom.open(loom.directory, write=False) as watcher:
        assert watcher.results("q").num_rows == 0


def test_a_project_may_have_spaces_and_percent_signs_in_its_path(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "my data", "a.json", [{"n": 1, "v": 5}, {"n": 12, "v": 5}])
    with Loom.open(tmp_path / "100% of my%20projects") as loom:
        loom.execute(f"{ORDINAL} USING json OPTIONS (path '{tmp_path / 'my data'}'); {SUM}")
        run_to_the_end(loom)
        expected = rows_of(loom.results("q"))
    assert expected
    with Loom.open(tmp_path / "100% of my%20projects", write=False) as watcher:
        assert rows_of(watcher.results("q")) == expected
    assert sorted(each.name for each in tmp_path.iterdir()) == ["100% of my%20projects", "my data"]


def test_a_path_that_spark_takes_for_a_pattern_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with (
        Loom.open(tmp_path / "project[1]") as loom,
        pytest.raises(EngineError, match="in a path for a pattern"),
    ):
        Engine(spark, loom.catalog, state_directory(loom.directory))


def test_the_dead_letters_of_a_stream_stay_in_the_project_whatever_it_is_called(loom: Loom, tmp_path: Path) -> None:
    name, outside = "../../../aside", tmp_path.parent / "aside"
    long = "é" * 300
    for stream in (name, long, ".."):
        loom.execute(
            f"CREATE STREAM `{stream}` (n BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path / 'in'}');"
        )
    write_text(tmp_path / "in", "0.json", "no json\n")
    run_to_the_end(loom)
    folders = {each.name for each in (loom.directory / "state" / "dead-letter").iterdir()}
    assert len(folders) == 3
    assert "%2E%2E%2F%2E%2E%2F%2E%2E%2Faside" in folders
    assert "%2E%2E" in folders
    assert not outside.exists()
    assert not (loom.directory.parent / "aside").exists()
    assert len(list((loom.directory / "state" / "dead-letter").glob("*/*/*.json"))) == 3
