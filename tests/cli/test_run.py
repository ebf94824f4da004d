"""`weft run`, `weft results` and `weft status` on a small project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from weft.cli import app

pytestmark = pytest.mark.spark

_APP = """
CREATE STREAM readings (n BIGINT, sensor STRING, value DOUBLE)
  WATERMARK FOR n AS n USING json OPTIONS (path '{folder}');
CREATE CONTINUOUS QUERY means AS
  SELECT sensor, COUNT(*) AS readings, AVG(value) AS mean FROM readings [ROWS 10 SLIDE 10] GROUP BY sensor;
"""


@pytest.fixture
def application(tmp_path: Path) -> Path:
    """An app.sql over a folder with one file: ten readings of one sensor, one of another, one broken line."""
    folder = tmp_path / "readings"
    folder.mkdir()
    lines = [json.dumps({"n": n, "sensor": "a", "value": n}) for n in range(10)]
    lines += [json.dumps({"n": 10, "sensor": "b", "value": 1}), "{broken"]
    (folder / "1.json").write_text("\n".join(lines))
    file = tmp_path / "app.sql"
    file.write_text(_APP.format(folder=folder))
    return file


def _weft(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_project_runs_until_idle_and_is_read_afterwards(
    spark: SparkSession, application: Path, tmp_path: Path
) -> None:
    project = str(tmp_path / "project")
    totals = json.loads(_weft("run", str(application), "--project", project, "--until-idle", "--json"))
    assert totals == {
        "ok": True,
        "cycles": 1,
        "rows": 11,
        "answers": 1,
        "late": 0,
        "bad": 1,
        "shed": 0,
        "missing_files": 0,
        "bad_files": 0,
    }

    answers = [json.loads(line) for line in _weft("results", "means", "--project", project, "--json").splitlines()]
    assert answers == [{"window_start": 0, "window_end": 10, "sensor": "a", "readings": 10, "mean": 4.5}]

    status = json.loads(_weft("status", "--project", project, "--json"))
    assert status["writer"] is None
    readings = {"rows": 11, "late": 0, "bad": 1, "watermark": "10", "kept": 1.0, "shed": 0}
    assert status["streams"] == {"readings": {**readings, "missing_files": 0, "bad_files": 0}}
    assert status["queries"] == {"means": 1}

    (cycle,) = status["measured"]["cycles"]
    assert (cycle["cycle"], cycle["answers"]) == (0, 1)
    assert {"ingest", "weave", "answer", "commit"} <= cycle["stages"].keys()
    readings = cycle["streams"]["readings"]
    assert (readings["rows"], readings["late"], readings["bad"], readings["keys"]) == (11, 0, 1, {"sensor": 2})
    assert "cycle 0 took " in _weft("status", "--project", project)
    assert "the last cycles, in seconds:" in _weft("explain", "means", "--project", project)
    assert status["measured"] == json.loads(_weft("explain", "--project", project, "--json"))["measured"]

    letters = list((tmp_path / "project" / "state" / "dead-letter" / "readings").glob("*/*.json"))
    assert json.loads(letters[0].read_text())["reason"] == "malformed"


def test_running_again_finds_nothing_new(spark: SparkSession, application: Path, tmp_path: Path) -> None:
    project = str(tmp_path / "project")
    _weft("run", str(application), "--project", project, "--until-idle")
    again = json.loads(_weft("run", str(application), "--project", project, "--until-idle", "--json"))
    assert (again["cycles"], again["answers"]) == (0, 0)


def test_mistakes_in_the_file_start_nothing(tmp_path: Path) -> None:
    file = tmp_path / "app.sql"
    file.write_text("CREATE CONTINUOUS QUERY q AS SELECT a FROM nowhere;")
    result = CliRunner().invoke(app, ["run", str(file), "--project", str(tmp_path / "project")])
    assert result.exit_code == 1
    assert "stream 'nowhere' is unknown" in result.output


def test_a_sink_that_does_not_work_is_shown_until_it_does(
    spark: SparkSession, application: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.write_text("a file where the folder should be")
    into = f"CREATE CONTINUOUS QUERY filed INTO json OPTIONS (path '{out}') AS SELECT n FROM readings WHERE n > 8;"
    application.write_text(application.read_text() + into)
    project = str(tmp_path / "project")
    ended = CliRunner().invoke(app, ["run", str(application), "--project", project, "--until-idle"])
    assert ended.exit_code == 3
    assert "query filed is in error: its sink does not take the answers of cycle 0" in ended.output
    assert list(json.loads(_weft("status", "--project", project, "--json"))["errors"]) == ["filed"]
    assert "query filed is in error since" in _weft("status", "--project", project)
    means, filed = json.loads(_weft("queries", "--project", project, "--json"))
    assert means["error"] is None
    assert str(out) in filed["error"]
    assert _weft("explain", "filed", "--project", project).startswith("filed is in error: its sink does not take")
    (resumed,) = json.loads(_register("ALTER CONTINUOUS QUERY FILED RESUME", project, tmp_path))["outcomes"]
    assert resumed["message"] == "query filed is tried again at the next start"
    out.unlink()
    assert json.loads(_weft("run", "--project", project, "--until-idle", "--json"))["ok"]
    assert [json.loads(line) for line in (out / "000000000000.json").read_text().splitlines()] == [{"n": 9}, {"n": 10}]
    (resumed,) = json.loads(_register("ALTER QUERY filed RESUME", project, tmp_path))["outcomes"]
    assert resumed["message"] == "query filed is not in error"


def _register(statement: str, project: str, folder: Path) -> str:
    script = folder / "statement.sql"
    script.write_text(statement)
    return _weft("register", str(script), "--project", project, "--json")
