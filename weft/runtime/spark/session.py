"""The one place that builds a SparkSession.

weft works in sessions of its own: a session that the caller made keeps its settings and its views. The master, jars and
`spark.*` settings are the user's; the defaults here are what measured best for many small cycles on one machine, and
give way to them. Settings that answers depend on have one value everywhere (`weft/sql/settings.py`).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from weft.runtime.spark import java
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.spark_failures import failing_in_one_sentence
from weft.sql.settings import FIXED_VALUES, fixed_refusal

__all__ = ["SparkSession", "compile_plans", "in_few_tasks", "in_session", "own_session", "session", "union_of"]

_ALWAYS = {
    # The rows of a cycle go to a folder for each stream and reason: a writer for each is cheaper than to sort them.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Adaptive execution re-plans every small job and adds threads with each micro-batch.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A stream's partials are many groups of few rows each. What one task reads is grouped by it, without a shuffle and
    # through the fast map, which is made large enough for them.
    "spark.sql.optimizer.singleTaskExecution.enabled": "true",
    "spark.sql.codegen.aggregate.map.twolevel.partialOnly": "false",
    "spark.sql.codegen.aggregate.fastHashMap.capacityBit": "18",
    # Spark would keep the listing of every folder that was ever read, each for the one plan that it was made for.
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    # Logs have tens of small files; listing them needs no Spark job.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}

_LOCAL = {
    "spark.ui.enabled": "false",
    # What cycles leave behind fills the whole heap before Java looks through all of it, unless Spark asks for that.
    "spark.cleaner.periodicGC.interval": "10min",
    # Spark keeps the newest jobs, and the plans of the newest executions as text, for its pages, also without them.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.maxPlanStringLength": "10000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
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
    # Files count when a commit names them, so the cheapest way of putting them in place will do.
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}

_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_FACTORY = "spark.sql.codegen.factoryMode"
#: Options of Java, by words in those that the user chooses in their place.
_JAVA = {
    # Spark plans every cycle with thousands of methods, each of them called a few times. To compile all that as early
    # as usual takes more time than it saves for the first hundreds of cycles; what rows go through is hot all the same.
    "CompileThreshold|Tiered": "-XX:CompileThresholdScaling=5",
    # A Java that has run out of memory may go on with some of its threads dead, and never answer.
    "OnOutOfMemoryError": "-XX:+ExitOnOutOfMemoryError",
    # Spark's classes take this much in the end; Java would collect all garbage each time it needs more for them.
    "MetaspaceSize": "-XX:MetaspaceSize=256m",
}

_MASTERS = ("local", "local[", "local-cluster[", "spark://", "yarn", "k8s://")

#: Seconds that a master has to answer: Spark itself needs a minute to give one up.
_MASTER_PATIENCE = 5


def session(
    master: str | None = None, settings: Mapping[str, str] | None = None, log: Path | None = None
) -> SparkSession:
    """A new session for weft, on the Spark of this process if it runs, otherwise on one that is started now.

    `master` is `local[*]` unless given. `settings` are `spark.*` settings and override every default; EngineError
    is raised if answers depend on one of them. `log` is the folder that Spark logs to, in place of the terminal.
    """
    for name in settings or {}:
        refused = fixed_refusal(name)
        if refused is not None:
            raise EngineError(refused)
    master = master or "local[*]"
    local = master.startswith("local")
    chosen = {**_ALWAYS, **(_LOCAL if local else {})}
    if local:
        cores = master.partition("[")[2].rstrip("]").split(",")[0]
        chosen["spark.sql.shuffle.partitions"] = cores if cores.isdigit() else str(os.cpu_count() or 1)
    chosen |= settings or {}
    if SparkContext._active_spark_context is not None:
        java.log_to(log)
        running = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
        return own_session(running, chosen)
    return own_session(_started(master, chosen, log), {})


def own_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session beside another one: with the same settings and those given, and with views and functions of its own."""
    started_with = dict(spark.sparkContext.getConf().getAll())
    later = {name: value for name, value in spark.conf.getAll.items() if value != started_with.get(name)}
    free = {name: value for name, value in later.items() if fixed_refusal(name) is None}
    options = {**free, **settings, **FIXED_VALUES}
    own = SparkSession(spark.sparkContext, spark._jsparkSession.newSession(), options)
    for name in own.conf.getAll:
        if fixed_refusal(name) is not None and name not in FIXED_VALUES:
            # It comes from the settings that Spark was started with.
            own.conf.unset(name)
    return own


