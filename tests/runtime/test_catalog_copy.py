"""A catalog that is lost, or older than the state, is said and can be brought back."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from tests.runtime.projects import run_to_the_end, write_rows
from weft.catalog import COPY_FILE
from weft.catalog.catalog_errors import CatalogError
from weft.cli import app
from weft.loom import Loom
from weft.runtime.spark.engine_errors import EngineError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STREAM = "CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{}')"


def weft(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


class Project:
    """A project that is opened anew for every run; each row has the next number."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "project"
        self.catalog = self.directory / "catalog.sqlite"
        self.state = self.directory / "state"
        self._data = folder / "data"
        self._data.mkdir()
        self._rows = 0
        self.change(STREAM.format(self._data))

    def change(self, script: str) -> None:
        with Loom.open(self.directory) as loom:
            loom.execute(script)

    def run(self) -> None:
        """Take in one more row."""
        self._rows += 1
        write_rows(self._data, f"{self._rows}.json", [{"n": self._rows, "v": self._rows}])
        with Loom.open(self.directory) as loom:
            run_to_the_end(loom)

    def sum_of(self, query: str) -> int:
        with Loom.open(self.directory, write=False) as loom:
            return int(loom.results(query)["total"][-1].as_py())


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_catalog_that_was_lost_or_is_older_comes_back_from_the_state(project: Project, tmp_path: Path) -> None:
    project.change("CREATE CONTINUOUS QUERY a AS SELECT SUM(v) AS total FROM s")
    project.run()
    shutil.copy(project.catalog, tmp_path / "older")
    project.change("CREATE CONTINUOUS QUERY b AS SELECT SUM(v) AS total FROM s WHERE v > 0; SET max_results = 50")
    project.run()

    shutil.copy(tmp_path / "older", project.catalog)
    with pytest.raises(EngineError, match=r"is an older copy, .*cycle 1 had plan 2.*weft init .* --recover"):
        project.run()
    found = weft("init", str(project.directory), "--recover")
    assert found.exit_code == 0, found.output
    assert "is back, with 2 queries" in found.output
    assert (project.directory / "catalog.sqlite.replaced-1").exists()
    project.run()

    for lose in (Path.unlink, lambda file: file.write_bytes(b"")):
        lose(project.catalog)
        for command in ("run", "status", "queries", "init"):
            where = [str(project.directory)] if command == "init" else ["--project", str(project.directory)]
            said = weft(command, *where)
            assert said.exit_code == 2, said.output
            assert "has the state of its queries; bring the catalog back with" in said.output
        with pytest.raises(CatalogError, match="bring the catalog back"):
            Loom.open(project.directory)
        assert weft("init", str(project.directory), "--recover").exit_code == 0
    project.run()
    assert project.sum_of("a") == 1 + 2 + 3 + 4 + 5
    assert project.sum_of("b") == 2 + 3 + 4 + 5
    with Loom.open(project.directory, write=False) as loom:
        assert loom.catalog.setting("max_results") == "50"


def test_an_older_copy_of_the_state_is_refused_and_a_removed_state_begins_afresh(
    project: Project, tmp_path: Path
) -> None:
    project.change("CREATE CONTINUOUS QUERY a AS SELECT SUM(v) AS total FROM s")
    project.run()
    shutil.copytree(project.state, tmp_path / "older")
    project.run()

    shutil.rmtree(project.state)
    shutil.copytree(tmp_path / "older", project.state)
    with pytest.raises(EngineError, match=r"knows of cycle 1, the state is at 0: commits are missing, or an older"):
        project.run()
    shutil.rmtree(project.state)
    project.run()
    assert project.sum_of("a") == 1 + 2 + 3 + 4
    project.run()
    assert project.sum_of("a") == 1 + 2 + 3 + 4 + 5


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1] + b"x")])
def test_a_copy_that_cannot_be_used_is_named(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    (tmp_path / "state").mkdir()
    copy = tmp_path / "state" / COPY_FILE
    with Loom.open(tmp_path) as loom:
        copy.write_bytes(loom.catalog.copied())
    damage(copy)
    said = weft("init", str(tmp_path), "--recover")
    assert said.exit_code == 2
    assert str(copy) in said.output.replace("\n", "")
