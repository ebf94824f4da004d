"""What the executors of a cluster have in their Python, found out at the start.

Windows over very many keys are answered on the executors (`woven/executors.py`), which need weft and what it imports
there. Without this look a cluster that lacks it would run well until the day its keys no longer fit into the driver.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from weft.runtime.failures.errors import EngineError
from weft.runtime.failures.reasons import reason_of

#: What answering windows imports on an executor.
_NEEDED = ("weft", "numpy", "numba", "pyarrow")
#: Tasks for each core. All cores get one at once, so every executor gets some.
_TASKS = 2

_ADVICE = (
    "install it there, or ship an environment with spark.archives and PYSPARK_PYTHON, or SET kernels = driver, which "
    "needs no Python on executors; see 'On a cluster' in docs/running.md"
)


@dataclass(frozen=True)
class Report:
    """The Python of one executor: where it is, and the version, or the problem, of each package that is needed."""

    host: str
    python: str
    versions: Mapping[str, str | None]


def check_executors(spark: SparkSession, kernels: str) -> None:
    """Raise EngineError if an executor lacks what it needs to answer windows, and windows may go there."""
    master = spark.sparkContext.master
    if kernels == "driver" or (master.startswith("local") and not master.startswith("local-cluster")):
        return
    tasks = _TASKS * int(spark.sparkContext.defaultParallelism)
    try:
        found = spark.sparkContext.parallelize(range(tasks), tasks).map(_reporting()).collect()
    except (PySparkException, Py4JError) as error:
        raise EngineError(
            f"the executors cannot run Python ({spark.sparkContext.pythonExec}): {reason_of(error)}; {_ADVICE}"
        ) from error
    problem = problem_in([Report(*each) for each in found], importlib.metadata.version("weft"))
    if problem:
        raise EngineError(problem)


def problem_in(reports: Iterable[Report], version: str) -> str:
    """What executors lack that the driver, with this version of weft, needs there; nothing if they lack nothing."""
    for each in sorted(set(map(_hashable, reports)), key=str):
        host, python, versions = each
        for package, found in versions:
            if found is None:
                return f"the Python of executors on {host} ({python}) has no {package}: {_ADVICE}"
            if package == "weft" and found not in ("", version):
                return (
                    f"executors on {host} ({python}) have weft {found}, and the driver has {version}; "
                    f"they need the same version: {_ADVICE}"
                )
    return ""


def _hashable(report: Report) -> tuple[str, str, tuple[tuple[str, str | None], ...]]:
    return report.host, report.python, tuple((package, report.versions[package]) for package in _NEEDED)


def _reporting() -> Any:
    """A function that reports on the Python it runs in. It is sent as code, since executors may lack this module."""
    needed = _NEEDED

    def report(task: int) -> tuple[str, str, dict[str, str | None]]:
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
        return socket.gethostname(), sys.executable, found

    return report
