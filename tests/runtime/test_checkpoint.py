"""Spark's checkpoint may be lost, damaged or older than the state: each row still counts once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import live, run_to_the_end, write_rows
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.spark.engine_errors import EngineError, StorageError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Feed:
    """A project over two streams of files, and every row that was written for it."""

    def __init__(self, loom: Loom, folder: Path) -> None:
        self.loom = loom
        self.folder = folder
        self.rows: dict[str, list[int]] = {"a": [], "b": []}
        self.checkpoint = loom.directory / "state" / "checkpoint"
        for name in self.rows:
            (folder / name).mkdir()
            options = f"path '{folder / name}', maxFilesPerTrigger '1'"
            loom.execute(
                f"CREATE STREAM {name} (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING json OPTIONS ({options});"
                f"CREATE CONTINUOUS QUERY all_{name} AS SELECT v FROM {name};"
                f"CREATE CONTINUOUS QUERY sum_{name} AS SELECT SUM(v) AS total FROM {name}"
            )

    def add(self, **counts: int) -> None:
        """Add so many files of one row to each stream."""
        for name, count in counts.items():
            for _ in range(count):
                row = len(self.rows[name]) + 1
                write_rows(self.folder / name, f"{row}.json", [{"n": row, "v": row}])
                self.rows[name].append(row)

    def newest(self, folder: str) -> Path:
        """The newest file of a folder of the checkpoint."""
        return max((self.checkpoint / folder).iterdir(), key=lambda file: int(file.name.removesuffix(".compact")))

    def check(self) -> None:
        """Each row was answered once, and counts once."""
        for name, rows in self.rows.items():
            assert sorted(self.loom.results(f"all_{name}")["v"].to_pylist()) == rows
            assert self.loom.results(f"sum_{name}").to_pylist()[-1] == {"total": sum(rows)}


@pytest.fixture
def feed(loom: Loom, tmp_path: Path) -> Feed:
    return Feed(loom, tmp_path)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def spoil(file: Path) -> None:
    """Change a byte in the middle."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


DAMAGES: dict[str, Callable[[Feed], object]] = {
    "no checkpoint": lambda feed: shutil.rmtree(feed.checkpoint),
    "no offsets of the newest cycle": lambda feed: feed.newest("offsets").unlink(),
    "empty offsets": lambda feed: empty(feed.newest("offsets")),
    "no offsets at all": lambda feed: shutil.rmtree(feed.checkpoint / "offsets"),
    "changed offsets": lambda feed: spoil(feed.newest("offsets")),
    "no commit": lambda feed: feed.newest("commits").unlink(),
    "no commits at all": lambda feed: shutil.rmtree(feed.checkpoint / "commits"),
    "empty commit": lambda feed: empty(feed.newest("commits")),
    "no log of files": lambda feed: shutil.rmtree(feed.checkpoint / "sources"),
    "no newest log of files": lambda feed: feed.newest("sources/stream_1").unlink(),
    "empty log of files": lambda feed: empty(feed.newest("sources/stream_1")),
    "changed log of files": lambda feed: spoil(feed.newest("sources/stream_1")),
    "no metadata": lambda feed: (feed.checkpoint / "metadata").unlink(),
}


def test_a_checkpoint_that_is_missing_damaged_or_older_is_made_anew(feed: Feed, tmp_path: Path) -> None:
    feed.add(a=2)
    run_to_the_end(feed.loom)
    shutil.copytree(feed.checkpoint, tmp_path / "older")
    for number, damage in enumerate(["older", "empty offsets", "changed log of files"]):
        feed.add(a=2 + number, b=number % 3)
        run_to_the_end(feed.loom)
        if damage == "older":
            shutil.rmtree(feed.checkpoint)
            shutil.copytree(tmp_path / "older", feed.checkpoint)
        else:
            DAMAGES[damage](feed)
    feed.add(a=1, b=1)
    run_to_the_end(feed.loom)
    feed.check()


