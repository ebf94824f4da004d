"""Spark's classes, archived."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.java import archive, archive_options, make_archive


def test_an_archive_is_used_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a folder" / "classes.jsa"
    assert archive_options(path) == ""
    path.parent.mkdir()
    path.touch()
    assert archive_options(path).startswith(f'"-XX:SharedArchiveFile={path}"')


def test_another_java_has_another_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "one"))
    one = archive()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "other"))
    assert archive().parent == one.parent
    assert archive() != one


@pytest.mark.spark
def test_an_archive_is_made_in_a_process_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="in a process of its own"):
        make_archive(tmp_path / "classes.jsa", lambda settings: None)


@pytest.mark.prove
@pytest.mark.spark
def test_warming_up_makes_an_archive_of_sparks_classes(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from weft.cli.run import _run_some_queries\n"
        "from weft.runtime.spark.java import make_archive\n"
        f"make_archive(Path({str(tmp_path / 'classes.jsa')!r}), _run_some_queries)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "classes.jsa").stat().st_size > 10_000_000
