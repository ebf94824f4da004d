"""Overload as it comes about: more rows arrive than cycles manage, and nobody says what to do about it.

The engine runs as `weft run --every` runs it, on files that come while it works. What is not real is the clock by which
cycles are in time or late: it goes on by a millisecond for each row that a cycle hands to a slow consumer, so that the
same things happen on any machine. Files come by that clock too, and more than a cycle may take wait in their folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.oracle_script import Script
from tests.runtime.projects import PATIENCE, write_rows
from weft.cli import app
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.project_state import state_directory
from weft.runtime.recorder import Progress
from weft.runtime.sinks.shed_notices import ShedNotice, notices_in
from weft.runtime.stages.statistics import measured

pytestmark = pytest.mark.spark

#: Milliseconds: between cycles, of a cycle without rows, and until the load ends.
INTERVAL, FIXED, LOAD_ENDS = 100, 5, 600
#: Files that come in an interval and rows of each, under load and afterwards; and how many files a cycle may take.
HEAVY, LIGHT, AT_MOST = (4, 50), (1, 20), 4
#: More cycles than it should take to come back to normal.
TOO_MANY = 100

STREAM = "CREATE STREAM f (n BIGINT, k BIGINT) WATERMARK FOR n AS n USING {source} {shed};"
QUERIES = """
CREATE CONTINUOUS QUERY every {into} AS SELECT n, k FROM f;
CREATE CONTINUOUS QUERY counts AS SELECT k, COUNT(*) AS c, SUM(n) AS s FROM f [RANGE 40 SLIDE 20] GROUP BY k;
"""


class World:
    """Time, the files that come in it, and a consumer that takes its time for each row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0
        #: How many rows each file has that has come.
        self.files: list[int] = []
        self._began = 0
        self._sent_until = -INTERVAL
        self.send()

    def consume(self, answers: pa.Table, cycle: int) -> None:
        self.now += FIXED + answers.num_rows

    def wait_for_next_cycle(self) -> None:
        """A cycle that is done early waits for the next one's time; files come meanwhile."""
        self.now = self._began = max(self.now, self._began + INTERVAL)
        self.send()

    def send(self) -> None:
        while self._sent_until + INTERVAL <= self.now:
            self._sent_until += INTERVAL
            files, rows = HEAVY if self._sent_until < LOAD_ENDS else LIGHT
            for _ in range(files):
                first = sum(self.files)
                lines = [{"n": n, "k": n % 7} for n in range(first, first + rows)]
                write_rows(self.folder, f"{len(self.files):06d}.json", lines)
                self.files.append(rows)


@dataclass(frozen=True)
class Seen:
    """What one cycle did, as users see it."""

    progress: Progress
    #: Seconds, as statistics say.
    behind: float
    #: Rows that have come when the next one begins and were not taken yet.
    waiting: int
    #: By query.
    answers: dict[str, pa.Table]

    @property
    def kept(self) -> dict[str, ShedNotice]:
        """What all answers say, which is the same."""
        every, *others = [notices_in(table) for table in self.answers.values()]
        assert all(each == every for each in others)
        return every


@dataclass(frozen=True)
class Overload:
    cycles: Sequence[Seen]
    world: World
    #: What `weft status` said after three cycles, and at the end.
    status: str
    status_at_the_end: str


def overload(spark: SparkSession, directory: Path, shed: str) -> Overload:
    """An engine under load, until that has ended and three cycles have been as if there had been none."""
    world = World(directory / "f")
    source = f"json OPTIONS (path '{world.folder}', maxFilesPerTrigger '{AT_MOST}')"
    cycles: list[Seen] = []
    answers: dict[str, pa.Table] = {}
    said: list[str] = []
    done = Event()
    with Loom.open(directory / "project") as loom:
        loom.execute(STREAM.format(source=source, shed=shed))
        loom.execute(QUERIES.format(into=f"INTO json OPTIONS (path '{directory / 'out'}')"))
        engine = Engine(spark, loom.catalog, state_directory(loom.directory), clock=lambda: world.now / 1000)

        def consume(table: pa.Table, cycle: int) -> None:
            answers["every"] = table
            world.consume(table, cycle)

        def on_cycle(progress: Progress) -> None:
            world.wait_for_next_cycle()
            taken = sum(each.rows + each.shed for each in [*(each.progress for each in cycles), progress])
            behind = measured(loom.catalog).cycles[-1].behind
            cycles.append(Seen(progress, behind, sum(world.files) - taken, dict(answers)))
            answers.clear()
            if len(cycles) == 3:
                said.append(_status(loom.directory))
            if _is_over(cycles) or len(cycles) == TOO_MANY:
                done.set()

        engine.outbox.add_callable("every", consume)
        engine.outbox.add_callable("counts", lambda table, _: answers.update(counts=table))
        engine.listeners.append(on_cycle)
        engine.start(interval=f"{INTERVAL} milliseconds")
        try:
            assert done.wait(PATIENCE), engine.wait(0)
        finally:
            engine.stop()
        said.append(_status(loom.directory))
    assert len(cycles) < TOO_MANY, "it has not come back to normal"
    return Overload(cycles, world, said[0], said[1])


