"""How errors look: code, place, the line with a caret under it, and advice."""

from __future__ import annotations

import pytest

from tests.sql.given import given_names
from weft.sql import Code, Problem, Span, SqlError, read
from weft.sql.problems import did_you_mean


def _problem(text: str, marked: str, hint: str = "do it") -> Problem:
    start = text.index(marked)
    return Problem(Code.SYNTAX, "it is wrong", Span(start, start + len(marked)), hint)


def test_rendering() -> None:
    text = "SELECT *\nFROM trade\nWHERE x"
    assert _problem(text, "trade").render(text, "app.sql") == (
        "error[W101]: it is wrong\n --> app.sql:2:6\n  |\n2 | FROM trade\n  |      ^^^^^ do it"
    )


def test_the_gutter_is_as_wide_as_the_number_of_the_line() -> None:
    text = "\n" * 99 + "SELECT x"
    assert _problem(text, "x").render(text).split("\n") == [
        "error[W101]: it is wrong",
        "   --> <sql>:100:8",
        "    |",
        "100 | SELECT x",
        "    |        ^ do it",
    ]


def _carets(text: str, marked: str) -> str:
    """The line of the source and the line of the caret."""
    lines = _problem(text, marked, "").render(text).split("\n")
    return "\n".join(line[4:] for line in lines[-2:])


def test_tabs_before_a_caret_stay_tabs() -> None:
    assert _carets("SELECT\n\tx,\ty FROM t", "y") == "\tx,\ty FROM t\n\t  \t^"


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    assert _carets("日本 x", "x") == "日本 x\n     ^"
    assert _carets("x 日本", "日本") == "x 日本\n  ^^^^"
    assert _carets("e\u0301 x", "x") == "e\u0301 x\n  ^"


def test_a_span_over_several_lines_is_marked_to_the_end_of_the_first() -> None:
    assert _carets("SELECT a +\n  b FROM t", "a +\n  b") == "SELECT a +\n       ^^^"


def test_windows_line_ends() -> None:
    text = "SELECT *\r\nFROM trade\r\n"
    assert _carets(text, "trade") == "FROM trade\n     ^^^^^"


def test_a_place_behind_the_end_is_still_shown() -> None:
    text = "SELECT"
    rendered = Problem(Code.SYNTAX, "more is needed", Span(6, 6), "go on").render(text)
    assert rendered.endswith("1 | SELECT\n  |       ^ go on")


def test_characters_that_move_the_cursor_are_not_printed() -> None:
    text = "SELECT \x1b[31mx\u2028y"
    rendered = Problem(Code.SYNTAX, "unexpected '\x1b[31m'\n", Span(7, 8), "").render(text)
    assert "\x1b" not in rendered
    assert "\u2028" not in rendered
    assert rendered.count("\n") == 4


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("CREATE CONTINUOUS QUERY q AS SELECT 日本, prise FROM trades", "日本"),
        ("CREATE CONTINUOUS QUERY q AS SELECT '日本' AS é, prise FROM trades", "prise"),
        ("CREATE CONTINUOUS QUERY q AS SELECT '🙂🙂' AS x, prise FROM trades", "prise"),
        ("CREATE CONTINUOUS QUERY q AS\n\tSELECT symbol,\n\t\tprise\nFROM trades", "prise"),
        ("CREATE CONTINUOUS QUERY q AS /* 日本 */ -- prise\nSELECT prise, symbol\nFROM trades", "prise, symbol"),
        ("CREATE CONTINUOUS QUERY q AS SELECT UPPER ( price ) FROM trades", "UPPER ( price )"),
        ("CREATE CONTINUOUS QUERY q AS SELECT symbol FROM trades WHERE price = 'x' AND ok", "price = 'x'"),
        ("CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) FROM trades [ROWS 10 SLIDE 5]", "[ROWS 10 SLIDE 5]"),
        ("CREATE CONTINUOUS QUERY q AS SELECT CAST(price AS DECIMAL(99)) FROM trades", "DECIMAL(99)"),
        ("CREATE CONTINUOUS QUERY q AS SELECT ts + INTERVAL 1 MONTH FROM trades", "INTERVAL 1 MONTH"),
    ],
)
def test_spans_are_those_of_the_text(text: str, marked: str) -> None:
    with pytest.raises(SqlError) as caught:
        read(text, given_names())
    span = caught.value.problems[0].span
    start = text.rindex(marked)
    assert text[span.start : span.end] == marked[: span.end - span.start]
    assert span.start == start


def test_an_error_says_all_its_problems() -> None:
    with pytest.raises(SqlError) as caught:
        read("CREATE CONTINUOUS QUERY q AS SELECT a, b FROM trades", given_names())
    assert str(caught.value) == "W202: column 'a' is unknown; W202: column 'b' is unknown"
    assert len(caught.value.render("…").split("error[")) == 3


def test_places_move_with_the_text_in_front() -> None:
    error = SqlError.one(Code.SYNTAX, "it is wrong", Span(2, 5))
    assert error.shifted(10).problems[0].span == Span(12, 15)


def test_suggestions() -> None:
    assert did_you_mean("TRADE", ["trades", "quotes"]) == "did you mean 'trades'?"
    assert did_you_mean("zebra", ["trades"], "or not") == "or not"
    assert did_you_mean("x", []) == ""


def test_a_select_alone_is_not_a_statement() -> None:
    with pytest.raises(SqlError, match="W103: a SELECT alone is not a statement"):
        read("SELECT * FROM trades", given_names())


def test_the_first_digit_of_a_code_is_a_part_of_the_language() -> None:
    assert len({code.value for code in Code}) == len(Code)
    assert all(code.value[0] == "W" and code.value[1:].isdigit() for code in Code)
