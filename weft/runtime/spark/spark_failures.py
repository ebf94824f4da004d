"""Why something failed, as one sentence for people, and whether a query may be the cause.

The traces of Spark and Java are in the project's log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream
from weft.algebra.secrets import shown
from weft.runtime.spark.engine_errors import EngineError, StorageError
from weft.runtime.spark.java import OUT_OF_MEMORY, end_of_java, spark_log

#: How Spark names the file at which a job has failed.
_FILE = re.compile(r"while reading file (\S+?)\.?(?:\s|$)")

#: Seconds after which the thread of a streaming query is looked at, in case that it has ended without a word.
_LOOK_AGAIN = 5

#: Seconds that Java may take to go after its connections have broken.
_GOING = 5

#: What errors of Spark say when something else than a query has failed.
_OTHERS_FAULTS = (
    "FAILED_READ_FILE",
    "while reading file",
    "No space left on device",
    "Disk quota exceeded",
    "OutOfMemoryError",
    "ExecutorLost",
    "executor lost",
    "FetchFailed",
    "SparkContext was shut down",
    "stopped SparkContext",
    "cancelled",
    "InterruptedException",
    "Answer from Java side is empty",
)


def reason_of(error: BaseException) -> str:
    """The innermost cause of an error, in one line and without secrets."""
    return shown(_innermost(error))


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None and (isinstance(error, StorageError) or not isinstance(error, EngineError)):
        error = error.__cause__
    if isinstance(error, EngineError):
        return _one_line(str(error))
    java = _java_cause(error)
    if java:
        return java
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    said = _first_line(str(error))
    if isinstance(error, PySparkException):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _java_cause(error: BaseException) -> str:
    """The message of the innermost exception of Java behind an error; nothing if there is none."""
    java: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if java is None:
        return ""
    try:
        while java.getCause() is not None:
            java = java.getCause()
        return _first_line(str(java.getMessage() or java.toString()))
    except Exception:
        # The JVM may be gone by now. What Python knows of the error has to do.
        return ""


def _first_line(text: str) -> str:
    return _one_line(text.strip().split("\n")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def is_attributable(error: BaseException) -> bool:
    """Whether a failure may be that of a query."""
    if isinstance(error, PySparkException | Py4JJavaError):
        said = str(error)
        return not any(each in said for each in _OTHERS_FAULTS)
    # OSErrors are of the disk, and Py4JErrors of the connection to Java.
    return isinstance(error, Exception) and not isinstance(error, StorageError | MemoryError | OSError | Py4JError)


def failure_of(error: BaseException, streams: Iterable[Stream] = (), what: str = "Spark stopped") -> EngineError:
    """The error as weft reports it: why Java ended, or the innermost cause, with the file and the stream."""
    if isinstance(error, EngineError):
        return error
    ended = end_behind(error)
    if ended:
        return EngineError(_with_log(ended))
    reason = reason_of(error)
    said = f"{reason} {error}"
    if "OutOfMemoryError" in said or "Java heap space" in said:
        return EngineError(_with_log(OUT_OF_MEMORY))
    file = failed_file(error)
    for each in streams:
        folder = dict(each.options).get("path", "")
        if folder and f"/{folder.removeprefix('file:').strip('/')}/" in file:
            what = f"stream '{each.name}' cannot be read"
            break
    if file and file not in reason:
        reason = f"{file}: {reason}"
    return EngineError(_with_log(f"{what}: {reason}"))


def end_behind(error: BaseException | None) -> str:
    """How Java has ended, if it has; a connection to it breaks a moment before the process is gone."""
    return end_of_java(_GOING if isinstance(error, Py4JNetworkError | OSError | EOFError) else 0)


def failed_file(error: BaseException) -> str:
    """The file at which a job has failed, if Spark names one."""
    cause: BaseException | None = error
    while cause is not None:
        found = _FILE.search(str(cause))
        if found:
            return plain_path(unquote(found.group(1)))
        cause = cause.__cause__
    return ""


def plain_path(path: str) -> str:
    """The path of a file, written in one way."""
    return re.sub(r"^file:/+", "file:/", path)


def _with_log(sentence: str) -> str:
    log = spark_log()
    return sentence if log is None else f"{sentence} (the whole trace is in {log})"


@contextmanager
def failing_in_one_sentence(what: str) -> Iterator[None]:
    """Raise errors of Spark inside as EngineError, which says `what` has happened and why."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure_of(error, what=what) from error


def end_of(query: StreamingQuery) -> BaseException | None:
    """Wait until a streaming query has ended, and return what ended it; None if it was asked to stop."""
    running: Any = query
    try:
        while not query.awaitTermination(_LOOK_AGAIN):
            if not running._jsq.streamingQuery().queryExecutionThread().isAlive():
                return query.exception() or EngineError(_with_log("Spark's streaming thread has ended without a word"))
    except Exception as error:
        return error
    return None
