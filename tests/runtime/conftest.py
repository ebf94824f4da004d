"""What the tests of the engine share: an engine and an oracle side by side, in a directory of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run
from weft.loom import Loom
from weft.runtime.state import store


@contextmanager
def runs_in(directory: Path, spark: SparkSession) -> Iterator[Callable[[str], Run]]:
    """Give a function that starts an engine and an oracle in a directory, on the statements of a script."""
    with ExitStack() as open_runs:

        def start(script: str) -> Run:
            directory.mkdir()
            run = Run(spark, directory)
            open_runs.callback(run.close)
            run.execute(script)
            return run

        yield start


@pytest.fixture
def beside_oracle(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """Starts an engine and an oracle on the statements of a script."""
    with runs_in(tmp_path / "project", spark) as start:
        yield start


@pytest.fixture
def another_beside_oracle(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """Starts a second engine beside an oracle, for tests that compare two."""
    with runs_in(tmp_path / "another", spark) as start:
        yield start


@pytest.fixture
def loom(spark: SparkSession, tmp_path: Path) -> Iterator[Loom]:
    """A project of its own, on the one Spark session."""
    with Loom.open(tmp_path / "project") as loom:
        yield loom


@pytest.fixture
def compacting_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are rewritten after three cycles, so that a run of six does it too."""
    monkeypatch.setattr(store, "MOST_SEGMENTS", 2)
    monkeypatch.setattr(store, "MOST_FILES", 2)
