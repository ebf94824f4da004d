"""Memory does not grow with the stream: ten million rows through twenty queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.prove, pytest.mark.timeout(2 * 60 * 60)]

ROWS = 10_000_000


def test_memory_is_flat_over_ten_million_rows(tmp_path: Path, record_property: pytest.RecordProperty) -> None:
    command = [sys.executable, "-m", "tests.runtime.memory_driver", str(tmp_path / "project"), str(ROWS)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    samples = [json.loads(line) for line in done.stdout.splitlines()]
    assert samples, done.stderr[-4000:]
    assert samples[-1]["rows"] >= ROWS, done.stderr[-4000:]
    quarter = len(samples) // 4
    for process in ("python", "java"):
        early = max(sample[process] for sample in samples[quarter : 2 * quarter])
        late = max(sample[process] for sample in samples[-quarter:])
        record_property(f"{process} MB", f"{early:.0f} → {late:.0f}")
        # Java's heap may use the gigabyte it is given; Python has nothing to keep.
        assert late <= early * 1.1 + 16, f"{process} grew from {early:.0f} to {late:.0f} MB"
    size = sum(file.stat().st_size for file in (tmp_path / "project" / "state" / "segments").rglob("*.parquet"))
    record_property("segments MB", f"{size / 2**20:.1f}")
    # Five seconds of the stream are open, of ten bytes a row or so; all of it would be hundreds of megabytes.
    assert size < 100 * 2**20