def in_session(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A DataFrame that another session has made, as one of this session."""
    if frame.sparkSession is spark:
        return frame
    jvm: Any = spark.sparkContext._jvm
    plan = frame._jdf.queryExecution().analyzed()
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def _started(master: str, chosen: dict[str, str], log: Path | None) -> SparkSession:
    """The first session of a Spark that is started now."""
    # Spark's launcher is a Java of its own that only puts a command line together.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # PySpark itself reads the interpreter of executors from the environment alone.
    chosen_python = chosen.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_PYTHON"] = chosen_python
    own = chosen.get(java.OPTIONS, "")
    options = [java.option(log), own]
    options += [option for words, option in _JAVA.items() if not any(word in own for word in words.split("|"))]
    if master.startswith("local") and "-XX:+Use" not in own:
        # Cycles leave much garbage and have no need of short pauses; collecting beside them costs a tenth of all time.
        options.append("-XX:+UseParallelGC")
    if "Archive" not in own:
        options.append(java.archive_options(java.archive()))
    chosen = {**chosen, java.OPTIONS: " ".join(option for option in options if option)}
    builder = SparkSession.builder.appName("weft").master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with _own_interrupt(), failing_in_one_sentence("Spark did not start"):
        check_master(master, chosen)
        java.start({"spark.app.name": "weft", "spark.master": master, **chosen}, log)
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR" if java.spark_log() is None else "WARN")
    return spark


def check_master(master: str, settings: Mapping[str, str]) -> None:
    """Refuse a master that weft cannot run on, or that does not answer."""
    if master.startswith("sc://") or "spark.remote" in settings or "SPARK_REMOTE" in os.environ:
        raise EngineError(
            "weft does not run on Spark Connect (sc://, spark.remote, SPARK_REMOTE): it needs Spark's driver "
            "in its own process; give a master such as local[*], spark://host:7077, yarn or k8s://…"
        )
    if not any(master == kind or (kind[-1] in "[/" and master.startswith(kind)) for kind in _MASTERS):
        raise EngineError(f"'{master}' is no master of Spark; write local[*], spark://host:7077, yarn or k8s://…")
    if master.startswith("spark://") and not any(_answers(each) for each in master[len("spark://") :].split(",")):
        raise EngineError(f"no master of Spark answers at {master}; check the address, and that the master runs")


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _MASTER_PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep what Ctrl-C does: PySpark would have it cancel all jobs, and with them the cycle that is to be finished."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def compile_plans(spark: SparkSession, wanted: bool) -> None:
    """Have Spark compile the plans that follow to bytecode, or interpret them, unless it was started with a choice.

    The plans of a cycle hold its clocks as constants, so each of them would be compiled again, for about as long as it
    takes to interpret a hundred thousand rows.
    """
    if _is_chosen(spark.sparkContext):
        return
    spark.conf.set(_WHOLE_STAGE, str(wanted).lower())
    spark.conf.set(_FACTORY, "FALLBACK" if wanted else "NO_CODEGEN")


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames, which have the same columns."""
    # Spark looks through every union that is made: one after the other would take time by the square of their number.
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return union_of(frames[:half]).unionAll(union_of(frames[half:]))


def in_few_tasks(rows: DataFrame, branches: int) -> DataFrame:
    """Return the rows of a union of some branches, computed by few tasks if there are many branches.

    Every task is sent the plans of all branches: a task for each of them would take time by the square of their number.
    """
    at_once = rows.sparkSession.sparkContext.defaultParallelism
    return rows.coalesce(at_once) if branches > 2 * at_once else rows


@cache
def _is_chosen(context: SparkContext) -> bool:
    return bool(context.getConf().contains(_WHOLE_STAGE))
