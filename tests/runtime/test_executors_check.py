"""What executors lack is said at the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.runtime.cluster_checks import problem_in

_ALL: dict[str, str | None] = {"weft": "1.0", "numpy": "2.0", "numba": "0.6", "pyarrow": "20.0"}


def test_executors_with_everything_lack_nothing() -> None:
    from_archive = {**_ALL, "weft": ""}
    assert problem_in([("a", "python", tuple(_ALL.items())), ("b", "python", tuple(from_archive.items()))], "1.0") == ""


def test_a_missing_package_and_another_version_are_named_with_the_host_and_the_interpreter() -> None:
    without = ("b", "/usr/bin/python3", tuple({**_ALL, "numba": None}.items()))
    other = ("c", "python", tuple({**_ALL, "weft": "0.9"}.items()))
    said = problem_in([("a", "python", tuple(_ALL.items())), without], "1.0")
    assert said.startswith("the Python of executors on b (/usr/bin/python3) has no numba: install it there")
    assert "SET kernels = driver" in said
    assert "have weft 0.9, and the driver has 1.0" in problem_in([other], "1.0")


@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.parametrize("how", ["environment", "setting", "missing"])
def test_the_interpreter_that_was_chosen_for_executors_is_used_and_looked_at(tmp_path: Path, how: str) -> None:
    """An interpreter without site-packages: Spark ships PySpark, and nothing else is there."""
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    (tmp_path / "data").mkdir()
    app = tmp_path / "app.sql"
    app.write_text(
        f"CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path / 'data'}');"
        "CREATE CONTINUOUS QUERY q AS SELECT n FROM s;"
    )
    command = [sys.executable, "-m", "weft", "run", str(app), "--project", str(tmp_path / "p"), "--until-idle"]
    command += ["--master", "local-cluster[1,1,1024]"]
    environment = dict(os.environ)
    chosen = tmp_path / "nowhere" if how == "missing" else bare
    if how == "environment":
        environment["PYSPARK_PYTHON"] = str(chosen)
    else:
        command += ["--conf", f"spark.pyspark.python={chosen}"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    if how == "missing":
        assert run.stderr.startswith("weft: the executors cannot run Python (")
        assert str(chosen) in run.stderr
    else:
        assert " has no weft: install it there" in run.stderr or " has no numpy: install it there" in run.stderr
