"""Queries as JSON say what their text says."""

from __future__ import annotations

import json
from typing import Any

from tests.sql.given import given_names
from tests.support.golden import FIXTURES, read_golden
from weft.algebra import Query
from weft.explain.query_text import query_document, query_text
from weft.sql import read, statements

_SELECTS = [
    example.statement
    for path in sorted((FIXTURES / "binder").glob("*.sql"))
    for example in read_golden(path)
    if example.expected.startswith("query q") and example.statement.startswith("SELECT")
]


def _query(select: str) -> Query:
    statement = read(f"CREATE CONTINUOUS QUERY q AS {select}", given_names())
    assert isinstance(statement, statements.Create)
    assert isinstance(statement.definition, Query)
    return statement.definition


def _expressions(document: Any) -> list[str]:
    """Every expression in a document."""
    if isinstance(document, list):
        return [text for each in document for text in _expressions(each)]
    if not isinstance(document, dict):
        return []
    own = [document[key] for key in ("expression", "where", "having") if document.get(key)]
    own += [each for key in ("keys", "aggregates") for each in document.get(key, [])]
    return own + [text for value in document.values() for text in _expressions(value)]


def test_what_the_text_says_is_in_the_document() -> None:
    assert len(_SELECTS) > 100
    for select in _SELECTS:
        query = _query(select)
        document, text = query_document(query), query_text(query)
        assert json.loads(json.dumps(document)) == document
        assert all(expression in text for expression in _expressions(document))
        assert [column["name"] for column in document["columns"]] == [field.name for field in query.relation.fields]


def test_a_document() -> None:
    select = "SELECT symbol, COUNT(*) AS n FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES] WHERE ok GROUP BY symbol"
    assert query_document(_query(select)) == {
        "query": "q",
        "columns": [
            {"name": "window_start", "type": "TIMESTAMP"},
            {"name": "window_end", "type": "TIMESTAMP"},
            {"name": "symbol", "type": "STRING"},
            {"name": "n", "type": "BIGINT"},
        ],
        "clock": "window_end",
        "sharing": True,
        "sink": None,
        "relation": {
            "kind": "select",
            "distinct": False,
            "window": {
                "range": 3_600_000_000,
                "slide": 300_000_000,
                "origin": 0,
                "text": "[RANGE 1 HOUR SLIDE 5 MINUTES]",
            },
            "retain": None,
            "emit_empty": False,
            "outputs": [
                {"name": "window_start", "expression": "window_start"},
                {"name": "window_end", "expression": "window_end"},
                {"name": "symbol", "expression": "#0"},
                {"name": "n", "expression": "@0"},
            ],
            "having": None,
            "aggregates": ["COUNT(*)"],
            "keys": ["trades.symbol"],
            "where": "trades.ok",
            "inputs": [{"kind": "stream", "name": "trades", "alias": "trades", "window": None}],
        },
        "text": f"CREATE CONTINUOUS QUERY q AS {select}",
    }


def test_sinks_and_set_operators() -> None:
    statement = read(
        "CREATE CONTINUOUS QUERY q SHARING OFF INTO parquet OPTIONS (path 'out') AS "
        "SELECT symbol FROM trades EXCEPT SELECT symbol FROM quotes RETAIN 1 HOUR",
        given_names(),
    )
    assert isinstance(statement, statements.Create)
    document = query_document(statement.definition)
    assert document["sharing"] is False
    assert document["sink"] == {"format": "parquet", "options": {"path": "out"}}
    assert document["relation"]["kind"] == "except"
    assert document["relation"]["retain"] == {"ticks": 3_600_000_000}