@pytest.mark.prove
@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_is_missing_in_the_checkpoint_is_made_anew(feed: Feed, damage: str) -> None:
    """So many files that Spark compacts its log of them, before and after the damage."""
    for _ in range(4):
        feed.add(a=7, b=1)
        run_to_the_end(feed.loom)
        DAMAGES[damage](feed)
    run_to_the_end(feed.loom)
    feed.check()


class Death(Exception):
    """The end of an attempt at a cycle."""


def die_in_a_cycle(spark: SparkSession, loom: Loom, step: str) -> None:
    """Begin the next cycle, and break off at a step of it."""

    def at_step(reached: str, cycle: int) -> None:
        if reached == step:
            raise Death

    engine = Engine(spark, loom.catalog, state_directory(loom.directory), on_step=at_step)
    engine.start(until_idle=True)
    with pytest.raises(EngineError):
        engine.wait()


def test_a_cycle_that_was_begun_is_finished_with_its_own_rows(spark: SparkSession, feed: Feed) -> None:
    feed.add(a=2, b=1)
    run_to_the_end(feed.loom)
    feed.add(a=1)
    die_in_a_cycle(spark, feed.loom, "deliver")
    begun = (feed.loom.directory / "state" / "intents" / "000000000002.json").read_text()
    shutil.rmtree(feed.checkpoint)
    feed.add(a=1, b=2)
    run_to_the_end(feed.loom)
    feed.check()
    assert (feed.loom.directory / "state" / "intents" / "000000000002.json").read_text() == begun
    written = sorted((feed.loom.directory / "state" / "checkpoint" / "offsets").iterdir())
    assert '{"logOffset":2}' in written[2].read_text(), "the cycle had one file of the stream, and not two"


def test_files_that_are_gone_at_the_second_attempt_are_counted(spark: SparkSession, feed: Feed) -> None:
    feed.add(a=1)
    run_to_the_end(feed.loom)
    feed.add(a=1, b=1)
    die_in_a_cycle(spark, feed.loom, "begin")
    (feed.folder / "b" / "1.json").unlink()
    feed.rows["b"].clear()
    said: list[str] = []
    seen: list[int] = []
    feed.loom.start(until_idle=True, say=said.append, on_progress=lambda cycle: seen.append(cycle.missing_files))
    feed.loom.wait()
    assert any("stream 'b' lacks the rows of 1 file of cycle 1" in sentence for sentence in said), said
    assert seen == [1]
    feed.add(a=1)
    run_to_the_end(feed.loom)
    assert {name: each.missing_files for name, each in feed.loom.start(until_idle=True).last.streams.items()} == {
        "a": 0,
        "b": 1,
    }
    feed.loom.wait()
    assert sorted(feed.loom.results("all_a")["v"].to_pylist()) == feed.rows["a"]
    assert feed.loom.results("all_b").num_rows == 0


def test_a_checkpoint_that_is_ahead_of_the_state_is_refused(feed: Feed) -> None:
    feed.add(a=3)
    run_to_the_end(feed.loom)
    (feed.loom.directory / "state" / "commits" / "000000000002.json").unlink()
    feed.add(a=1)
    with pytest.raises(StorageError, match="knows of cycle 2, the state is at 1: commits are missing"):
        run_to_the_end(feed.loom)


def test_rows_of_a_source_that_counts_go_on_where_they_were(loom: Loom) -> None:
    """A `rate` source counts from the instant at which it began; it keeps that in the checkpoint."""
    loom.execute(
        "CREATE STREAM r (timestamp TIMESTAMP, value BIGINT) WATERMARK FOR timestamp AS timestamp "
        "USING rate OPTIONS (rowsPerSecond '10'); CREATE CONTINUOUS QUERY q AS SELECT value FROM r"
    )
    for _ in range(2):
        with live(loom) as running:
            running.until(lambda cycle: cycle.rows > 0)
        shutil.rmtree(loom.directory / "state" / "checkpoint")
    with live(loom) as running:
        running.until(lambda cycle: cycle.rows > 0)
    found = sorted(loom.results("q")["value"].to_pylist())
    assert found == list(range(len(found)))
