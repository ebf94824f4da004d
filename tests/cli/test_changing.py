"""A project that runs is changed by other processes, with the commands that users type."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.projects import PATIENCE, write_rows
from weft.catalog import Catalog, CatalogError
from weft.loom import change

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]

APP = """
CREATE STREAM readings (n BIGINT, v BIGINT) WATERMARK FOR n AS n
  USING json OPTIONS (path '{folder}', maxFilesPerTrigger '1');
CREATE CONTINUOUS QUERY small AS SELECT n, v FROM readings WHERE v < 10;
"""

MISTAKES = """SET max_results = 50;
CREATE CONTINUOUS QUERY good AS SELECT n FROM readings;
CREATE CONTINUOUS QUERY bad AS
  SELECT n, w FROM readings;
CREATE CONTINUOUS QUERY over AS SELECT n FROM bad;
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "weft", *map(str, arguments)]


@dataclass
class Project:
    """A project, and files of statements for it."""

    directory: Path
    folder: Path

    def weft(self, name: str, *arguments: object, script: str | None = None) -> subprocess.CompletedProcess[str]:
        file = ("-",) if script is not None else ()
        line = command(name, *file, *arguments, "--project", self.directory)
        return subprocess.run(line, cwd=ROOT, input=script, capture_output=True, text=True, check=False)

    def register(self, script: str) -> str:
        done = self.weft("register", script=script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self, query: str) -> list[dict[str, Any]]:
        done = self.weft("results", query, "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.weft("status", "--json").stdout)
        return found


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def run(project: Project) -> Iterator[subprocess.Popen[str]]:
    """`weft run` on a project."""
    with (project.directory.parent / "run.log").open("w") as log:
        line = command("run", "--project", project.directory)
        # A session of its own is a process group of its own, Java included.
        running = subprocess.Popen(line, cwd=ROOT, stdout=log, stderr=log, text=True, start_new_session=True)
        try:
            yield running
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGINT)
                try:
                    running.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.wait()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project that `weft run` runs, with one cycle behind it and no rows to come."""
    directory = tmp_path_factory.mktemp("running")
    project = Project(directory / "project", directory / "readings")
    project.folder.mkdir()
    subprocess.run(command("init", project.directory), cwd=ROOT, check=True, capture_output=True)
    project.register(APP.format(folder=project.folder))
    write_rows(project.folder, "first.json", [{"n": 1, "v": 1}, {"n": 2, "v": 20}])
    with run(project) as process:
        until(lambda: process.poll() is not None or project.status()["cycle"] == 0)
        assert process.poll() is None
        yield project
        assert process.poll() is None


def test_good_and_bad_scripts_are_answered_as_offline_although_no_rows_come(running: Project, tmp_path: Path) -> None:
    offline = Project(tmp_path / "project", running.folder)
    subprocess.run(command("init", offline.directory), cwd=ROOT, check=True, capture_output=True)
    offline.register(APP.format(folder=running.folder))
    good = "CREATE VIEW doubled AS SELECT n, v * 2 AS twice FROM readings;" + (
        "CREATE CONTINUOUS QUERY both AS SELECT n, twice FROM doubled; SHOW QUERIES; DESCRIBE both; SET max_results = 7"
    )
    for script, *options in ((good,), (MISTAKES,), (MISTAKES, "--json"), (f"{good}; SHOW SETTINGS", "--json")):
        online, expected = (each.weft("register", *options, script=script) for each in (running, offline))
        assert (online.returncode, online.stdout, online.stderr) == (
            expected.returncode,
            expected.stdout,
            expected.stderr,
        )
    running.register("DROP CONTINUOUS QUERY both; DROP VIEW doubled")
    with Catalog.open(running.directory, write=False) as catalog:
        assert catalog.pending() == ()
        assert catalog.find("good") is None
        assert catalog._database.execute("SELECT count(*) FROM requests") == [(0,)]


def test_a_query_and_a_stream_take_part_from_the_next_cycle_on(running: Project, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    said = running.register(
        f"CREATE STREAM more (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{more}');"
        "CREATE CONTINUOUS QUERY of_more AS SELECT n FROM more;"
        "CREATE CONTINUOUS QUERY large AS SELECT n FROM readings WHERE v >= 10"
    )
    assert said.splitlines()[0] == "stream more created; it is read as soon as the cycle that is running is over"
    write_rows(more, "1.json", [{"n": 5, "v": 5}])
    until(lambda: running.answers("of_more") == [{"n": 5}])
    write_rows(running.folder, "second.json", [{"n": 3, "v": 30}])
    until(lambda: running.answers("large") == [{"n": 3}])
    for name, words in (("of_more", "query"), ("large", "query"), ("more", "stream")):
        assert running.weft("drop", name).stdout == f"{words} {name} dropped\n"


def test_what_cannot_be_dropped_is_said_in_a_sentence(running: Project) -> None:
    used, unknown = running.weft("drop", "readings"), running.weft("drop", "smal")
    assert (used.returncode, used.stderr) == (
        2,
        "weft: stream 'readings' is read by 'small'; drop what reads it first\n",
    )
    assert (unknown.returncode, unknown.stderr) == (2, "weft: nothing is called 'smal'; did you mean 'small'?\n")


def test_a_query_that_is_created_again_counts_its_own_answers(running: Project) -> None:
    running.register("CREATE CONTINUOUS QUERY again AS SELECT n FROM readings")
    write_rows(running.folder, "third.json", [{"n": 4, "v": 4}])
    until(lambda: running.status()["queries"]["again"] == 1)
    running.register("DROP CONTINUOUS QUERY again; CREATE CONTINUOUS QUERY again AS SELECT v FROM readings")
    assert running.status()["queries"]["again"] == 0
    assert running.weft("drop", "again").returncode == 0


def test_many_processes_register_at_once(running: Project) -> None:
    def register(number: int) -> str:
        return running.register(f"CREATE CONTINUOUS QUERY q{number} AS SELECT n FROM readings WHERE v > {number}")

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(register, range(6))) == [f"query q{number} created\n" for number in range(6)]
    dropped = running.register("".join(f"DROP CONTINUOUS QUERY q{number};" for number in range(6)))
    assert dropped.count(" dropped") == 6


def test_a_second_run_is_refused_and_says_how_to_change_the_first(running: Project) -> None:
    refused = running.weft("run")
    assert refused.returncode == 2
    assert "is open for writing by process" in refused.stderr
    assert "weft register" in refused.stderr


def test_a_process_that_hangs_is_named_and_nothing_is_changed_later(running: Project) -> None:
    process = int(running.status()["writer"].split()[1])
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(CatalogError, match=rf"process {process} .* did not answer within 1 s; nothing was changed"):
            change(running.directory, "CREATE CONTINUOUS QUERY late AS SELECT n FROM readings", limit=1.0)
    finally:
        os.kill(process, signal.SIGCONT)
    assert "late" not in running.register("SHOW QUERIES")


def test_a_request_outlives_the_process_that_it_was_made_to(tmp_path: Path) -> None:
    """The process is killed with a request pending: the one that asked finds the project free, and changes it."""
    code = (
        "import sys; from weft.catalog import Catalog; catalog = Catalog.open(sys.argv[1]); catalog.announce();"
        "print('ready', flush=True); sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(line, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout
        assert deaf.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(change, tmp_path, APP.format(folder="nowhere"))
            with Catalog.open(tmp_path, write=False) as catalog:
                until(catalog.pending)
                deaf.kill()
                assert asked.result().ok
                assert [each.name for each in catalog.queries()] == ["small"]
                assert catalog.pending() == ()
