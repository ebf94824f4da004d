"""A project that limits what statements may name: nothing leads out, and no statement lifts the limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from weft.algebra import Stream, Table
from weft.cli import app
from weft.loom import Loom
from weft.sql import Code, SqlError


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loom]:
    """A project whose statements may name `data` and `out` in the directory of the process."""
    for name in ("data", "out", "outside", "data-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "data" / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(app, ["init", "project", "--allow", "data", "--allow", str(tmp_path / "out") + "/"])
    assert made.exit_code == 0, made.output
    with Loom.open(tmp_path / "project") as loom:
        loom.execute("CREATE STREAM r (value BIGINT) WATERMARK FOR value AS value USING rate")
        yield loom


def _refused(loom: Loom, statement: str) -> bool:
    """Whether a statement is refused because of the limit, by itself and in a script that is checked as a whole."""
    with pytest.raises(SqlError) as error:
        loom.execute(statement)
    report = loom.register(f"CREATE VIEW harmless AS SELECT value FROM r; {statement}")
    codes = {each.code for each in error.value.problems} | {each.code for each in report.problems}
    return codes == {Code.NOT_ALLOWED}


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "outside",
        "data-2",
        "data/../outside",
        "data/link",
        "data/link/x",
        "file:///etc",
        "FILE:/etc",
        "hdfs://host/data",
        "*",
        "/*",
        "out*/x",
        "data/*/../../outside",
        "data/{a,/etc/passwd}",
        "{data,/etc}/x",
        "",
    ],
)
def test_paths_outside_are_refused_for_streams_tables_and_sinks(limited: Loom, path: str) -> None:
    for statement in (
        f"CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING csv OPTIONS (path '{path}')",
        f"CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING replay OPTIONS (path 'data', PATH '{path}', step '1')",
        f"CREATE TABLE t (n BIGINT) USING json OPTIONS (Path '{path}')",
        f"CREATE CONTINUOUS QUERY q INTO json OPTIONS (path '{path}') AS SELECT value FROM r",
    ):
        assert _refused(limited, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SET allowed_paths = '/'",
        "SET ALLOWED_PATHS = off",
        "SET spark.sql.extensions = a.b",
        "CREATE TABLE t (n BIGINT) USING jdbc OPTIONS (url 'jdbc:sqlite:/etc/x', dbtable 't')",
        "CREATE TABLE t (n BIGINT) USING `org.apache.spark.sql.jdbc` OPTIONS (path 'data')",
        "CREATE TABLE t (n BIGINT) USING binaryFile OPTIONS (path 'data')",
        "CREATE TABLE t (n BIGINT) USING csv OPTIONS (path 'data', paths '[\"/etc/passwd\"]')",
        "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING csv OPTIONS (path 'data', cleanSource 'archive', "
        "sourceArchiveDir '/tmp')",
    ],
)
def test_what_could_lead_out_in_other_ways_is_refused(limited: Loom, statement: str) -> None:
    assert _refused(limited, statement)


def test_what_lies_inside_is_taken(limited: Loom) -> None:
    limited.execute(
        "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING csv OPTIONS (path 'data/*/2024-{01,02}.csv', sep '/');"
        "CREATE TABLE t (n BIGINT) USING json OPTIONS (path './data/../data/t');"
        "CREATE CONTINUOUS QUERY q INTO json OPTIONS (path 'out/q') AS SELECT n FROM s;"
        "SET max_results = 10"
    )
    again = CliRunner().invoke(app, ["init", str(limited.directory), "--allow", "/"])
    assert again.exit_code == 2  # another process has it open


def test_a_project_without_a_limit_takes_any_path(tmp_path: Path) -> None:
    with Loom.open(tmp_path) as loom:
        loom.execute("CREATE TABLE t (n BIGINT) USING csv OPTIONS (path '/etc/passwd')")
        assert loom.catalog.allowed_paths() is None


def test_a_link_that_leads_out_later_is_refused_when_it_is_opened(limited: Loom) -> None:
    """Sources and sinks are refused before anything is read or written, so no Spark is needed."""
    from weft.runtime.sinks.sinks import take_folder
    from weft.runtime.sources.stream_sources import sources
    from weft.runtime.sources.table_snapshots import TableSnapshots
    from weft.runtime.spark.engine_errors import SinkError, SourceError

    base = limited.directory.parent
    limited.execute(
        "CREATE STREAM s (n BIGINT) WATERMARK FOR n AS n USING csv OPTIONS (path 'data/s');"
        "CREATE TABLE t (n BIGINT) USING csv OPTIONS (path 'data/t');"
        "CREATE CONTINUOUS QUERY q INTO json OPTIONS (path 'out/q') AS SELECT n FROM s"
    )
    for name in ("data/s", "data/t", "out/q"):
        (base / name).symlink_to(base / "outside")
    catalog, spark = limited.catalog, cast(Any, None)
    allowed = catalog.allowed_paths()
    with pytest.raises(SourceError, match="stream 's' cannot be read: the path 'data/s' lies outside"):
        sources(spark, {1: catalog.get(Stream, "s")}, {}, base / "replay", allowed=allowed)
    with pytest.raises(SourceError, match="table 't' cannot be read: the path 'data/t' lies outside"):
        TableSnapshots(spark, spark, {}, allowed, print).snapshot(1, catalog.get(Table, "t"))
    with pytest.raises(SinkError, match="the path 'out/q' lies outside"):
        take_folder(spark, catalog, catalog.query("q"))
    assert list((base / "outside").iterdir()) == []
