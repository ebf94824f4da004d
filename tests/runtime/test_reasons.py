"""Why something failed: the innermost cause, in one line."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from weft.runtime.spark.engine_errors import SourceError, StorageError
from weft.runtime.spark.spark_failures import reason_of


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device", "/mnt/x"), "No space left on device: /mnt/x"),
        # What the state would lose is of no interest where a sink has failed.
        (
            caused(StorageError("x could not be written; nothing was committed"), OSError(13, "Denied", "x")),
            "Denied: x",
        ),
        (caused(SourceError("table 't' has no such column"), KeyError("v")), "table 't' has no such column"),
        (PySparkException("[DIVIDE_BY_ZERO] Division by zero.\nSQLSTATE 22012"), "[DIVIDE_BY_ZERO] Division by zero."),
        (RuntimeError("full"), "RuntimeError: full"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("nats://usr:hunter4@host:1 is gone"), "RuntimeError: nats://***@host:1 is gone"),
    ],
)
def test_the_reason_is_the_innermost_cause_in_one_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
