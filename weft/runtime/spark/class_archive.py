"""Spark's classes as an archive, so that Java starts in half the time.

Spark loads and checks some fifteen thousand classes before it has run anything. Java can do that once and keep the
result in a file that later processes map into memory ("class data sharing"). The file belongs to one Java and to one
installation of Spark; Java looks whether it fits, and goes on without it if it does not.

The archive is made on request (`weft warm-up`): a process runs a few queries, and its Java writes down what it has
loaded on its way out.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
from pyspark import SparkContext

from weft.runtime.failures.errors import EngineError

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def archive() -> Path:
    """Where the archive for this Java and this Spark is, or would be: it goes when its virtual environment goes."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    fits = hashlib.sha256(f"{java.resolve()} {pyspark.__file__}".encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "weft" / f"spark-{pyspark.__version__}-{fits}.jsa"


def java_options(path: Path) -> str:
    """What makes Java use an archive; nothing if there is none."""
    # An archive that does not fit is nothing to worry a user with.
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
    return f'"-XX:SharedArchiveFile={path}" {quiet}' if path.exists() else ""


def make_archive(path: Path, work: Callable[[dict[str, str]], None]) -> None:
    """Make an archive of what some work loads: it is called with the settings for its Spark session, the first here."""
    if SparkContext._gateway is not None:
        raise EngineError("Spark runs in this process already: make the archive in a process of its own")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        work({_JAVA_OPTIONS: f'"-XX:ArchiveClassesAtExit={draft}" -Xlog:disable'})
        _end_java()
        if not draft.exists():
            raise EngineError("Java has written no archive of its classes; weft works without it, and starts slower")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _end_java() -> None:
    """Stop Spark and wait until Java is gone: it writes the archive last."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context.stop()
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None
