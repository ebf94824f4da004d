"""Whatever is thrown at the front end, it answers with a statement or with an error that has a place in the text."""

from __future__ import annotations

import pytest

from tests.sql.given import given_names
from tests.sql.mutation import mutants
from weft.algebra import Query
from weft.explain.query_text import query_document, query_text
from weft.sql import Problem, SqlError, read, statements
from weft.sql.check import check


def _try(text: str) -> None:
    """Reads `text` as one statement and checks it as a script. Any exception but SqlError is a bug."""
    try:
        statement = read(text, given_names())
    except SqlError as error:
        _check_problems(error.problems, text)
    else:
        if isinstance(statement, statements.Create) and isinstance(statement.definition, Query):
            query_text(statement.definition)
            query_document(statement.definition)
    _check_problems(check(text, given_names()).problems, text)


def _check_problems(problems: tuple[Problem, ...], text: str) -> None:
    for problem in problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(text), problem
        assert problem.message
        assert "\n" in problem.render(text)


@pytest.mark.parametrize("seed", range(20))
def test_mutants(seed: int) -> None:
    for text in mutants(seed, 100):
        _try(text)


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_more_mutants(seed: int) -> None:
    for text in mutants(seed, 100):
        _try(text)
