"""Ctrl-C in a terminal: the cycle that runs is finished, the state is named, and the next run goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.projects import write_rows
from weft.loom import Loom

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
APP = """
CREATE STREAM readings (n BIGINT, v BIGINT)
  WATERMARK FOR n AS n USING json OPTIONS (path '{folder}', maxFilesPerTrigger '1');
CREATE CONTINUOUS QUERY totals AS SELECT SUM(v) AS total FROM readings [ROWS 10 SLIDE 10];
"""


def weft(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "weft", *arguments]


def test_ctrl_c_finishes_the_cycle_and_the_next_run_goes_on(tmp_path: Path) -> None:
    folder, project = tmp_path / "readings", str(tmp_path / "project")
    app = tmp_path / "app.sql"
    app.write_text(APP.format(folder=folder))
    write_rows(folder, "1.json", [{"n": n, "v": 1} for n in range(10)])
    # A session of its own is a process group of its own, as a terminal gives to what runs in its foreground.
    with subprocess.Popen(
        weft("run", str(app), "--project", project, "--conf", "spark.sql.codegen.wholeStage=false"),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
    ) as running:
        assert running.stdout
        heard = []
        for line in running.stdout:
            heard.append(line)
            if line.startswith("cycle 0"):
                break
        refused = subprocess.run(
            weft("run", "--project", project), cwd=ROOT, text=True, capture_output=True, check=False
        )
        os.killpg(running.pid, signal.SIGINT)
        heard += running.stdout.readlines()
        said = "".join(heard)
        assert running.wait() == 0, said
    assert refused.returncode != 0
    assert f"is open for writing by process {running.pid}" in (refused.stdout + refused.stderr).replace("\n", " ")
    assert "stopping after this cycle" in said
    assert f"the state is in {project}" in said.replace("\n", "")

    write_rows(folder, "2.json", [{"n": n, "v": 2} for n in range(10, 25)])
    again = subprocess.run(
        weft("run", "--project", project, "--until-idle", "--json"),
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["rows"] == 15
    with Loom.open(project, write=False) as loom:
        answers = loom.results("totals").to_pylist()
    assert [(each["window_start"], int(each["total"])) for each in answers] == [(0, 10), (10, 20)]
