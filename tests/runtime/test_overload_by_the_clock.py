"""Overload as a user has it: `weft run --every '1 second'` with a real clock, watched by `weft status --json`.

How many rows are too many depends on the machine, so files grow until cycles are late. Nothing is asserted about how
long anything takes, but for this: a machine on which tests run is not overloaded by a hundred rows a second.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.runtime.projects import PATIENCE
from weft.cli import app

pytestmark = pytest.mark.spark

INTERVAL = 1.0
#: Rows of a file, at first and without load; and how many files wait beside the one that is taken.
HEAVY, LIGHT, WAITING = 400_000, 100, 1

SCRIPT = """
CREATE STREAM f (n BIGINT, k BIGINT) WATERMARK FOR n AS n
USING parquet OPTIONS (path '{folder}', maxFilesPerTrigger '1') {shed};
CREATE CONTINUOUS QUERY every INTO json OPTIONS (path '{out}') AS SELECT n, k FROM f;
"""


@dataclass(frozen=True)
class Told:
    """What `weft status --json` says."""

    cycle: int
    seconds: float
    behind: float
    rows: int
    shed: int
    kept: float


class Project:
    """A project that runs, and the files that it is given, one for each cycle."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows = self.files = 0
        self.told: list[Told] = []

    def write(self, rows: int) -> None:
        name = f"{self.files:06d}.parquet"
        draft, file = self.directory / "f" / f".{name}", self.directory / "f" / name
        numbers = pa.array(range(self.rows, self.rows + rows))
        pq.write_table(pa.table({"n": numbers, "k": numbers}), draft)
        draft.rename(file)
        self.rows, self.files = self.rows + rows, self.files + 1

    def is_told(self, something: Callable[[Told], bool]) -> bool:
        """Whether what is known of the newest cycle is so."""
        called = CliRunner().invoke(app, ["status", "--json", "--project", str(self.directory / "project")])
        document = json.loads(called.output)
        if not document.get("streams") or not document["measured"]["cycles"]:
            return False
        stream, newest = document["streams"]["f"], document["measured"]["cycles"][-1]
        # Commit and statistics are written one after the other.
        if newest["cycle"] != document["cycle"]:
            return False
        told = Told(
            newest["cycle"], newest["seconds"], newest["behind"], stream["rows"], stream["shed"], stream["kept"]
        )
        if not self.told or self.told[-1].cycle < told.cycle:
            self.told.append(told)
        return something(told)

    def until(self, something: Callable[[Told], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        ends = time.monotonic() + PATIENCE
        while not self.is_told(something):
            assert time.monotonic() < ends, self.told
            meanwhile()
            time.sleep(0.1)

    def load(self) -> None:
        """More rows than cycles manage: files grow until one takes clearly too long."""
        taken = self.told[-1].cycle + 1 if self.told else 0
        if self.files <= taken + WAITING:
            in_time = sum(each.seconds < 1.5 * INTERVAL for each in self.told)
            self.write(HEAVY << in_time)

    def light(self) -> None:
        if self.files <= self.told[-1].cycle + 1:
            self.write(LIGHT)

    def has_all(self, told: Told) -> bool:
        return told.rows + told.shed == self.rows

    def rest(self) -> None:
        """Nothing comes for longer than the interval."""
        self.until(self.has_all)
        time.sleep(3 * INTERVAL)

    def answered(self) -> int:
        files = [each for each in (self.directory / "out").glob("*.json") if not each.name.startswith("_")]
        return sum(each.read_bytes().count(b"\n") for each in files)


@contextmanager
def running(directory: Path, shed: str) -> Iterator[Project]:
    project = Project(directory)
    (directory / "f").mkdir()
    script = directory / "app.sql"
    script.write_text(SCRIPT.format(folder=directory / "f", out=directory / "out", shed=shed))
    command = [sys.executable, "-m", "weft", "run", str(script), "--every", f"{INTERVAL:g} second"]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen([*command, "--project", str(directory / "project")], stdout=log, stderr=log)
        try:
            project.load()
            yield project
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0, (directory / "log").read_text()
        finally:
            process.kill()
            process.wait()


def test_a_stream_that_may_shed_waits_first_then_sheds_and_keeps_more_when_the_load_is_over(tmp_path: Path) -> None:
    with running(tmp_path, "SHED ALLOWED") as project:
        project.until(lambda told: told.shed > 0, project.load)
        project.rest()
        least = project.told[-1].kept
        project.until(lambda told: told.kept > least, project.light)
        project.until(project.has_all)
    before = [each for each in project.told if not each.shed]
    assert len(before) >= 3, "a cycle or two that are late do no harm"
    assert all(each.kept == 1.0 for each in before[:-1])
    assert any(each.behind > 0 for each in before)
    assert project.told[-1].behind == 0
    assert project.answered() == project.told[-1].rows == project.rows - project.told[-1].shed
    kept = [json.loads(each.read_text())["f"] for each in sorted((tmp_path / "out").glob("_*.kept.json"))]
    assert min(each["share"] for each in kept) < 1
    assert kept[-1]["shed"] == project.told[-1].shed


@pytest.mark.prove
def test_without_leave_to_shed_cycles_fall_behind_visibly_and_nothing_is_missing_in_the_end(tmp_path: Path) -> None:
    with running(tmp_path, "") as project:
        project.until(lambda told: told.cycle >= 4 and told.behind > 0, project.load)
        project.rest()
        project.light()
        project.until(project.has_all)
    assert any(each.behind > 0 for each in project.told)
    assert project.told[-1].behind == 0, "a time in which nothing waited makes up for it"
    assert not any(each.shed for each in project.told)
    assert project.answered() == project.rows
