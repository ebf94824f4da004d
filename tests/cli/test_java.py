"""`weft run` when its Java goes: one sentence on the terminal, the traces in the project's log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

_APP = """
CREATE STREAM s (n BIGINT, t STRING) WATERMARK FOR n AS n USING json OPTIONS (path '{data}');
CREATE CONTINUOUS QUERY q AS SELECT n, t FROM s WHERE n > 0;
"""


def _project(folder: Path, rows: str) -> list[str]:
    (folder / "data").mkdir()
    (folder / "data" / "a.json").write_text(rows)
    (folder / "app.sql").write_text(_APP.format(data=folder / "data"))
    return [sys.executable, "-m", "weft", "run", str(folder / "app.sql"), "--project", str(folder / "p")]


def _java_of(process: int) -> int:
    """The Java that a process has started."""
    children = subprocess.run(
        ["ps", "--ppid", str(process), "-o", "pid=,comm="], capture_output=True, text=True, check=False
    )
    (found,) = (int(line.split()[0]) for line in children.stdout.splitlines() if line.split()[1] == "java")
    return found


def test_java_that_is_killed_is_named_in_one_sentence(tmp_path: Path) -> None:
    command = _project(tmp_path, '{"n": 1, "t": "a"}\n')
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("cycle 0: 1 rows")
        os.kill(_java_of(run.pid), signal.SIGKILL)
        said, failed = run.communicate(timeout=120)
    assert (run.returncode, said) == (2, "")
    assert failed.startswith("weft: Java was killed by signal 9; ")
    assert failed.count("\n") == 1
    assert sorted(each.name for each in (tmp_path / "p" / "log").iterdir()) == ["java.log", "spark.log"]


@pytest.mark.prove
def test_a_row_that_does_not_fit_into_memory_is_said_to_be_that(tmp_path: Path) -> None:
    command = _project(tmp_path, '{"n": 1, "t": "' + 200_000_000 * "x" + '"}\n')
    run = subprocess.run(
        [*command, "--conf", "spark.driver.memory=700m"], capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 2
    assert run.stderr.startswith("weft: Java ran out of memory: give it more with --conf spark.driver.memory")
    assert run.stderr.count("\n") == 1
