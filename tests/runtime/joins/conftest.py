"""A second engine beside an oracle, for tests that compare two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run


@pytest.fixture
def another_beside_oracle(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], Run]]:
    """Starts an engine and an oracle on the statements of a script."""
    with ExitStack() as open_runs:

        def start(script: str) -> Run:
            directory = tmp_path / "another"
            directory.mkdir()
            run = Run(spark, directory)
            open_runs.callback(run.close)
            run.execute(script)
            return run

        yield start
