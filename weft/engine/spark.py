"""The one place that builds a SparkSession.

Everything a user would set stays the user's: the master, jars, and any `spark.*` setting. The defaults here are what
measured best for many small cycles on one machine; they give way to any setting passed in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

_ALWAYS = {
    # Answers are defined in UTC (docs/semantics.md).
    "spark.sql.session.timeZone": "UTC",
    # weft closes windows itself.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Adaptive execution re-plans every small job and adds threads with each micro-batch.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Sources are known by name, so that streams can come and go between runs.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
    # Logs have tens of small files; listing them needs no Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Without Hadoop's native library the checksumming file system forks a process for each file it creates.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.parquet.compression.codec": "lz4",
}


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The SparkSession of this process: the running one if there is one, otherwise a new one.

    `master` is `local[*]` unless given. `settings` are `spark.*` settings and override every default.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = master or "local[*]"
    local = master.startswith("local")
    defaults = {**_ALWAYS, **(_LOCAL if local else {})}
    if local:
        defaults["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    builder = SparkSession.builder.appName("weft").master(master)
    for name, value in {**defaults, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _local_cores(master: str) -> int:
    inside = master.partition("[")[2].rstrip("]").split(",")[0]
    return int(inside) if inside.isdigit() else (os.cpu_count() or 1)
