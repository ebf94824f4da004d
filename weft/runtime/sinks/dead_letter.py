"""Rows that took part in nothing, with the reason: never dropped silently."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.expressions.spark_expressions import column
from weft.runtime.columnar.rows import CORRUPT, slots, slots_of
from weft.runtime.state.storage import Storage

FOLDER = "dead-letter"

#: Characters of a stream's name that a folder has at most; what is longer ends in a hash.
_LONGEST = 100


def folder_of(stream: str) -> str:
    """The folder with the dead letters of a stream: its name, in which all but letters, digits, _ and - is %-quoted."""
    name = quote(stream, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{blake2b(stream.encode(), digest_size=8).hexdigest()}"
    return f"{FOLDER}/{name}"


def write_dead_letters(
    spark: SparkSession, storage: Storage, stream: Stream, index: int, path: str, cycle: int
) -> None:
    """Write the rows of a cycle that were set aside as JSON lines, under the cycle's number."""
    listed = ", ".join(f"{slot} {type_}" for slot, type_ in slots_of([stream]).items())
    schema = f"{listed}, {CORRUPT} STRING, reason STRING"
    kept = spark.read.schema(schema).parquet(storage.path(f"{path}/stream={index}")).where(F.col("reason") != "none")
    named = zip(slots(stream.fields), stream.fields, strict=True)
    row = F.struct(*(F.col(slot).alias(field.name) for slot, field in named))
    letters = kept.select(F.col("reason"), F.col(CORRUPT).alias("text"), F.lit(cycle).alias("cycle"), row.alias("row"))
    _write(letters, storage, f"{folder_of(stream.name)}/{cycle:012d}")


def write_file_letters(storage: Storage, stream: str, faults: Mapping[str, str], cycle: int) -> None:
    """Write the files of a cycle that were set aside, with the reasons by path, as JSON lines."""
    letters = [
        {"reason": "file set aside", "file": path, "text": fault, "cycle": cycle} for path, fault in faults.items()
    ]
    lines = "".join(json.dumps(letter, ensure_ascii=False) + "\n" for letter in letters)
    storage.write_bytes(f"{folder_of(stream)}/{cycle:012d}-files/files.json", lines.encode())


def write_late_letters(
    rows: DataFrame, stream: Stream, losers: Mapping[str, Sequence[str]], storage: Storage, cycle: int
) -> None:
    """Write the rows of a stream's log that some queries lose, each with the names of these queries, as JSON lines.

    `losers` has by query the conditions, as Spark SQL, of the rows that it loses.
    """
    lost = [F.when(F.expr(" OR ".join(conditions)), F.lit(name)) for name, conditions in losers.items()]
    row = F.struct(*(F.col(column(i)).alias(each.name) for i, each in enumerate(stream.fields)))
    letters = rows.select(
        F.lit("late for some").alias("reason"),
        F.array_compact(F.array(*lost)).alias("queries"),
        F.lit(cycle).alias("cycle"),
        row.alias("row"),
    ).where(F.size("queries") > 0)
    _write(letters, storage, f"{folder_of(stream.name)}/{cycle:012d}-late-for-some")


def _write(letters: DataFrame, storage: Storage, path: str) -> None:
    letters.coalesce(1).write.mode("overwrite").json(storage.path(path))
    storage.persist(path)
