"""The Java process that Spark runs in: how it is started, where it writes what it logs, and how it ended.

    <project>/log/spark.log    what Spark logs, in files of at most 10 MB, of which the newest three are kept
    <project>/log/java.log     what Java itself prints, such as why it ended

A terminal shows weft's own sentences. Java's traces, of hundreds of lines each, are in these files.

Java starts in half the time with an archive of Spark's classes ("class data sharing"), and passes over one that is of
another Java or Spark. `weft warm-up` makes it: a process runs a few queries, and its Java writes down what it loaded.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from weft.files.atomic import private_folder
from weft.runtime.spark.engine_errors import EngineError

#: The setting with the options of the driver's Java.
OPTIONS = "spark.driver.extraJavaOptions"

#: Where log4j2 finds the path of the log, before and after Java has started.
_VARIABLE, _PROPERTY = "WEFT_LOG", "weft.log"

_TO_FILE = Path(__file__).with_name("log4j2_file.properties")
_TO_TERMINAL = Path(__file__).with_name("log4j2.properties")

#: A printed file is started over once it is longer than this.
_LONGEST = 10_000_000

#: How Java ends for want of memory: as we ask it to, and as Spark does when a task has found none.
_WITHOUT_MEMORY = (3, 52)

#: What is said then.
OUT_OF_MEMORY = (
    "Java ran out of memory: give it more with --conf spark.driver.memory=4g, or let a cycle take less with the "
    "stream's option maxFilesPerTrigger; a single row must fit into memory several times"
)


class _Log:
    """Where Spark logs in this process; None if that is on the terminal."""

    path: Path | None = None


def spark_log() -> Path | None:
    """Where Spark logs now; None if that is on the terminal."""
    return _Log.path


def start(settings: Mapping[str, str], log: Path | None) -> None:
    """Start Java with settings of Spark unless it runs, and have Spark log to a folder if one is given."""
    if SparkContext._gateway is not None:
        log_to(log)
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    if log is None:
        SparkContext._ensure_initialized(conf=conf)
        return
    private_folder(log)
    os.environ[_VARIABLE] = str(log / "spark.log")
    printed = log / "java.log"
    is_new = not printed.exists() or printed.stat().st_size > _LONGEST
    with printed.open("wb" if is_new else "ab") as out:
        begin = out.tell()
        try:
            gateway = launch_gateway(conf, {"stdout": out, "stderr": out})
        except (PySparkException, OSError) as error:
            raise EngineError(f"Java did not start: {_why_it_did_not_start(printed, begin, error)}") from error
    _Log.path = log / "spark.log"
    SparkContext._ensure_initialized(gateway=gateway)


def log_to(log: Path | None) -> None:
    """Have Spark log to the folder of another project from now on, if its Java was started for one."""
    if _Log.path is None or log is None or log / "spark.log" == _Log.path:
        return
    private_folder(log)
    jvm: Any = SparkContext._jvm
    jvm.java.lang.System.setProperty(_PROPERTY, str(log / "spark.log"))
    jvm.org.apache.logging.log4j.core.config.Configurator.reconfigure()
    _Log.path = log / "spark.log"


def option(log: Path | None) -> str:
    """What tells Java how Spark logs."""
    return f"-Dlog4j2.configurationFile={(_TO_TERMINAL if log is None else _TO_FILE).as_uri()}"


def end_of_java(patience: float = 0) -> str:
    """How Java has ended, as a sentence; nothing if it still runs after `patience` seconds."""
    gateway: Any = SparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None:
        return ""
    try:
        code = process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        return ""
    if code in _WITHOUT_MEMORY:
        return OUT_OF_MEMORY
    if code < 0:
        return (
            f"Java was killed by signal {-code}; the system does that when memory runs out. Nothing that was "
            "committed is lost: start again"
        )
    return f"Java ended with code {code}. Nothing that was committed is lost: start again"


def _why_it_did_not_start(printed: Path, begin: int, error: Exception) -> str:
    """The line of what Java has printed that says most."""
    with printed.open("rb") as file:
        file.seek(begin)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    if any("JAVA_HOME is not set" in line or "java: not found" in line or "/bin/java" in line for line in lines):
        return "it was not found; install Java 17 or newer, or set JAVA_HOME to where it is"
    if any("UnsupportedClassVersionError" in line for line in lines):
        return "it is too old; install Java 17 or newer, or set JAVA_HOME to where it is"
    for line in lines:
        thrown = re.match(
            r'(?:Exception in thread "main" |Error: |Caused by: )(?:[\w.$]+(?:Exception|Error): )?(.+)', line
        )
        if thrown:
            return f"{thrown.group(1).rstrip('.')} (see {printed})"
    return f"{lines[-1] if lines else error} (see {printed})"


# -- the archive of classes -------------------------------------------------------------------------------------------


def archive() -> Path:
    """Where the archive for this Java and this Spark is, or would be: it goes when its virtual environment goes."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(shutil.which("java") or "java")
    fits = hashlib.sha256(f"{java.resolve()} {pyspark.__file__}".encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "weft" / f"spark-{pyspark.__version__}-{fits}.jsa"


def archive_options(path: Path) -> str:
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
        work({OPTIONS: f'"-XX:ArchiveClassesAtExit={draft}" -Xlog:disable'})
        _end_java()
        if not draft.exists():
            raise EngineError("Java has written no archive of its classes; weft works without it, and starts slower")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _end_java() -> None:
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
