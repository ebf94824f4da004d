"""What front-end tests share: registered names, and what a statement is answered with, as text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlglot import exp

from tests.support.golden import FIXTURES
from weft.algebra import Query, Stream, Table, View
from weft.algebra.properties import clock_column, clock_type
from weft.explain.query_text import duration_text, query_text, relation_lines
from weft.sql import NamesInMemory, Problem, SqlError, bind, parse, read, split, statements
from weft.sql.relation_binder import bind_relation

BINDER = FIXTURES / "binder"


@cache
def given_names() -> NamesInMemory:
    """The streams, tables, views and queries of `fixtures/binder/given.sql`."""
    names = NamesInMemory()
    for piece in split((BINDER / "given.sql").read_text(encoding="utf-8")):
        statement = read(piece.text, names)
        if isinstance(statement, statements.Create):
            names.add(statement.definition)
    return names


def answer(text: str) -> str:
    """The bound form of a statement, or why it is refused. A SELECT alone is taken as the query q."""
    try:
        tree = parse(text)
        if isinstance(tree, exp.Query):
            notes: list[Problem] = []
            relation = bind_relation(tree, given_names(), notes)
            return _noted(query_text(Query("q", relation, clock_column(relation))), notes, text)
        statement = bind(tree, given_names(), text)
        notes = list(statement.notes) if isinstance(statement, statements.Create) else []
        return _noted(_statement_text(statement), notes, text)
    except SqlError as error:
        return "\n".join(problem.render(text) for problem in error.problems)


def _noted(answer: str, notes: Sequence[Problem], text: str) -> str:
    return "\n".join([answer, *(note.render(text) for note in notes)])


def _statement_text(statement: statements.Statement) -> str:
    match statement:
        case statements.Create(Query() as query):
            return query_text(query)
        case statements.Create(View(name, relation=relation)):
            return "\n".join([f"view {name}", *(f"  {line}" for line in relation_lines(relation))])
        case statements.Create(Stream() as stream):
            return _stream_text(stream)
        case statements.Create(Table() as table):
            return _table_text(table)
    return repr(statement)


def _table_text(table: Table) -> str:
    columns = ", ".join(f"{field.name} {field.type}" for field in table.fields)
    return f"table {table.name}: {columns}\n  from {table.format} {dict(table.options)}"


def _stream_text(stream: Stream) -> str:
    clock = clock_type(stream)
    columns = ", ".join(f"{field.name} {field.type}" for field in stream.fields)
    shed = ", rows may be left out" if stream.shed_allowed else ""
    return (
        f"stream {stream.name}: {columns}\n"
        f"  clock {stream.clock}, rows late by up to {duration_text(stream.delay, clock)}, "
        f"history of {duration_text(stream.backfill, clock)}{shed}\n"
        f"  from {stream.format} {dict(stream.options)}"
    )
