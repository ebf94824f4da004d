"""What Spark and Java say when they fail, as one sentence for people. The traces are in the project's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from weft.algebra import Stream
from weft.runtime.failures.errors import EngineError
from weft.runtime.failures.reasons import reason_of
from weft.runtime.spark.java import OUT_OF_MEMORY, end_of_java, spark_log

#: How Spark names the file at which a job has failed.
_FILE = re.compile(r"while reading file (\S+?)\.?(?:\s|$)")

#: Seconds after which the thread of a streaming query is looked at, in case that it has ended without a word.
_LOOK_AGAIN = 5

#: Seconds that Java may take to go after its connections have broken.
_GOING = 5


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
    owner = next((each for each in streams if _is_in(file, dict(each.options).get("path", ""))), None)
    if owner is not None:
        what = f"stream '{owner.name}' cannot be read"
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


def _is_in(file: str, folder: str) -> bool:
    return bool(folder) and f"/{folder.removeprefix('file:').strip('/')}/" in file


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
