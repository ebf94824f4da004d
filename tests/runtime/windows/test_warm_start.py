"""Trees that are made while Spark starts are those that the cycle would have made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.projects import rows_of, run_to_the_end, write_rows
from weft.catalog import Catalog
from weft.loom import Loom
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.stages.windows.warm_start import restored
from weft.runtime.state.commits import last_commit
from weft.runtime.state.stored_plan import StoredPlan

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM readings (n BIGINT, sensor STRING, v BIGINT)
  WATERMARK FOR n AS n - 2 USING json OPTIONS (path '{folder}', maxFilesPerTrigger '1');
CREATE CONTINUOUS QUERY totals AS SELECT sensor, SUM(v) AS total FROM readings [ROWS 20 SLIDE 5] GROUP BY sensor;
CREATE CONTINUOUS QUERY large AS SELECT MAX(v) AS most FROM readings [ROWS 12 SLIDE 4] WHERE v > 3;
CREATE CONTINUOUS QUERY ever AS SELECT sensor, COUNT(*) AS rows FROM readings GROUP BY sensor;
"""


def _write(folder: Path, files: range) -> None:
    for file in files:
        rows = [{"n": n, "sensor": "ab"[n % 2], "v": n * 7 % 11} for n in range(15 * file, 15 * file + 15)]
        write_rows(folder, f"{file}.json", rows)


def _answers(loom: Loom) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(rows_of(loom.results(name)), key=repr) for name in ("totals", "large", "ever")}


def test_a_second_process_goes_on_with_the_trees_made_ahead(spark: SparkSession, tmp_path: Path) -> None:
    folder, project = tmp_path / "rows", tmp_path / "project"
    _write(folder, range(3))
    with Loom.open(project) as loom:
        loom.execute(SCRIPT.format(folder=folder))
        run_to_the_end(loom)
    commit = last_commit(project)
    assert commit is not None
    made = restored(project)
    with Catalog.open(project, write=False) as catalog:
        outputs = StoredPlan(catalog).load().outputs
    windowed = {outputs[name].node_id.text for name in ("totals", "large")}
    assert (made.cycle, set(made.weaves["readings"].windowed)) == (commit.cycle, windowed)
    _write(folder, range(3, 5))
    with Loom.open(project) as loom:
        run_to_the_end(loom)
        in_two_runs = _answers(loom)
    with Loom.open(tmp_path / "at once") as loom:
        loom.execute(SCRIPT.format(folder=folder))
        run_to_the_end(loom)
        at_once = _answers(loom)
    assert in_two_runs == at_once


def test_state_that_is_damaged_is_not_made_ahead_and_the_cycle_says_so(spark: SparkSession, tmp_path: Path) -> None:
    folder, project = tmp_path / "rows", tmp_path / "project"
    _write(folder, range(2))
    with Loom.open(project) as loom:
        loom.execute(SCRIPT.format(folder=folder))
        run_to_the_end(loom)
    commit = last_commit(project)
    assert commit is not None
    damaged = project / "state" / commit.logs["partials readings"][0].path
    damaged.write_bytes(b"no Parquet")
    _write(folder, range(2, 3))
    with Loom.open(project) as loom, pytest.raises(EngineError):
        run_to_the_end(loom)


def test_a_process_that_has_loaded_nothing_else_makes_trees_ahead(spark: SparkSession, tmp_path: Path) -> None:
    folder, project = tmp_path / "rows", tmp_path / "project"
    _write(folder, range(2))
    with Loom.open(project) as loom:
        loom.execute(SCRIPT.format(folder=folder))
        run_to_the_end(loom)
    # The other modules of the engine are loaded meanwhile, or after it: nothing may depend on them.
    program = (
        "import pathlib, sys; from weft.runtime.stages.windows.warm_start import restored; "
        "print(*restored(pathlib.Path(sys.argv[1])).weaves, 'weft.runtime.engine' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program, project], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["readings", "False"]


def test_nothing_is_made_ahead_of_a_first_cycle(tmp_path: Path) -> None:
    with Loom.open(tmp_path / "project") as loom:
        loom.execute(SCRIPT.format(folder=tmp_path))
    assert restored(tmp_path / "project").cycle is None
