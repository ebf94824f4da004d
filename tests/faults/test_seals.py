"""What the state relies on is compared with its seals: records, files, and folders that Spark's tasks have written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from weft.runtime.spark.engine_errors import StorageError
from weft.runtime.state.checksums import Seal, check, opened, seal_of, sealed
from weft.runtime.state.storage import Storage


def test_a_record_is_taken_only_as_it_was_written() -> None:
    data = sealed("x", {"cycle": 7, "names": ["ä", '"}']})
    assert opened(data, "x") == {"cycle": 7, "names": ["ä", '"}']}
    for place in range(len(data)):
        for bit in (0x01, 0x20, 0x80):
            changed = bytearray(data)
            changed[place] ^= bit
            with pytest.raises(StorageError, match=r"^x is not as it was written"):
                opened(bytes(changed), "x")
    for part in (b"", data[:-1], data[: len(data) // 2], data + b"\n", bytes(len(data))):
        with pytest.raises(StorageError, match=r"^x is "):
            opened(part, "x")
    assert opened(data, "folder/x") == opened(data, "x")
    with pytest.raises(StorageError, match=r"^folder/y is not as it was written"):
        opened(data, "folder/y")


def test_a_folder_must_hold_the_sealed_files_and_no_others() -> None:
    sealed_files = {"a": seal_of(b"1"), "b": seal_of(b"22")}
    check("f", sealed_files, dict(sealed_files))
    for found, wrong in (
        ({"a": seal_of(b"1")}, "f/b is missing"),
        ({**sealed_files, "b": seal_of(b"222")}, "f/b has 3 bytes instead of 2"),
        ({**sealed_files, "b": seal_of(b"23")}, "f/b has been changed"),
        ({**sealed_files, "c": seal_of(b"1")}, "f/c does not belong to the project"),
    ):
        with pytest.raises(StorageError, match=wrong):
            check("f", sealed_files, found)


@pytest.mark.spark
def test_seals_are_the_same_on_a_local_disk_and_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    (rows / "stream=0").mkdir(parents=True)
    for name, data in (("a", b"x" * 3_000_000), ("stream=0/b", b""), ("_SUCCESS", b"?"), (".a.crc", b"?")):
        (rows / name).write_bytes(data)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.default.link./state", tmp_path.as_uri())
    local, remote = Storage.at(spark, tmp_path.as_uri()), Storage.at(spark, "viewfs:///state")
    expected = {"a": seal_of(b"x" * 3_000_000), "stream=0/b": Seal(0, 0)}
    assert local.seals("rows") == remote.seals("rows") == expected
    assert local.seals("rows/a") == remote.seals("rows/a") == {"": expected["a"]}
    assert local.seals("nothing") == remote.seals("nothing") == {}


@pytest.mark.spark
def test_rows_that_executors_wrote_elsewhere_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3]}), folder / "part-0.parquet")
    storage = Storage.at(spark, tmp_path.as_uri())
    assert storage.seals_of_written("rows", 3) == storage.seals("rows")
    with pytest.raises(StorageError, match=r"wrote 5 rows to .*/rows, where the driver finds 3: .* all machines share"):
        storage.seals_of_written("rows", 5)
    with pytest.raises(StorageError, match="where the driver finds 0"):
        storage.seals_of_written("elsewhere", None)
