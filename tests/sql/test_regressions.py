"""Statements that were once misread, or that once brought the front end down."""

from __future__ import annotations

import pytest

from tests.sql.given import answer, given_names
from weft.sql import SqlError, read


def test_not_like_is_not_like() -> None:
    assert "(NOT (trades.symbol LIKE 'A%'))" in answer("SELECT symbol FROM trades WHERE symbol NOT LIKE 'A%'")


def test_a_doubled_quote_is_one_quote() -> None:
    assert "x = 'it''s'" in answer("SELECT 'it''s' AS x FROM trades")


def test_the_negative_of_a_long_decimal_keeps_its_digits() -> None:
    digits = "0.12345678901234567890123456789012345"
    assert f"x = -{digits}" in answer(f"SELECT -{digits} AS x FROM trades")


def test_the_bounds_of_another_query_are_columns_where_there_is_no_window() -> None:
    assert "window_end = hot.window_end" in answer("SELECT window_end FROM hot")


def test_origins_that_differ_by_whole_slides_are_the_same() -> None:
    first, second = (
        answer(f"SELECT COUNT(*) AS n FROM trades [RANGE 2 HOURS SLIDE 1 HOUR ORIGIN {origin}]")
        for origin in ("5 MINUTES", "65 MINUTES")
    )
    assert first == second


def test_a_double_negative_is_not_a_comment() -> None:
    assert "--" not in answer("SELECT -(-lot) AS x FROM trades")


def test_a_time_beside_a_decimal_is_not_a_number() -> None:
    assert "error[W301]" in answer("SELECT TIMESTAMP '2024-01-01' = 1.5 AS x FROM trades")
    assert "error[W301]" in answer("SELECT -TIMESTAMP '2024-01-01' AS x FROM trades")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("CREATE STREAM s (ts TIMESTAMP) WATERMARK FOR ts AS ", id="a watermark that ends too early"),
        pytest.param("EXPLAIN (", id="options that end too early"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT ROUND(fee, NULL) FROM trades", id="rounded to NULL places"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT ROUND(fee, 99999999999) FROM trades", id="rounded too far"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT ts + INTERVAL '1/0' DAY FROM trades", id="zero division"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT ts + INTERVAL '1 2' DAY TO HOUR FROM trades", id="two units"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT " + "9" * 5000 + " FROM trades", id="a huge number"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT price² FROM trades GROUP BY ²", id="digits that are none"),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades GROUP BY " + "9" * 5000, id="a huge position"
        ),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT CAST(1 AS DECIMAL(" + "9" * 5000 + ")) FROM trades", id="a huge size"
        ),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) FROM ticks [ROWS " + "9" * 5000 + "]", id="a huge window"
        ),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades WHERE ts > '0001-01-01T00:00:00+23:59'",
            id="a moment before the first year",
        ),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT price" + "::double" * 200 + " FROM trades", id="many casts"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT FROM trades", id="an empty select list"),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) FROM trades [NOW] EMIT EMPTY", id="an answer per tick"
        ),
        pytest.param("CREATE CONTINUOUS QUERY q AS (SELECT symbol FROM trades) LIMIT 5", id="a limit outside"),
        pytest.param("CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades AS t (a, b)", id="renamed columns"),
        pytest.param(
            "CREATE CONTINUOUS QUERY q AS SELECT ok FROM trades WHERE lot BETWEEN SYMMETRIC 2 AND 1", id="symmetric"
        ),
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(SqlError):
        read(text, given_names())
