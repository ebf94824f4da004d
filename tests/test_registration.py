"""Registering: all of a statement or nothing of it, and again without harm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.golden import FIXTURES
from weft.loom import Loom
from weft.sql import Code, SqlError

_GIVEN = (FIXTURES / "binder" / "given.sql").read_text(encoding="utf-8")


@pytest.fixture
def loom(tmp_path: Path) -> Iterator[Loom]:
    with Loom.open(tmp_path) as loom:
        yield loom


def _state(loom: Loom) -> object:
    catalog = loom.catalog
    return catalog.streams(), catalog.views(), catalog.queries(), catalog.known_names(), catalog.settings()


def test_what_is_registered_is_there_after_opening_again(tmp_path: Path) -> None:
    with Loom.open(tmp_path) as loom:
        loom.execute(_GIVEN)
        before = _state(loom)
    with Loom.open(tmp_path, write=False) as loom:
        assert _state(loom) == before


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (ts TIMESTAMP) USING json",
        "CREATE CONTINUOUS QUERY q AS SELECT prise FROM trades",
        "CREATE CONTINUOUS QUERY q AS SELECT MEDIAN(price) FROM trades",
        "CREATE CONTINUOUS QUERY hot AS SELECT symbol FROM trades",
        "CREATE VIEW v AS SELECT symbol FROM nowhere",
        "DROP STREAM trades",
        "DROP CONTINUOUS QUERY nothing",
        "SET sharing = maybe",
        "CREATE CONTINUOUS QUERY q AS SELECT 'oops FROM trades",
    ],
)
def test_nothing_of_a_refused_statement_stays(loom: Loom, statement: str) -> None:
    loom.execute(_GIVEN)
    before = _state(loom)
    with pytest.raises(SqlError):
        loom.execute(statement)
    assert _state(loom) == before


def test_statements_before_a_refused_one_stay_and_those_after_it_do_not_run(loom: Loom) -> None:
    with pytest.raises(SqlError) as caught:
        loom.execute(_GIVEN + "DROP STREAM nothing; SET sharing = off;")
    assert caught.value.problems[0].code is Code.UNKNOWN_NAME
    assert len(loom.catalog.streams()) == 3
    assert loom.catalog.settings().stored == {}


def test_the_place_of_an_error_is_that_in_the_script(loom: Loom) -> None:
    script = _GIVEN + "\nCREATE CONTINUOUS QUERY q AS\nSELECT prise FROM trades;\n"
    with pytest.raises(SqlError) as caught:
        loom.execute(script)
    span = caught.value.problems[0].span
    assert script[span.start : span.end] == "prise"


def test_running_a_script_again_changes_nothing(loom: Loom) -> None:
    loom.execute(_GIVEN)
    before = _state(loom)
    messages = [outcome.message for outcome in loom.execute(_GIVEN.replace(",", " ,\n  -- again\n "))]
    assert _state(loom) == before
    assert messages == [f"{name} is registered already" for name in loom.catalog.known_names()]


def test_a_changed_definition_is_not_a_repetition(loom: Loom) -> None:
    loom.execute(_GIVEN)
    for old, new in (("5 SECONDS", "6 SECONDS"), ("qty > 1000", "qty > 1001"), ("SLIDE 5 MINUTES", "SLIDE 6 MINUTES")):
        with pytest.raises(SqlError, match=Code.ALREADY_EXISTS.value):
            loom.execute(_GIVEN.replace(old, new))


def test_a_query_that_reads_its_own_name_is_refused(loom: Loom) -> None:
    loom.execute(_GIVEN)
    with pytest.raises(SqlError, match=Code.UNKNOWN_SOURCE.value):
        loom.execute("CREATE CONTINUOUS QUERY hot AS SELECT symbol FROM hot")


def test_dropping_from_the_leaves_up(loom: Loom) -> None:
    loom.execute(_GIVEN)
    loom.execute("CREATE CONTINUOUS QUERY hotter AS SELECT symbol FROM hot WHERE mean > 100")
    with pytest.raises(SqlError, match="'hot' is read by 'hotter'"):
        loom.execute("DROP CONTINUOUS QUERY hot")
    loom.execute(
        "DROP CONTINUOUS QUERY hotter; DROP CONTINUOUS QUERY hot; DROP VIEW pairs; DROP VIEW big; "
        "DROP CONTINUOUS QUERY passed; DROP CONTINUOUS QUERY running; DROP STREAM trades; DROP TABLE sectors"
    )
    assert loom.catalog.known_names() == ["quotes", "ticks", "symbols"]


def test_a_dropped_view_lives_on_in_its_readers(loom: Loom) -> None:
    loom.execute(_GIVEN + "CREATE CONTINUOUS QUERY q AS SELECT symbol FROM big; DROP VIEW big;")
    assert "where: (trades.qty > 1000)" in loom.explain("q")
    with pytest.raises(SqlError, match=r"'trades' is read by .*'q'"):
        loom.execute("DROP STREAM trades")


def test_settings(loom: Loom) -> None:
    loom.execute("SET sharing = off; SET heartbeat = 10 seconds; SET spark.sql.shuffle.partitions = 4")
    shown = loom.execute("SHOW SETTINGS")[0]
    assert ("sharing", "off") in shown.rows
    assert ("spark.sql.shuffle.partitions", "4") in shown.rows


def test_showing_and_describing(loom: Loom) -> None:
    loom.execute(_GIVEN)
    streams, views, queries, trades, hot = loom.execute(
        "SHOW STREAMS; SHOW VIEWS; SHOW QUERIES; DESCRIBE trades; DESCRIBE hot"
    )
    assert [row[0] for row in streams.rows] == ["trades", "quotes", "ticks"]
    assert [row[0] for row in views.rows] == ["big", "pairs"]
    assert queries.rows[0][:2] == ("hot", "[RANGE 1 HOUR SLIDE 5 MINUTES]")
    assert ("fee", "DECIMAL(10, 2)") in trades.rows
    assert [name for name, _ in hot.rows] == ["window_start", "window_end", "symbol", "mean"]


def test_a_thousand_queries(loom: Loom) -> None:
    """Each is registered once, in order, and can be found; the whole script can be run again."""
    loom.execute(_GIVEN)
    script = ";\n".join(
        f"CREATE CONTINUOUS QUERY q{i} AS SELECT symbol, AVG(price) AS mean, COUNT(*) AS n "
        f"FROM trades [RANGE {i % 60 + 2} MINUTES SLIDE {i % 7 + 1} MINUTES] WHERE price > {i} GROUP BY symbol"
        for i in range(1_000)
    )
    loom.execute(script)
    before = _state(loom)
    registered = [query.name for query in loom.catalog.queries()]
    assert registered == ["hot", "running", "passed", *(f"q{i}" for i in range(1_000))]
    loom.execute(script)
    assert _state(loom) == before
