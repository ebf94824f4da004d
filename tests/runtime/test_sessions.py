"""weft works in a session of its own: settings of the caller, of the machine or of a statement change no answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.runtime.projects import rows_of, run_to_the_end, write_rows
from weft.loom import Loom
from weft.runtime.spark.engine_errors import EngineError
from weft.runtime.spark.session import session

pytestmark = pytest.mark.spark

#: Settings of a caller under which other answers would come.
CALLERS = {
    "spark.sql.session.timeZone": "Europe/Berlin",
    "spark.sql.variable.substitute": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.shuffle.partitions": "3",
}

STREAM = """
    CREATE STREAM s (ts TIMESTAMP, x BIGINT, t STRING) WATERMARK FOR ts AS ts USING json OPTIONS (path '{path}');
"""


@pytest.fixture
def caller(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the caller, which `builder.getOrCreate` gives, with settings and a view of its own."""
    caller = SparkSession.builder.getOrCreate()
    before = {name: caller.conf.get(name, None) for name in CALLERS}
    for name, value in CALLERS.items():
        caller.conf.set(name, value)
    caller.range(7).createOrReplaceTempView("weft_1")
    yield caller
    caller.catalog.dropTempView("weft_1")
    for name, known in before.items():
        if known is None:
            caller.conf.unset(name)
        else:
            caller.conf.set(name, known)


def test_a_session_of_the_caller_changes_no_answer_and_keeps_what_it_has(
    caller: SparkSession, loom: Loom, tmp_path: Path
) -> None:
    texts = ["${env:HOME}", "/home/me", r"a\b", "it's", "plain"]
    write_rows(tmp_path / "in", "0.json", [{"ts": "2024-01-01T12:00:00Z", "x": n, "t": t} for n, t in enumerate(texts)])
    loom.execute(STREAM.format(path=tmp_path / "in"))
    taken = "t IN ('${env:HOME}', 'a\\\\b', 'it\\'s')"
    for name, sharing in (("shared", ""), ("alone", "SHARING OFF")):
        loom.execute(f"CREATE CONTINUOUS QUERY {name} {sharing} AS SELECT x, HOUR(ts) AS h FROM s WHERE {taken}")
        loom.execute(
            f"CREATE CONTINUOUS QUERY counted_{name} {sharing} AS "
            f"SELECT t, COUNT(*) AS n, MAX(HOUR(ts)) AS h FROM s WHERE {taken} GROUP BY t"
        )
    run_to_the_end(loom)
    for name in ("shared", "alone"):
        assert rows_of(loom.results(name)) == [(0, 12), (2, 12), (3, 12)]
        assert rows_of(loom.results(f"counted_{name}")) == sorted([(texts[n], 1, 12) for n in (0, 2, 3)], key=repr)
    assert {name: caller.conf.get(name) for name in CALLERS} == CALLERS
    assert caller.table("weft_1").count() == 7


def test_a_dataframe_of_the_caller_means_what_it_means_to_the_caller(
    caller: SparkSession, loom: Loom, tmp_path: Path
) -> None:
    """Its text is a time of Berlin; what weft does with that instant is done in UTC."""
    write_rows(tmp_path / "in", "0.json", [{"at": "2024-01-01 12:30:00"}])
    frame = caller.readStream.schema("at STRING").json(str(tmp_path / "in"))
    loom.stream("s", frame.select(F.to_timestamp("at").alias("ts")), clock="ts", watermark="0 seconds")
    loom.table("t", caller.sql("SELECT id, timestamp'2024-01-01 00:30:00' AS since FROM range(1)"))
    loom.execute(
        "CREATE CONTINUOUS QUERY q AS SELECT HOUR(s.ts) AS h, CAST(s.ts AS STRING) AS t, CAST(t.since AS STRING) AS b "
        "FROM s, t"
    )
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(11, "2024-01-01 11:30:00", "2023-12-31 23:30:00")]
    assert {name: caller.conf.get(name) for name in CALLERS} == CALLERS


@pytest.mark.parametrize("sharing", ["", "SHARING OFF"])
def test_a_negative_zero_in_an_orc_file_is_zero(loom: Loom, tmp_path: Path, sharing: str) -> None:
    (tmp_path / "in").mkdir()
    orc.write_table(pa.table({"n": pa.array([1, 2], pa.int64()), "x": [-0.0, -0.0]}), tmp_path / "in" / "0.orc")
    loom.execute(
        "CREATE STREAM s (n BIGINT, x DOUBLE) WATERMARK FOR n AS n "
        f"USING orc OPTIONS (path '{tmp_path / 'in'}');"
        f"CREATE CONTINUOUS QUERY q {sharing} AS SELECT n FROM s WHERE x = 0.0"
    )
    run_to_the_end(loom)
    assert rows_of(loom.results("q")) == [(1,), (2,)]


def test_a_setting_that_answers_depend_on_is_refused_by_name(spark: SparkSession, loom: Loom) -> None:
    loom.execute("CREATE STREAM s (value BIGINT) WATERMARK FOR value AS value USING rate")
    with pytest.raises(EngineError, match=r"^spark\.sql\.session\.timeZone cannot be set: answers are defined in UTC$"):
        loom.start(settings={"spark.sql.session.timeZone": "Asia/Tokyo"})
    with pytest.raises(EngineError, match=r"^SPARK\.sql\.ANSI\.enabled cannot be set: "):
        session(settings={"SPARK.sql.ANSI.enabled": "false"})


def test_a_setting_with_capitals_takes_effect(spark: SparkSession, loom: Loom) -> None:
    loom.execute("SET spark.sql.execution.arrow.maxRecordsPerBatch = 1234")
    assert loom.catalog.settings().stored == {"spark.sql.execution.arrow.maxRecordsPerBatch": "1234"}
    (shown,) = loom.execute("SHOW SETTINGS")
    assert ("spark.sql.execution.arrow.maxRecordsPerBatch", "1234") in shown.rows
    own = session(settings={name: str(value) for name, value in loom.catalog.settings().stored.items()})
    assert own.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "1234"


def test_the_files_of_a_project_are_private_whatever_the_umask(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark writes has other permissions, and lies in folders that nobody else can enter."""
    before = os.umask(0)
    try:
        write_rows(tmp_path / "in", "0.json", [{"n": 1}, {"n": "x"}])
        with Loom.open(tmp_path / "projects" / "one") as loom:
            loom.execute(
                f"CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING json OPTIONS (path '{tmp_path / 'in'}');"
                "CREATE CONTINUOUS QUERY q AS SELECT n FROM s;"
                "CREATE CONTINUOUS QUERY sub INTO subscribers AS SELECT n FROM s"
            )
            run_to_the_end(loom)
            assert rows_of(loom.results("sub")) == [(1,)]
            project = loom.directory
            held = {each.name: each.stat().st_mode & 0o777 for each in (project.parent, project, *project.iterdir())}
            delivered = {each.stat().st_mode & 0o777 for each in (project / "delivery").rglob("*") if each.is_file()}
    finally:
        os.umask(before)
    assert {"state", "delivery", "catalog.sqlite", "catalog.sqlite-wal", "writer.lock"} <= held.keys()
    folders = {each for each in held if not each.startswith(("catalog", "writer"))}
    assert {name: mode for name, mode in held.items() if mode != (0o700 if name in folders else 0o600)} == {}
    assert delivered == {0o600}
