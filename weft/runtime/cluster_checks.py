"""What is checked of a cluster: that executors have the Python packages they need, and share the state directory.

Windows over very many keys are answered on the executors (`stages/windows/executors.py`). Without this check a cluster
that lacks weft there would run well until its keys no longer fit into the driver; and executors on a machine that does
not share the state directory would write to a disk of their own.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from weft.runtime.spark.engine_errors import EngineError, StorageError
from weft.runtime.spark.spark_failures import reason_of
from weft.runtime.state.storage import Storage

#: What answering windows imports on an executor.
_NEEDED = ("weft", "numpy", "numba", "pyarrow")
#: Tasks for each core. All cores get one at once, so every executor gets some.
_TASKS = 2

_ADVICE = (
    "install it there, or ship an environment with spark.archives and PYSPARK_PYTHON, or SET kernels = driver, which "
    "needs no Python on executors; see 'On a cluster' in docs/running.md"
)


#: The Python of an executor: its host, where it is, and each package that is needed with its version, None without it.
ExecutorPython: TypeAlias = tuple[str, str, tuple[tuple[str, str | None], ...]]


def _is_one_process(spark: SparkSession) -> bool:
    """Whether executors are in the driver's own process, and see what it sees."""
    master = spark.sparkContext.master
    return master.startswith("local") and not master.startswith("local-cluster")


def check_executors(spark: SparkSession, kernels: str) -> None:
    """Raise EngineError if an executor lacks what it needs to answer windows, and windows may go there."""
    if kernels == "driver" or _is_one_process(spark):
        return
    tasks = _TASKS * int(spark.sparkContext.defaultParallelism)
    try:
        found = spark.sparkContext.parallelize(range(tasks), tasks).map(_reporting()).collect()
    except (PySparkException, Py4JError) as error:
        raise EngineError(
            f"the executors cannot run Python ({spark.sparkContext.pythonExec}): {reason_of(error)}; {_ADVICE}"
        ) from error
    problem = problem_in(found, importlib.metadata.version("weft"))
    if problem:
        raise EngineError(problem)


def problem_in(reports: Iterable[ExecutorPython], version: str) -> str:
    """What executors lack that the driver, with this version of weft, needs there; nothing if they lack nothing."""
    for host, python, versions in sorted(set(reports), key=str):
        for package, found in versions:
            if found is None:
                return f"the Python of executors on {host} ({python}) has no {package}: {_ADVICE}"
            if package == "weft" and found not in ("", version):
                return (
                    f"executors on {host} ({python}) have weft {found}, and the driver has {version}; "
                    f"they need the same version: {_ADVICE}"
                )
    return ""


def _reporting() -> Any:
    """A function that reports on the Python it runs in. It is sent as code, since executors may lack this module."""
    needed = _NEEDED

    def report(task: int) -> tuple[str, str, tuple[tuple[str, str | None], ...]]:
        import importlib
        import socket
        import sys
        from importlib import metadata

        found: dict[str, str | None] = {}
        for package in needed:
            try:
                importlib.import_module(package)
            except ImportError:
                found[package] = None
                continue
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                # It came as an archive (spark.submit.pyFiles), which says nothing of its version.
                found[package] = ""
        return socket.gethostname(), sys.executable, tuple(found.items())

    return report


_FOLDER = "probe"


class StorageProbe:
    """Looks whether the driver and all executors share the state directory; once for each set of executors."""

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._spark = spark
        self._storage = storage
        self._executors: frozenset[str] = frozenset()

    def check(self) -> None:
        """Raise StorageError if an executor that was not probed before does not share the directory."""
        if _is_one_process(self._spark):
            return
        # The driver is among them.
        infos = self._spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
        running = frozenset(f"{each.host()}:{each.port()}" for each in infos)
        if running - self._executors:
            self._probe()
            self._executors = running

    def _probe(self) -> None:
        """Exchange files with all executors. Spark does it in Java: executors may have no Python."""
        folder, token = f"{_FOLDER}/{token_hex(8)}", token_hex(16)
        tasks = _TASKS * int(self._spark.sparkContext.defaultParallelism)
        spark = self._spark.newSession()
        # A task for each line, and for each file.
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", tasks)
        spark.conf.set("spark.sql.optimizer.singleTaskExecution.enabled", "false")
        lines = sorted(f"{token} {task}" for task in range(tasks))
        rows = spark.range(0, tasks, 1, tasks).select(F.concat_ws(" ", F.lit(token), "id").alias("value"))
        try:
            for task, line in enumerate(lines):
                self._storage.write_bytes(f"{folder}/driver/{task}", line.encode())
            with self._failing("an executor cannot read what the driver has written"):
                read = [row.value for row in spark.read.text(self._storage.path(f"{folder}/driver")).collect()]
            if sorted(read) != lines:
                raise self._not_shared("an executor reads other files than the driver has written")
            with self._failing("an executor cannot write to it"):
                rows.write.text(self._storage.path(f"{folder}/executors"))
            names = [name for name in self._storage.names(f"{folder}/executors") if name.startswith("part-")]
            files = [self._storage.read_bytes(f"{folder}/executors/{name}") for name in names]
            written = b"".join(files).decode().splitlines()
            if sorted(written) != lines:
                raise self._not_shared(f"the driver finds {len(written)} of {tasks} files that executors have written")
        finally:
            self._storage.delete(_FOLDER)

    @contextmanager
    def _failing(self, wrong: str) -> Iterator[None]:
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            raise self._not_shared(wrong) from error

    def _not_shared(self, wrong: str) -> StorageError:
        return StorageError(
            f"{self._storage.root} is not shared by the driver and all executors ({wrong}): the project must be in a "
            "directory that all machines share, under one path; see 'On a cluster' in docs/running.md"
        )
