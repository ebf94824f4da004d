"""Streams, tables, views and queries, and which of them reads which.

The file is the truth about what exists: every look-up asks it. What is kept in memory is only what has been decoded, by
number: what is stored under a number never changes and no number is used twice, so none of it can be out of date.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

from weft.algebra import Answers, Definition, Query, Stream, Table, View
from weft.algebra.codec import dumps, register
from weft.algebra.properties import leaves, name_of
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.database import Database
from weft.sql.names import folder_of, listed


@dataclass(frozen=True, slots=True)
class Representative:
    """A query that runs for all members of a group of queries, whose answers are published under the group's name.

    A group has a new epoch when what runs for it changes, and an epoch has several parts if no single query gives the
    answers of all members. `about` is what the publisher of its rows has to know, as JSON.
    """

    name: str
    stream: str
    epoch: int
    part: int
    query: Query
    about: str = ""


_Stored: TypeAlias = Definition | Representative
D = TypeVar("D", Stream, Table, View, Query, Representative)

register(Representative)

#: The kinds whose names statements can say.
_NAMED: Final = (Stream, Table, View, Query)

_RUNNING: Final = """
    SELECT name, id FROM names JOIN definitions USING (id)
    WHERE kind = 'representative'
       OR kind = 'query' AND (NOT member OR EXISTS (SELECT 1 FROM dependencies WHERE read = id))
    ORDER BY id