def _is_over(cycles: Sequence[Seen]) -> bool:
    normal = [not each.behind and not each.progress.shed and each.waiting <= LIGHT[1] for each in cycles[-3:]]
    return len(normal) == 3 and all(normal)


def _status(project: Path) -> str:
    return CliRunner().invoke(app, ["status", "--project", str(project)], catch_exceptions=False).output


def the_oracle_counts(cycles: Sequence[Seen]) -> list[list[tuple[object, ...]]]:
    """The counts of each cycle, given the rows that were kept."""
    script = Script(STREAM.format(source="memory", shed="") + QUERIES.format(into=""))
    rows = [[(row["n"], row["k"]) for row in each.answers["every"].to_pylist()] for each in cycles]
    return [sorted(script.cycle(f=each)["counts"]) for each in rows]


def counts(cycles: Sequence[Seen]) -> list[list[tuple[object, ...]]]:
    tables = [each.answers.get("counts") for each in cycles]
    return [sorted(tuple(row.values()) for row in table.to_pylist()) if table is not None else [] for table in tables]


def rows_kept(cycles: Sequence[Seen]) -> list[int]:
    return [n for each in cycles for n in each.answers["every"]["n"].to_pylist()]


def test_a_stream_that_may_shed_leaves_rows_out_when_waiting_does_not_help_and_only_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = overload(spark, tmp_path, "SHED ALLOWED")
    cycles = run.cycles
    # Back-pressure comes first: all that was taken was kept, what was not taken waits, and cycles fall behind.
    assert [each.kept["f"] for each in cycles[:3]] == [{"share": 1.0, "until": None, "shed": 0}] * 3
    assert all(each.progress.overrun for each in cycles[:3])
    assert cycles[0].waiting < cycles[1].waiting < cycles[2].waiting
    assert 0 < cycles[0].behind < cycles[1].behind < cycles[2].behind
    assert f"cycles are {cycles[2].behind:.1f} s behind" in run.status
    # Then some rows are left out, as many as it takes for cycles to be in time, and every answer says so.
    shed = list(accumulate(each.progress.shed for each in cycles))
    assert [each.kept["f"]["shed"] for each in cycles] == shed
    assert all(each.progress.shed and each.kept["f"]["share"] < 0.5 for each in cycles[3:6])
    assert not any(each.progress.overrun for each in cycles[3:])
    # When the load has ended and all is made up for, more are kept again, step by step, up to all of them.
    shares = [each.kept["f"]["share"] for each in cycles[3:]]
    assert all(before <= after for before, after in pairwise(shares))
    assert cycles[-1].kept["f"] == {"share": 1.0, "until": cycles[-1].kept["f"]["until"], "shed": shed[-1]}
    assert "behind" not in run.status_at_the_end
    assert f"100 %  {shed[-1]:,} " in run.status_at_the_end
    # The count is exact: cycles take whole files, and what is neither kept nor left out is still waiting.
    kept = rows_kept(cycles)
    assert len(kept) == len(set(kept)) == sum(run.world.files) - cycles[-1].waiting - shed[-1]
    taken = list(accumulate(each.progress.rows + each.progress.shed for each in cycles))
    assert set(taken) <= set(accumulate(run.world.files))
    # Answers are those of the rows that were kept, and windows that begin later than `until` are whole.
    assert counts(cycles) == the_oracle_counts(cycles)
    until = cycles[-1].kept["f"]["until"]
    assert until is not None
    assert until == taken[max(number for number, each in enumerate(cycles) if each.progress.shed)] - 1
    assert set(range(int(until) + 1, taken[-1])) <= set(kept)
    # Files of JSON have it beside them, and who reads the folder does not notice.
    for number, each in enumerate(cycles):
        beside = tmp_path / "out" / f"_{number:012d}.kept.json"
        assert json.loads(beside.read_text()) == each.kept
    read = spark.read.schema("n BIGINT, k BIGINT").json(str(tmp_path / "out"))
    assert sorted(row.n for row in read.collect()) == sorted(kept)


def test_without_leave_to_shed_the_engine_falls_behind_visibly_and_recovers(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = overload(spark, tmp_path, "")
    cycles = run.cycles
    assert all(each.progress.overrun for each in cycles[:6]), "the same load is too much for longer"
    most = max(each.behind for each in cycles)
    assert most > 0.5
    assert f"cycles are {cycles[2].behind:.1f} s behind" in run.status
    assert "behind" not in run.status_at_the_end
    assert all(each.kept == {} and not each.progress.shed for each in cycles)
    assert sorted(rows_kept(cycles)) == list(range(sum(run.world.files) - cycles[-1].waiting))
    assert counts(cycles) == the_oracle_counts(cycles)
    assert not list((tmp_path / "out").glob("_*.kept.json"))
