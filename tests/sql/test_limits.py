"""What is too deep or too large is refused, always at the same size, whoever calls."""

from __future__ import annotations

import pytest

from tests.sql.given import given_names
from weft.algebra import Stream
from weft.explain.query_text import query_text
from weft.sql import Code, NamesInMemory, SqlError, read, statements
from weft.sql.check import check
from weft.sql.limits import DEEPEST_NESTING, DEEPEST_RELATION, MOST_INPUTS


def _query(select: str, names: NamesInMemory | None = None) -> statements.Create:
    statement = read(f"CREATE CONTINUOUS QUERY q AS {select}", names or given_names())
    assert isinstance(statement, statements.Create)
    query_text(statement.definition)
    assert statement.definition == statement.definition
    hash(statement.definition)
    return statement


_DEEP = {
    "parentheses": lambda n: f"SELECT {'(' * n}price{')' * n} FROM trades",
    "calls": lambda n: f"SELECT {'ABS(' * n}price{')' * n} FROM trades",
    "cases": lambda n: f"SELECT {'CASE WHEN ok THEN ' * n}price{' END' * n} FROM trades",
    "subqueries": lambda n: f"SELECT symbol FROM {'(SELECT symbol FROM ' * n}trades{') AS x' * n}",
}

_LONG = {
    "plus": lambda n: f"SELECT price{' + price' * n} FROM trades",
    "concat": lambda n: f"SELECT symbol{' || symbol' * n} FROM trades",
    "equals": lambda n: f"SELECT ok{' = ok' * n} FROM trades",
    "not": lambda n: f"SELECT {'NOT ' * n}ok FROM trades",
    "minus": lambda n: f"SELECT {'- ' * n}price FROM trades",
    "union": lambda n: f"SELECT symbol FROM trades{' UNION ALL SELECT symbol FROM trades' * n}",
}


@pytest.mark.parametrize("kind", _DEEP)
def test_nesting(kind: str) -> None:
    _query(_DEEP[kind](DEEPEST_NESTING - 10))
    for depth in (DEEPEST_NESTING + 1, 500, 5_000):
        with pytest.raises(SqlError, match=Code.TOO_DEEP.value):
            _query(_DEEP[kind](depth))


@pytest.mark.parametrize("kind", _LONG)
def test_chains(kind: str) -> None:
    _query(_LONG[kind](80))
    for length in (101, 1_500):
        with pytest.raises(SqlError, match=Code.TOO_DEEP.value):
            _query(_LONG[kind](length))


def test_long_conditions_and_lists_are_fine() -> None:
    _query(f"SELECT symbol FROM trades WHERE ok{' AND ok' * 2_000}")
    _query(f"SELECT symbol FROM trades WHERE ok{' OR lot = 1' * 2_000}")
    _query(f"SELECT symbol FROM trades WHERE lot IN (0{', 1' * 5_000})")
    _query(f"SELECT {', '.join(f'price + {i} AS c{i}' for i in range(1_000))} FROM trades")


def test_a_statement_has_an_end() -> None:
    with pytest.raises(SqlError, match="a statement has at most 20000 words"):
        _query(f"SELECT symbol FROM trades WHERE lot IN (0{', 1' * 50_000})")


def _given_streams() -> NamesInMemory:
    names = NamesInMemory()
    names.add(*(each for each in given_names().definitions.values() if isinstance(each, Stream)))
    return names


def _with_view(names: NamesInMemory, name: str, select: str) -> None:
    statement = read(f"CREATE VIEW {name} AS {select}", names)
    assert isinstance(statement, statements.Create)
    names.add(statement.definition)


def test_views_of_views_have_an_end() -> None:
    names = _given_streams()
    _with_view(names, "v1", "SELECT symbol FROM trades")
    for i in range(2, DEEPEST_RELATION):
        _with_view(names, f"v{i}", f"SELECT symbol FROM v{i - 1}")
    _query(f"SELECT symbol FROM v{DEEPEST_RELATION - 1}", names)
    with pytest.raises(SqlError, match="views and subqueries are nested too deeply"):
        _query(f"SELECT s.symbol FROM (SELECT symbol FROM v{DEEPEST_RELATION - 1}) AS s", names)


