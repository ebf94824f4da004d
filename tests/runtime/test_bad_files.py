"""Files that cannot be read as declared: each is set aside with its reason, and all other rows are answered."""

from __future__ import annotations

import gzip
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from tests.runtime.projects import dead_letters, rows_of, run_to_the_end, write_text
from weft.loom import Loom
from weft.runtime.engine import Engine
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.state.commits import last_commit

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (n BIGINT, bid BIGINT, ask BIGINT) WATERMARK FOR n AS n USING {} OPTIONS (path '{}'{});"
#: One query that goes straight from the batch, and one for which rows are written to the log first.
TAKEN = "CREATE CONTINUOUS QUERY taken AS SELECT n, bid, ask FROM s;"
WRITTEN = "CREATE CONTINUOUS QUERY written SHARING OFF AS SELECT n, bid, ask FROM s;"


def set_aside(loom: Loom) -> dict[str, str]:
    """The files that the dead letter has, by name, with the reasons."""
    letters = [each for each in dead_letters(loom, "s") if each["reason"] == "file set aside"]
    return {os.path.basename(each["file"]): each["text"] for each in letters}


def counted(loom: Loom) -> int:
    commit = last_commit(loom.directory)
    assert commit is not None
    return commit.streams["s"].bad_files


# CSV


@pytest.mark.parametrize("query", [TAKEN, WRITTEN])
def test_csv_is_read_by_the_names_in_each_header(loom: Loom, tmp_path: Path, query: str) -> None:
    data = tmp_path / "data"
    write_text(data, "0.csv", "n,bid,ask\n1,10,11\n2,20,21\n")
    write_text(data, "1 %20[1]*.csv", "n,ask,bid\n3,31,30\n4,x,40\n")
    write_text(data, "2.csv", "ASK,more,N,Bid\n51,m,5,50\n")
    write_text(data, "3.csv", "n,bid\n6,60\n")
    write_text(data, "4.csv", "")
    loom.execute(STREAM.format("csv", data, ", header true") + query)
    run_to_the_end(loom)
    (name,) = (each.name for each in loom.catalog.queries())
    assert rows_of(loom.results(name)) == [(1, 10, 11), (2, 20, 21), (3, 30, 31), (5, 50, 51)]
    assert set_aside(loom) == {"3.csv": "has no column ask in its header"}
    assert [each["text"] for each in dead_letters(loom, "s") if each["reason"] == "malformed"] == ["4,x,40"]
    assert counted(loom) == 1


def test_csv_without_a_header_is_read_by_place(loom: Loom, tmp_path: Path) -> None:
    write_text(tmp_path / "data", "a.csv", "1,10,11\n")
    loom.execute(STREAM.format("csv", tmp_path / "data", "") + TAKEN)
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]


# Parquet and ORC


@pytest.mark.parametrize("query", [TAKEN, WRITTEN])
@pytest.mark.parametrize(("format_", "write"), [("parquet", pq.write_table), ("orc", orc.write_table)])
def test_a_file_of_columns_is_set_aside_if_it_lacks_one_or_has_another_type(
    loom: Loom, tmp_path: Path, query: str, format_: str, write: Any
) -> None:
    def put(name: str, **columns: Any) -> Path:
        (tmp_path / "data").mkdir(exist_ok=True)
        write(pa.table(columns), tmp_path / "data" / name)
        return tmp_path / "data" / name

    put("good", n=[1], bid=[10], ask=[11], more=["m"])
    put("narrow [1]*", n=pa.array([2], pa.int32()), BID=pa.array([20], pa.int16()), ask=[21])
    put("lacking", n=[3], bid=[30])
    put("text", n=[4], bid=["40"], ask=[41])
    put("double", n=[5], bid=[50.0], ask=[51])
    put("clock", n=[datetime(2024, 1, 1)], bid=[60], ask=[61])
    put("empty").write_bytes(b"")
    put("damaged").write_bytes(b"no such file")
    loom.execute(STREAM.format(format_, tmp_path / "data", "") + query)
    run_to_the_end(loom)
    (name,) = (each.name for each in loom.catalog.queries())
    assert rows_of(loom.results(name)) == [(1, 10, 11), (2, 20, 21)]
    found = set_aside(loom)
    assert set(found) == {"lacking", "text", "double", "clock", "empty", "damaged"}
    assert found["lacking"] == "has no column ask"
    assert found["text"] == "has bid as string, which cannot be read as BIGINT exactly"
    assert counted(loom) == len(found)


