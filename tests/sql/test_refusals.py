"""What people write for other systems is refused at the right place, in words of SQL, with advice."""

from __future__ import annotations

import re

import pytest

from tests.sql.given import given_names
from tests.support.golden import FIXTURES
from weft.sql import Problem, SqlError, parse, read
from weft.sql.check import check
from weft.sql.relation_binder import bind_relation

MARKED = [
    line
    for line in (FIXTURES / "refused" / "natural.sql").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("--")
]

#: Words of SQL and weft that a message may say although they are not in the statement.
_WORDS = frozenset(
    {
        "AS",
        "BIGINT",
        "BINARY",
        "BY",
        "CAST",
        "CONCAT",
        "CONT",
        "DECIMAL",
        "DISTINCT",
        "EXPLAIN",
        "FALSE",
        "FORMAT",
        "FROM",
        "HOP",
    }
    | {
        "JOIN",
        "JSON",
        "LATERAL",
        "LIMIT",
        "NULL",
        "OVER",
        "NOW",
        "RANGE",
        "RESUME",
        "RLIKE",
        "ROWS",
        "SELECT",
        "STRING",
        "TRUE",
        "TUMBLE",
        "UNBOUNDED",
    }
)


def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        if text.startswith(("SELECT", "WITH")) and text != "SELECT symbol FROM trades":
            bind_relation(parse(text), given_names())
        else:
            read(text, given_names())
    except SqlError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("line", MARKED)
def test_a_statement_of_another_system_is_refused_clearly(line: str) -> None:
    text, place = line.replace("«", "").replace("»", ""), line.index("«")
    problem = problems_of(text)[0]
    assert (problem.span.start, problem.span.end) == (place, line.index("»") - 1)
    # Names of the parser's classes are neither in the statement nor words of SQL.
    in_capitals = set(re.findall(r"[A-Z]{2,}", problem.message))
    assert in_capitals - _WORDS - set(re.findall(r"[A-Z]+", text.upper())) == set()
    assert problem.hint
    assert "docs/" not in problem.hint


def test_there_are_many_such_statements() -> None:
    assert len(MARKED) > 200


def test_order_and_limit_hide_nothing() -> None:
    found = problems_of("SELECT symbl FROM trades WHERE prise > 1 ORDER BY symbol LIMIT 10")
    assert [problem.message for problem in found] == [
        "column 'symbl' is unknown",
        "column 'prise' is unknown",
        "ORDER BY with LIMIT is not supported here",
        "LIMIT is not supported here",
    ]


def test_an_order_without_limit_is_a_note_but_what_it_names_must_be_there() -> None:
    given = "CREATE STREAM s (ts TIMESTAMP, x INT) WATERMARK FOR ts AS ts USING json OPTIONS (path 'x');"
    query = "CREATE CONTINUOUS QUERY q AS SELECT x AS y, ts FROM s ORDER BY"
    report = check(f"{given} {query} y DESC, 2, x + 1")
    assert report.ok
    (note,) = report.notes
    assert (given + " " + query)[note.span.start :].startswith("ORDER BY")
    assert check(f"{given} {query} z").problems[0].message == "column 'z' is unknown"
    both = f"{given} CREATE VIEW v AS SELECT x FROM s UNION ALL SELECT x FROM s ORDER BY x; {query} y"
    assert [each.code.value for each in check(both).notes] == ["W801", "W801"]


def test_nothing_advises_a_join_with_other_answers() -> None:
    for line in MARKED:
        (problem, *_) = problems_of(line.replace("«", "").replace("»", ""))
        assert "an inner join" not in problem.hint


@pytest.mark.parametrize("quote", ["'", '"', "`", "/*"])
def test_an_open_quote_costs_one_error(quote: str) -> None:
    given = "CREATE STREAM s (ts TIMESTAMP, k STRING) WATERMARK FOR ts AS ts USING json OPTIONS (path 'x');\n"
    broken = f"CREATE CONTINUOUS QUERY a AS SELECT k FROM s WHERE k = {quote}A;\n"
    quoted = " AS `y`" if quote == "`" else ""
    after = "\n-- a comment\n".join(
        f"CREATE CONTINUOUS QUERY q{n} AS SELECT k{quoted} FROM s\nWHERE k = 'x';" for n in range(3)
    )
    report = check(f"{given}{broken}{after}\n")
    assert [problem.code.value for problem in report.problems] == ["W102"]
    assert len(report.queries) == 3


def test_a_text_may_hold_a_script() -> None:
    text = "CREATE STREAM s (ts TIMESTAMP) WATERMARK FOR ts AS ts USING json OPTIONS (path 'a;\nCREATE STREAM b;\n')"
    report = check(text)
    assert report.ok
    assert report.good_count == 1


def test_an_error_in_a_long_line_is_short() -> None:
    columns = ", ".join(f"symbol AS c{n}" for n in range(1_500))
    for text in (
        f"SELECT {columns}, prise FROM trades",
        f"SELECT prise, {columns} FROM trades",
        f"SELECT {'x' * 1_000_000} FROM trades",
        f"SELECT symbol FROM trades WHERE symbol = '{'x' * 1_000_000}",
        f"SELECT CAST('{'x' * 1_000_000}' AS DATE) FROM trades",
    ):
        (problem, *_) = problems_of(text)
        rendered = problem.render(text)
        assert len(rendered) < 1_500
        source, caret = rendered.split("\n")[-2:]
        marked = text[problem.span.start : problem.span.end][:5]
        assert source[caret.index("^") :].startswith(marked)


def test_if_not_exists_leaves_alone_what_is_there() -> None:
    given = "CREATE STREAM s (ts TIMESTAMP, x INT) WATERMARK FOR ts AS ts USING json OPTIONS (path 'x');"
    again = "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP) WATERMARK FOR ts AS ts USING rate;"
    query = "CREATE CONTINUOUS QUERY IF NOT EXISTS q AS SELECT x FROM s;"
    report = check(f"{given} {again} {query} {query.replace(' x ', ' ts ')}")
    assert [problem.message for problem in report.problems] == []
    assert [field.name for field in report.queries[0].relation.fields] == ["x"]
    other = check(
        f"{given} CREATE STREAM r (ts TIMESTAMP) WATERMARK FOR ts AS ts USING json OPTIONS (path 'y');"
        " CREATE VIEW IF NOT EXISTS s AS SELECT ts FROM r"
    )
    assert [problem.message for problem in other.problems] == ["a stream called 's' exists already"]