def test_views_that_double_have_an_end() -> None:
    """Ten views, each twice the one before, read a stream a thousand times; after thirty no memory would do."""
    names = _given_streams()
    _with_view(names, "v0", "SELECT ts, symbol FROM trades")
    for i in range(1, 10):
        _with_view(names, f"v{i}", f"SELECT ts, symbol FROM v{i - 1} UNION ALL SELECT ts, symbol FROM v{i - 1}")
    with pytest.raises(SqlError, match=rf"reads 1024 inputs; at most {MOST_INPUTS} are possible"):
        _query("SELECT ts, symbol FROM v9 UNION ALL SELECT ts, symbol FROM v9", names)


_STREAM = "CREATE STREAM t (ts TIMESTAMP, x BIGINT, b BOOLEAN) WATERMARK FOR ts AS ts USING memory;"


def _doubled(nth: str, levels: int, first: str = "SELECT ts, x, b FROM t") -> str:
    """Views of views, each of which reads the one before it as `nth` says."""
    views = [
        f"CREATE VIEW v0 AS {first};",
        *(f"CREATE VIEW v{k} AS {nth.format(k - 1)};" for k in range(1, levels + 1)),
    ]
    return f"{_STREAM}\n" + "\n".join(views) + f"\nCREATE CONTINUOUS QUERY q AS SELECT ts, x FROM v{levels};"


_DOUBLING = {
    "sums": "SELECT ts, x + x AS x, b FROM v{}",
    "cases": "SELECT ts, CASE WHEN x > 1 THEN x ELSE -x END AS x, b FROM v{}",
    "lists": "SELECT ts, IF(x IN (x + 1, x + 2), 1, 2) AS x, b FROM v{}",
    "conditions": "SELECT ts, x, (b AND x > 1) OR (NOT b AND x < 1) AS b FROM v{}",
    "conditions in WHERE": "SELECT ts, x + x AS x, b FROM v{} WHERE x > 1",
    "joins": "SELECT p.ts AS ts, p.x + q.x AS x, p.b AS b FROM v{0} [NOW] p JOIN v{0} [NOW] q ON p.x = q.x",
    "unions": "SELECT ts, x, b FROM v{0} UNION ALL SELECT ts, x + 1 AS x, b FROM v{0}",
}


@pytest.mark.parametrize("nth", _DOUBLING.values(), ids=_DOUBLING.keys())
def test_views_that_double_what_they_read_are_refused_when_they_are_too_large(nth: str) -> None:
    assert check(_doubled(nth, 4)).ok
    report = check(_doubled(nth, 60))
    assert [problem.code for problem in report.problems] == [Code.TOO_DEEP]
    assert report.skipped > 20


def test_many_columns_are_counted_together() -> None:
    columns = ", ".join(f"c{n} BIGINT" for n in range(200))
    doubled = ", ".join(f"c{n} + c{n} AS c{n}" for n in range(200))
    stream = f"CREATE STREAM t (ts TIMESTAMP, {columns}) WATERMARK FOR ts AS ts USING memory;"
    views = "CREATE VIEW v0 AS SELECT * FROM t;" + "".join(
        f"CREATE VIEW v{k} AS SELECT ts, {doubled} FROM v{k - 1};" for k in range(1, 8)
    )
    report = check(stream + views)
    assert [problem.code for problem in report.problems] == [Code.TOO_DEEP]


def test_answers_and_groups_are_read_as_they_are() -> None:
    sums = "SELECT SUM(x) + SUM(x) AS x FROM v{} [RANGE 1 MINUTE SLIDE 1 MINUTE]"
    views = "".join(f"CREATE VIEW v{k} AS {sums.format(k - 1)};" for k in range(1, 40))
    queries = "".join(f"CREATE CONTINUOUS QUERY q{k} AS SELECT x + x AS x FROM q{k - 1};" for k in range(1, 40))
    first = "CREATE VIEW v0 AS SELECT x FROM t; CREATE CONTINUOUS QUERY q0 AS SELECT x FROM t;"
    assert check(_STREAM + first + views + queries).ok


@pytest.mark.parametrize(
    "nested",
    ["CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 END", "IF({} BETWEEN 1 AND 2, 1, 2)"],
)
def test_parts_that_the_language_repeats_are_counted(nested: str) -> None:
    """The subject of a CASE is in each of its conditions, the value of BETWEEN in both."""
    expression = "x"
    for _ in range(30):
        expression = nested.format(expression)
    for select in (f"SELECT {expression} AS y FROM t", f"SELECT SUM({expression}) AS y FROM t GROUP BY {expression}"):
        problems = check(f"{_STREAM} CREATE CONTINUOUS QUERY q AS {select}").problems
        assert {problem.code for problem in problems} == {Code.TOO_DEEP}
