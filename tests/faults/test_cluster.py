"""Executors that do not share the driver's directory are found before the first cycle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.prove]


def probe(tmp_path: Path, state: str) -> str:
    """What the probe says of a state directory on a cluster of two executors."""
    command = [sys.executable, "-m", "tests.faults.cluster_driver", str(tmp_path / "work"), state]
    root = Path(__file__).parents[2]
    (tmp_path / "driver").mkdir()
    done = subprocess.run(
        command, cwd=tmp_path / "driver", env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]


def test_a_directory_that_executors_share_is_taken(tmp_path: Path) -> None:
    assert probe(tmp_path, (tmp_path / "state").as_uri()) == "shared"
    assert not (tmp_path / "state" / "probe").exists()


def test_a_directory_that_is_another_one_for_executors_is_refused(tmp_path: Path) -> None:
    """Each process has a directory of its own under this path."""
    said = probe(tmp_path, "file:///proc/self/cwd/state")
    assert said.startswith("file:/proc/self/cwd/state is not shared by the driver and all executors (")
    assert said.endswith("see 'On a cluster' in docs/running.md")
