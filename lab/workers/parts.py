"""A script, taken apart: for each group of queries that stay together a script of its own, with what they read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.workers.groups import groups
from weft.algebra import Query, Relation, Stream, Table, View
from weft.algebra.properties import leaves, name_of
from weft.federation import FederationError
from weft.loom import Loom
from weft.sql import read, split, statements


@dataclass(frozen=True, slots=True)
class Part:
    """Queries that stay together, and the statements that register them and what they read."""

    queries: tuple[str, ...]
    script: str


@dataclass(frozen=True, slots=True)
class _Declared:
    """A statement: what it registers, if anything, and the streams and tables that this reads."""

    text: str
    stream_or_table: str | None = None
    query: str | None = None
    reads: frozenset[str] = frozenset()


def parts(directory: Path, script: str) -> tuple[Part, ...]:
    """The parts of a script, which is registered as a whole in a loom of its own: what there is to see of it."""
    with Loom.open(directory) as loom:
        declared = []
        for piece in split(script):
            declared.append(_declared(piece.text, read(piece.text, loom.catalog)))
            loom.execute(piece.text)
        made = groups(loom.catalog.queries())
    if not made:
        raise FederationError("the script registers no continuous query; without one there is nothing to run")
    return tuple(_part(queries, declared) for queries in made)


def _declared(text: str, statement: statements.Statement) -> _Declared:
    match statement:
        case statements.Create(Stream() as stream):
            return _Declared(text, stream_or_table=stream.name)
        case statements.Create(Table() as table):
            return _Declared(text, stream_or_table=table.name)
        case statements.Create(View(relation=relation)):
            return _Declared(text, reads=_read_by(relation))
        case statements.Create(Query() as query):
            return _Declared(text, query=query.name, reads=_read_by(query.relation))
        case statements.SetOption():
            return _Declared(text)
    raise FederationError(f"a provider is set up by CREATE and SET; this is neither: {text.strip()}")


def _read_by(relation: Relation) -> frozenset[str]:
    return frozenset(map(name_of, leaves(relation)))


def _part(queries: tuple[str, ...], declared: list[_Declared]) -> Part:
    """Only what the queries read is registered beside them: an engine reads every stream that it knows."""
    needed = {name for each in declared if each.query in queries for name in each.reads}
    chosen = [each.text for each in declared if (each.query in queries if each.query else _is_of_use(each, needed))]
    return Part(queries, ";\n".join(chosen))


def _is_of_use(declared: _Declared, needed: set[str]) -> bool:
    if declared.stream_or_table is not None:
        return declared.stream_or_table in needed
    return declared.reads <= needed
