"""Why something failed, as one line for people, and whether a query may be the cause."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from weft.algebra.secrets import shown
from weft.runtime.failures.errors import EngineError, StorageError

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
    if isinstance(error, (StorageError, MemoryError)) or not isinstance(error, Exception):
        return False
    if isinstance(error, (PySparkException, Py4JJavaError)):
        said = str(error)
        return not any(each in said for each in _OTHERS_FAULTS)
    # Arrow's errors of values are OSErrors in part; all others of these are of the disk or of the connection to Java.
    return isinstance(error, pa.ArrowInvalid) or not isinstance(error, (OSError, Py4JError))
