"""The steps of a replayed stream: those that are damaged are cut again, if the source is still what it was."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.damage import FAULTS, damage
from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT
from weft.runtime.sources import replay
from weft.runtime.spark.engine_errors import EngineError

STEPS = {"000000-10.parquet": [0, 7], "000001-20.parquet": [12], "000002-30.parquet": [21, 29]}


def stream(tmp_path: Path, *options: tuple[str, str]) -> Stream:
    source = ("path", str(tmp_path / "rows.parquet"))
    return Stream("s", (Field("n", BIGINT),), "n", 0, "replay", (source, ("step", "10"), *options))


def write_source(tmp_path: Path, *extra: int) -> None:
    clocks = [clock for step in STEPS.values() for clock in step]
    pq.write_table(pa.table({"n": [*clocks, *extra]}), tmp_path / "rows.parquet")


def clocks_in(folder: Path) -> dict[str, list[int]]:
    return {file.name: pq.read_table(file)["n"].to_pylist() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_step_is_cut_again(tmp_path: Path, fault: str) -> None:
    write_source(tmp_path)
    ready = replay.prepare(stream(tmp_path), tmp_path / "replay" / "1")
    assert clocks_in(ready) == STEPS
    file = ready / "000001-20.parquet"
    time = file.stat().st_mtime
    assert damage(file, fault, (ready / "000000-10.parquet").read_bytes())
    assert clocks_in(replay.prepare(stream(tmp_path), tmp_path / "replay" / "1")) == STEPS
    assert file.stat().st_mtime == time
    assert [each.name for each in (tmp_path / "replay").iterdir()] == ["1"]


def test_a_step_that_waits_is_mended_where_it_was(tmp_path: Path) -> None:
    write_source(tmp_path)
    slow = stream(tmp_path, ("speed", "1"))
    folder = tmp_path / "replay" / "1"
    replay.prepare(slow, folder)
    (folder / "waiting" / "000000-10.parquet").rename(folder / "ready" / "000000-10.parquet")
    damage(folder / "ready" / "000000-10.parquet", "halved", None)
    damage(folder / "waiting" / "000001-20.parquet", "emptied", None)
    damage(folder / "waiting" / "000002-30.parquet", "deleted", None)
    replay.prepare(slow, folder)
    assert clocks_in(folder / "ready") == {"000000-10.parquet": [0, 7]}
    assert clocks_in(folder / "waiting") == {name: STEPS[name] for name in ("000001-20.parquet", "000002-30.parquet")}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["ready/000001-20.parquet", "steps.json"])
def test_a_damaged_file_whose_source_has_changed_stops_the_stream(tmp_path: Path, name: str, fault: str) -> None:
    write_source(tmp_path)
    folder = tmp_path / "replay" / "1"
    replay.prepare(stream(tmp_path), folder)
    write_source(tmp_path, 13)
    assert damage(folder / name, fault, b"another")
    with pytest.raises(EngineError, match=rf"{name},? "):
        replay.prepare(stream(tmp_path), folder)


def test_a_file_that_was_not_cut_from_the_source_stops_the_stream(tmp_path: Path) -> None:
    write_source(tmp_path)
    folder = tmp_path / "replay" / "1"
    ready = replay.prepare(stream(tmp_path), folder)
    (ready / "000003-40.parquet").write_bytes((ready / "000002-30.parquet").read_bytes())
    with pytest.raises(EngineError, match=r"000003-40\.parquet does not belong to the project"):
        replay.prepare(stream(tmp_path), folder)