"""


def _word(kind: type[_Stored]) -> str:
    """What a kind of definition is called in the file, and in messages."""
    return kind.__name__.lower()


class Definitions:
    """What is registered in a database. `kind` is the class: Stream, Table, View, Query or Representative."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decoded: dict[type[_Stored], dict[int, Any]] = {kind: {} for kind in (*_NAMED, Representative)}
        # SQLite would hand out a number again after a rollback, so the only writer counts.
        ((last,),) = database.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'names'")
        self._numbers = count(last + 1)

    def add(self, definition: _Stored) -> None:
        """Store `definition`; CatalogError if its name is taken, or if it reads what is not there."""
        word = _word(type(definition))
        with self._database.change(), self._database.explained():
            taken = "SELECT kind, name FROM names WHERE key = ?"
            for owner, spelling in self._database.execute(taken, (definition.name.lower(),)):
                raise CatalogError(
                    f"{word} '{definition.name}' cannot be added: {self._database.path} has a {owner} '{spelling}'; "
                    "drop that first, or choose another name"
                )
            reads = self._reads(definition)  # before it has a name, or it could read itself
            number = next(self._numbers)
            self._database.execute(
                "INSERT INTO names (id, key, name, kind) VALUES (?, ?, ?, ?)",
                (number, definition.name.lower(), definition.name, word),
            )
            for read in reads:
                self._database.execute("INSERT INTO dependencies (reader, read) VALUES (?, ?)", (number, read))
            sink = definition.sink if isinstance(definition, Query) else None
            is_member = sink is not None and sink.format == "subscribers"
            self._database.execute(
                "INSERT INTO definitions (id, document, member, folder) VALUES (?, ?, ?, ?)",
                (number, self._document(definition), is_member, folder_of(sink)),
            )
            self._decoded[type(definition)][number] = definition

    def drop(self, kind: type[_Stored], name: str) -> None:
        """Drop a definition; CatalogError if there is none, or while others read it."""
        with self._database.change():
            number = self._number(kind, name)
            if readers := self._readers(number):
                raise CatalogError(f"{_word(kind)} '{name}' is read by {listed(readers)}; drop what reads it first")
            self._database.execute("DELETE FROM names WHERE id = ?", (number,))
            self._decoded[kind].pop(number, None)

    def get(self, kind: type[D], name: str) -> D:
        """The definition of that kind and name, or CatalogError."""
        with self._database.snapshot():
            return self._load(kind, [self._number(kind, name)])[0]

    def streams(self) -> tuple[Stream, ...]:
        return self._all(Stream)

    def tables(self) -> tuple[Table, ...]:
        return self._all(Table)

    def views(self) -> tuple[View, ...]:
        return self._all(View)

    def query(self, name: str) -> Query:
        return self.get(Query, name)

    def queries(self) -> tuple[Query, ...]:
        """Every query, in the order of creation."""
        return self._all(Query)

    def representatives(self) -> tuple[Representative, ...]:
        """The queries that run for groups of others, in the order of creation."""
        return self._all(Representative)

    def query_numbers(self) -> dict[str, int]:
        """A number for every query, by name; one that is dropped and created again gets a new number."""
        return self._numbers_of(Query)

    def stream_numbers(self) -> dict[str, int]:
        """A number for every stream, by name, as of queries."""
        return self._numbers_of(Stream)

    def table_numbers(self) -> dict[str, int]:
        """A number for every table, by name, as of queries."""
        return self._numbers_of(Table)

    def members(self) -> dict[str, int]:
        """The number of every query whose answers go to subscribers, by name."""
        return dict(self._database.execute("SELECT name, id FROM names JOIN definitions USING (id) WHERE member"))

    def running_numbers(self) -> dict[str, int]:
        """A number for every query that is evaluated, by name, in the order of creation: queries and representatives.

        A query INTO subscribers is not evaluated itself, unless others read its answers.
        """
        return dict(self._database.execute(_RUNNING))

    def running(self) -> tuple[Query, ...]:
        """Every query that is evaluated, in the order of creation."""
        queries = {each.name: each for each in self.queries()}
        queries |= {each.name: each.query for each in self.representatives()}
        return tuple(queries[name] for name in self.running_numbers())

    def find(self, name: str) -> Definition | None:
        """The stream, table, view or query of that name."""
        with self._database.snapshot():
            rows = self._database.execute("SELECT id, kind FROM names WHERE key = ?", (name.lower(),))
            kind: Any = next((kind for kind in _NAMED if rows and _word(kind) == rows[0][1]), None)
            return self._load(kind, [rows[0][0]])[0] if kind else None

    def find_writer(self, folder: str) -> str | None:
        """The name of the query that writes its answers to a folder: see `weft/sql/names.py`."""
        rows = self._database.execute("SELECT name FROM names JOIN definitions USING (id) WHERE folder = ?", (folder,))
        return rows[0][0] if rows else None

    def known_names(self) -> list[str]:
        """The names of all streams, tables, views and queries, in the order of creation."""
        statement = "SELECT name FROM names WHERE kind != ? ORDER BY id"
        return [name for (name,) in self._database.execute(statement, (_word(Representative),))]

    def readers(self, name: str) -> tuple[str, ...]:
        """The names of the views and queries that read a stream, a table, or a query's answers, directly."""
        with self._database.snapshot():
            rows = self._database.execute("SELECT id FROM names WHERE key = ?", (name.lower(),))
            return self._readers(rows[0][0]) if rows else ()

    # -----------------------------------------------------------------------------------------------------------------

    def _all(self, kind: type[D]) -> tuple[D, ...]:
        """Every definition of a kind, in the order of creation."""
        with self._database.snapshot():
            rows = self._database.execute("SELECT id FROM names WHERE kind = ? ORDER BY id", (_word(kind),))
            numbers = [number for (number,) in rows]
            definitions = self._load(kind, numbers)
            self._decoded[kind] = dict(zip(numbers, definitions, strict=True))  # without what others have dropped
            return tuple(definitions)

    def _numbers_of(self, kind: type[_Stored]) -> dict[str, int]:
        return dict(self._database.execute("SELECT name, id FROM names WHERE kind = ?", (_word(kind),)))

    def _load(self, kind: type[D], numbers: list[int]) -> list[D]:
        decoded: dict[int, D] = self._decoded[kind]
        missing = {number for number in numbers if number not in decoded}
        if missing:
            # New ones have the highest numbers, so this reads little that is not wanted.
            stored = "SELECT id, name, document FROM names JOIN definitions USING (id)"
            rows = self._database.execute(
                f"{stored} WHERE kind = ? AND id BETWEEN ? AND ?", (_word(kind), min(missing), max(missing))
            )
            source = cache(lambda name: self.find(name) or self.get(Stream, name))
            for number, name, document in rows:
                if number in missing:
                    decoded[number] = self._database.decode(f"{_word(kind)} '{name}'", document, source)
        return [decoded[number] for number in numbers]

    def _document(self, definition: _Stored) -> str:
        """A definition as text, in which the streams and tables that it reads are only named.

        A representative is written whole: its members may go, and streams after them, before it does.
        """
        given: dict[int, str] = {}
        if isinstance(definition, View | Query):
            definition.text.encode()  # JSON would write a lone surrogate, which no file and no terminal takes
            sources = {id(leaf): leaf for leaf in leaves(definition.relation) if isinstance(leaf, Stream | Table)}
            given = {key: each.name for key, each in sources.items() if each == self.find(each.name)}
        return dumps(definition, given)

    def _reads(self, definition: _Stored) -> set[int]:
        """The numbers of what a definition reads, and so keeps from being dropped."""
        if isinstance(definition, Stream | Table | Representative):
            return set()
        return {
            self._number(Query if isinstance(leaf, Answers) else type(leaf), name_of(leaf))
            for leaf in leaves(definition.relation)
        }

    def _readers(self, number: int) -> tuple[str, ...]:
        rows = self._database.execute(
            "SELECT name FROM dependencies JOIN names ON id = reader WHERE read = ? ORDER BY id", (number,)
        )
        return tuple(name for (name,) in rows)

    def _number(self, kind: type[_Stored], name: str) -> int:
        """The number of the definition of that kind and name, or CatalogError."""
        statement = "SELECT id FROM names WHERE key = ? AND kind = ?"
        for (number,) in self._database.execute(statement, (name.lower(), _word(kind))):
            return int(number)
        spelling = {each.lower(): each for each in self._numbers_of(kind)}
        close = get_close_matches(name.lower(), spelling, n=1)
        advice = f"did you mean '{spelling[close[0]]}'?" if close else "create it first, or check the name"
        raise CatalogError(f"there is no {_word(kind)} '{name}' in {self._database.path}; {advice}")
