"""The Java process that Spark runs in: how it is started, where it writes what it logs, and how it ended.

    <project>/log/spark.log    what Spark logs, in files of at most 10 MB, of which the newest three are kept
    <project>/log/java.log     what Java itself prints, such as why it ended

A terminal shows weft's own sentences. Java's traces, of hundreds of lines each, are in these files.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from weft.files.private_files import private_folder
from weft.runtime.failures.errors import EngineError

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
