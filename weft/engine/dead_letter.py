"""Rows that took part in nothing, with the reason: never dropped silently."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.engine.rows import CORRUPT, column, struct_type
from weft.engine.storage import Storage

FOLDER = "dead-letter"


def write_dead_letters(
    spark: SparkSession, storage: Storage, stream: Stream, index: int, path: str, cycle: int
) -> None:
    """Write the rows of a cycle that were set aside as JSON lines, under the cycle's number."""
    schema = f"s{index} {struct_type(stream.fields)}, {CORRUPT} STRING, reason STRING"
    kept = spark.read.schema(schema).parquet(storage.path(f"{path}/stream={index}")).where(F.col("reason") != "none")
    row = F.struct(*(F.col(f"s{index}.{column(i)}").alias(each.name) for i, each in enumerate(stream.fields)))
    letters = kept.select(F.col("reason"), F.col(CORRUPT).alias("text"), F.lit(cycle).alias("cycle"), row.alias("row"))
    letters.coalesce(1).write.mode("overwrite").json(storage.path(f"{FOLDER}/{stream.name}/{cycle:012d}"))
