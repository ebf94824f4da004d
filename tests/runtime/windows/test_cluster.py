"""Driver and executors in processes of their own give the same answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.windows.cluster_driver import HOSTS, STORIES

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.prove
@pytest.mark.timeout(1800)
def test_a_cluster_of_processes_answers_like_the_oracle() -> None:
    command = [sys.executable, "-m", "tests.runtime.windows.cluster_driver", "local-cluster[2,1,1024]"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    stories = [f"story {seed}, kernels in the {host}: no difference" for seed in STORIES for host in HOSTS]
    assert done.stdout.splitlines() == [*stories, "2 executors"], done.stdout
