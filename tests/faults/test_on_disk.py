"""What a cycle wrote survives a power cut from its commit on: files and their folders are flushed before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run
from weft.runtime.state.commits import read_commit
from weft.runtime.state.storage import Storage

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n USING memory;
CREATE CONTINUOUS QUERY sums INTO parquet OPTIONS (path '{out}') AS
  SELECT k, SUM(v) AS total FROM s [ROWS 20 SLIDE 10] GROUP BY k;
CREATE CONTINUOUS QUERY middle AS SELECT k, MEDIAN(v) AS mid FROM s [ROWS 20 SLIDE 10] GROUP BY k;
CREATE CONTINUOUS QUERY news SHARING OFF AS SELECT DISTINCT k FROM s RETAIN 50;
"""


def test_a_commit_is_published_when_all_that_it_names_is_on_disk(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, out = tmp_path / "project" / "state", tmp_path / "out"
    fsync, publish = os.fsync, Storage.publish
    #: What has been flushed since the last commit; what was there then.
    flushed: set[int] = set()
    settled: set[tuple[Path, int]] = set()
    missed: dict[str, list[Path]] = {}

    def noted(descriptor: int) -> None:
        flushed.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def checked(storage: Storage, name: str) -> None:
        if not name.startswith("commits/"):
            publish(storage, name)
            return
        draft = state / "commits" / f".{name.removeprefix('commits/')}.draft"
        seals = read_commit(draft.read_bytes(), name).seals
        files = [state / path / file for path, sealed in seals.items() for file in sealed]
        files += [state / "intents" / draft.stem[1:], *out.iterdir()]
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(state) or folder == out}
        there = {(each, each.stat().st_ino) for each in (draft, *files, *folders)}
        missed[name] = sorted(path for path, inode in there - settled if inode not in flushed)
        settled.update(there)
        flushed.clear()
        publish(storage, name)
        assert (state / "commits").stat().st_ino in flushed

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Storage, "publish", checked)
    (tmp_path / "project").mkdir()
    run = Run(spark, tmp_path / "project")
    try:
        run.execute(SCRIPT.format(out=out))
        for first in (1, 12, 25):
            assert run.take(s=[(first + each, "ab"[each % 2], each) for each in range(10)]) == ""
    finally:
        run.close()
    assert missed == {f"commits/{cycle:012d}.json": [] for cycle in range(3)}
