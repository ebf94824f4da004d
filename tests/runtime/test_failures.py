"""What ends Spark ends `wait` as well, with the cause in one sentence."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.projects import PATIENCE, write_rows
from weft.algebra import Field, Stream
from weft.algebra.types import BIGINT
from weft.loom import Loom
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.session import check_master
from weft.runtime.spark.spark_failures import failure_of

ORDINAL = "CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n"
SUM = "CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS total FROM s [ROWS 10 SLIDE 10]"


@pytest.mark.spark
def test_a_fatal_error_in_the_streaming_thread_ends_the_wait(loom: Loom, tmp_path: Path) -> None:
    write_rows(tmp_path / "data", "a.json", [{"n": 1, "v": 5}])
    loom.execute(f"{ORDINAL} USING json OPTIONS (path '{tmp_path / 'data'}'); {SUM}")
    loom.start()
    running: Any = loom._engine._query  # type: ignore[union-attr]
    # Java throws ThreadDeath in that thread: an error that Spark's loop does not take for a failed batch.
    running._jsq.streamingQuery().queryExecutionThread().stop()
    with pytest.raises(EngineError, match="Spark"):
        assert loom.wait(PATIENCE), "the wait goes on"
    assert not loom._engine.is_running  # type: ignore[union-attr]


def test_a_failed_job_is_one_sentence_with_the_stream_and_the_file() -> None:
    stream = Stream("s", (Field("n", BIGINT),), "n", 0, "xml", (("path", "/data/in"),))
    said = "An error occurred.\nEncountered error while reading file file:///data/in/a%20b.xml. SQLSTATE: KD001\n\tat x"
    assert str(failure_of(RuntimeError(said), [stream])).startswith(
        "stream 's' cannot be read: file:/data/in/a b.xml: RuntimeError: An error occurred."
    )
    elsewhere = failure_of(RuntimeError("it went wrong\n\tat x"), [stream])
    assert str(elsewhere).startswith("Spark stopped: RuntimeError: it went wrong")
    assert "\n" not in str(elsewhere)


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("sc://host:15002", "does not run on Spark Connect"),
        ("nonsense", "'nonsense' is no master of Spark"),
        ("spark://127.0.0.1:{port}", "no master of Spark answers at spark://127.0.0.1:"),
    ],
)
def test_a_master_that_cannot_be_is_refused_before_java_starts(master: str, said: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(EngineError, match=said):
            check_master(master.format(port=free.getsockname()[1]), {})


@pytest.mark.parametrize("master", ["local", "local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host:443"])
def test_masters_of_spark_are_taken(master: str) -> None:
    check_master(master, {})
