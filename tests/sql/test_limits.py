"""What is too deep or too large is refused, always at the same size, whoever calls."""

from __future__ import annotations

import pytest

from tests.sql.given import given_names
from weft.plan.text import query_text
from weft.sql import Code, NamesInMemory, SqlError, read, statements
from weft.sql.limits import DEEPEST_NESTING, DEEPEST_RELATION, MOST_INPUTS


def _query(select: str, names: NamesInMemory | None = None) -> statements.CreateQuery:
    statement = read(f"CREATE CONTINUOUS QUERY q AS {select}", names or given_names())
    assert isinstance(statement, statements.CreateQuery)
    query_text(statement.query)
    assert statement.query == statement.query
    hash(statement.query)
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


def _with_view(names: NamesInMemory, name: str, select: str) -> None:
    statement = read(f"CREATE VIEW {name} AS {select}", names)
    assert isinstance(statement, statements.CreateView)
    names.views[name] = statement.relation


def test_views_of_views_have_an_end() -> None:
    names = NamesInMemory(dict(given_names().streams))
    _with_view(names, "v1", "SELECT symbol FROM trades")
    for i in range(2, DEEPEST_RELATION):
        _with_view(names, f"v{i}", f"SELECT symbol FROM v{i - 1}")
    _query(f"SELECT symbol FROM v{DEEPEST_RELATION - 1}", names)
    with pytest.raises(SqlError, match="views and subqueries are nested too deeply"):
        _query(f"SELECT s.symbol FROM (SELECT symbol FROM v{DEEPEST_RELATION - 1}) AS s", names)


def test_views_that_double_have_an_end() -> None:
    """Ten views, each twice the one before, read a stream a thousand times; after thirty no memory would do."""
    names = NamesInMemory(dict(given_names().streams))
    _with_view(names, "v0", "SELECT ts, symbol FROM trades")
    for i in range(1, 10):
        _with_view(names, f"v{i}", f"SELECT ts, symbol FROM v{i - 1} UNION ALL SELECT ts, symbol FROM v{i - 1}")
    with pytest.raises(SqlError, match=rf"reads 1024 inputs; at most {MOST_INPUTS} are possible"):
        _query("SELECT ts, symbol FROM v9 UNION ALL SELECT ts, symbol FROM v9", names)