def test_a_file_of_which_only_bad_ones_came_leaves_the_stream_as_it_was(loom: Loom, tmp_path: Path) -> None:
    write_text(tmp_path / "data", "a.parquet", "no such file")
    loom.execute(STREAM.format("parquet", tmp_path / "data", "") + TAKEN)
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == []
    pq.write_table(pa.table({"n": [1], "bid": [10], "ask": [11]}), tmp_path / "data" / "b.parquet")
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]
    assert counted(loom) == 1


def test_columns_in_the_names_of_folders_are_not_looked_for_in_files(loom: Loom, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "ask=11"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"n": [1], "bid": [10]}), folder / "a.parquet")
    pq.write_table(pa.table({"n": [2]}), folder / "b.parquet")
    loom.execute(STREAM.format("parquet", tmp_path / "data", "") + TAKEN)
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]
    assert set_aside(loom) == {"b.parquet": "has no column bid"}


# Damage that only reading finds


@pytest.mark.parametrize("query", [TAKEN, WRITTEN])
def test_a_page_that_cannot_be_read_sets_its_file_aside(loom: Loom, tmp_path: Path, query: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(pa.table({"n": [1], "bid": [10], "ask": [11]}), data / "a.parquet")
    many = list(range(2, 5000))
    pq.write_table(pa.table({"n": many, "bid": many, "ask": many}), data / "b.parquet", compression="zstd")
    whole = bytearray((data / "b.parquet").read_bytes())
    whole[4 : len(whole) // 2] = bytes(len(whole) // 2 - 4)
    (data / "b.parquet").write_bytes(whole)
    loom.execute(STREAM.format("parquet", data, "") + query)
    run_to_the_end(loom)
    (name,) = (each.name for each in loom.catalog.queries())
    assert rows_of(loom.results(name)) == [(1, 10, 11)]
    assert [text.startswith("cannot be read to its end: ") for text in set_aside(loom).values()] == [True]
    assert counted(loom) == 1


def test_json_that_is_damaged_or_no_utf8_is_set_aside(loom: Loom, tmp_path: Path) -> None:
    data = tmp_path / "data"
    line = json.dumps({"n": 1, "bid": 10, "ask": 11}) + "\n"
    write_text(data, "good.json", line)
    (data / "packed.json.gz").write_bytes(gzip.compress(line.encode() * 10_000)[:-200])
    (data / "other.json").write_bytes(line.encode("utf-16"))
    loom.execute(STREAM.format("json", data, "") + TAKEN)
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]
    assert set(set_aside(loom)) == {"packed.json.gz", "other.json"}


# Stopping instead, and crashes


def test_a_stream_may_stop_at_a_bad_file(loom: Loom, tmp_path: Path) -> None:
    bad = write_text(tmp_path / "data", "a.parquet", "no such file")
    pq.write_table(pa.table({"n": [1], "bid": [10], "ask": [11]}), tmp_path / "data" / "b.parquet")
    loom.execute(STREAM.format("parquet", tmp_path / "data", ", bad_files 'stop'") + TAKEN)
    with pytest.raises(
        EngineError, match=r"stream 's' stops at the file .*a\.parquet, which is not a whole Parquet file"
    ):
        run_to_the_end(loom)
    bad.unlink()
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]


def test_a_second_attempt_sets_the_same_files_aside(
    loom: Loom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is mended between the attempts: the cycle goes by what was written down."""
    data = tmp_path / "data"
    bad = write_text(data, "a.parquet", "no such file")
    pq.write_table(pa.table({"n": [1], "bid": [10], "ask": [11]}), data / "b.parquet")
    loom.execute(STREAM.format("parquet", data, "") + TAKEN)

    def crash(engine: Engine, *arguments: object, **named: object) -> None:
        raise EngineError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "_with_lost_files", crash)
        with pytest.raises(EngineError, match="crash"):
            run_to_the_end(loom)
    pq.write_table(pa.table({"n": [2], "bid": [20], "ask": [21]}), bad)
    run_to_the_end(loom)
    assert rows_of(loom.results("taken")) == [(1, 10, 11)]
    assert set_aside(loom) == {"a.parquet": "is not a whole Parquet file"}
    assert counted(loom) == 1
