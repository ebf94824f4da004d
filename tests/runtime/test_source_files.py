"""What a look at a file finds, without Spark: columns, types, headers, text, damage."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, TINYINT, DataType, decimal
from weft.runtime.sources.source_files import FileCheck, FileFindings, source_file

FIELDS = (Field("ts", TIMESTAMP), Field("x", BIGINT))
INSTANTS = pa.array([datetime(2024, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))


def look(path: Path, format_: str, *fields: Field, **options: str) -> FileFindings:
    stream = Stream("s", fields or FIELDS, "ts", 0, format_, tuple(options.items()))
    # Files on a local disk are read without Spark.
    return FileCheck(stream).findings(source_file(None, f"file:{path}"))  # type: ignore[arg-type]


def fault_of(column: pa.Array, declared: DataType, folder: Path, format_: str = "parquet", **options: Any) -> str:
    write = pq.write_table if format_ == "parquet" else orc.write_table
    write(pa.table({"x": column}), folder / "a", **options)
    return look(folder / "a", format_, Field("x", declared)).fault


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_types_that_are_wider_or_the_same_are_good(tmp_path: Path, format_: str) -> None:
    for column, declared in (
        (pa.array([1], pa.int32()), BIGINT),
        (pa.array([1], pa.int8()), INT),
        (pa.array([1], pa.int32()), DOUBLE),
        (pa.array([1.0], pa.float32()), DOUBLE),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), decimal(20, 4)),
        (pa.array(["a"]), STRING),
        (INSTANTS, TIMESTAMP),
    ):
        assert fault_of(column, declared, tmp_path, format_) == "", (column.type, declared)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_types_that_lose_something_are_named(tmp_path: Path, format_: str) -> None:
    for column, declared in (
        (pa.array(["1"]), BIGINT),
        (pa.array([1.5]), BIGINT),
        (pa.array([300], pa.int32()), TINYINT),
        (pa.array([1], pa.int64()), DOUBLE),
        (pa.array([Decimal("1.2500")], pa.decimal128(20, 4)), decimal(20, 2)),
        (pa.array([[1]]), BIGINT),
        (pa.array([1], pa.int64()), TIMESTAMP),
        (pa.array([1], pa.int64()), STRING),
    ):
        fault = fault_of(column, declared, tmp_path, format_)
        assert fault.startswith("has x as ")
        assert fault.endswith(f"which cannot be read as {declared} exactly")


def test_instants_of_parquet_are_micro_or_milliseconds(tmp_path: Path) -> None:
    nanoseconds = pa.array([1], pa.timestamp("ns"))
    assert "timestamp[ns]" in fault_of(nanoseconds, TIMESTAMP, tmp_path)
    # Spark's old way of writing instants is no number of nanoseconds, though Arrow shows it as one.
    assert fault_of(nanoseconds, TIMESTAMP, tmp_path, use_deprecated_int96_timestamps=True) == ""
    assert fault_of(INSTANTS.cast(pa.timestamp("ms")), TIMESTAMP, tmp_path) == ""


@pytest.mark.parametrize(("format_", "write"), [("parquet", pq.write_table), ("orc", orc.write_table)])
def test_damage_and_missing_columns_are_found(tmp_path: Path, format_: str, write: Any) -> None:
    path = tmp_path / "a"
    write(pa.table({"TS": INSTANTS, "X": [1], "more": ["m"]}), path)
    assert look(path, format_).fault == ""
    whole = path.read_bytes()
    for damaged in (b"", b"this is neither", whole[: len(whole) // 2], whole[:-1], bytes(len(whole))):
        path.write_bytes(damaged)
        assert look(path, format_).fault.startswith("is "), damaged[:20]
    write(pa.table({"ts": INSTANTS}), path)
    assert look(path, format_).fault == "has no column x"
    path.unlink()
    assert look(path, format_).fault == ""


def test_the_schema_of_a_wide_file_is_read_wherever_it_begins(tmp_path: Path) -> None:
    many = {f"column_{number}": pa.array([number]) for number in range(3000)}
    for format_, write in (("parquet", pq.write_table), ("orc", orc.write_table)):
        write(pa.table({"ts": INSTANTS, "x": [1], **many}), tmp_path / "a")
        assert look(tmp_path / "a", format_).fault == ""


def test_a_header_gives_the_names_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"

    def header(text: str, **options: str) -> FileFindings:
        path.write_bytes(text.encode(options.get("encoding", "utf-8")))
        return look(path, "csv", header="true", **options)

    assert header("ts,x\n1,2\n").header == ("ts", "x")
    assert header('\ufeff"X" , more,Ts\r\n').header == ("X", "more", "Ts")
    assert header("\n\n# no\nx;ts\n", sep=";", comment="#").header == ("x", "ts")
    assert header("x\tts\n", delimiter="\\t").header == ("x", "ts")
    assert header("x,ts\n1,2\n", encoding="UTF-16").header == ("x", "ts")
    assert header("") == FileFindings()
    assert header("ts,y\n1,2\n").fault == "has no column x in its header"
    assert header("ts,x,X\n").fault == "has column x 2 times in its header"
    assert look(path, "csv").header is None


def test_text_that_is_not_utf8_is_found_anywhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    line = '{"ts": 1, "x": "größe"}\n'.encode()
    path.write_bytes(line * 200_000)
    assert look(path, "json").fault == ""
    path.write_bytes(line * 200_000 + line.decode().encode("latin-1"))
    assert "is not UTF-8 text (byte 5" in look(path, "json").fault
    assert look(path, "json", encoding="latin-1").fault == ""
    path.write_bytes(line.decode().encode("utf-16"))
    assert look(path, "csv").fault.startswith("is not UTF-8 text (byte 0)")


def test_a_packed_file_is_unpacked_for_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,ts\n1,2\n"))
    assert look(path, "csv", header="true").header == ("x", "ts")
    path.write_bytes(path.read_bytes()[:12])
    assert look(path, "csv", header="true").fault.startswith("cannot be unpacked")
