"""What is registered, as far as the binder needs to know, and the names that it may have."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from weft.algebra import Query, Relation, Stream, Table
from weft.algebra.properties import leaves, name_of
from weft.sql.paths import folder_of


class Names(Protocol):
    """Looks up registered objects; names do not depend on upper and lower case."""

    def find_stream(self, name: str) -> Stream | None: ...

    def find_table(self, name: str) -> Table | None: ...

    def find_view(self, name: str) -> Relation | None: ...

    def find_query(self, name: str) -> Query | None: ...

    def allowed_paths(self) -> Sequence[str] | None:
        """The folders that statements may name; None if there is no limit."""
        ...

    def find_writer(self, folder: str) -> str | None:
        """The name of the query that writes to a folder: see `paths.py`."""
        ...

    def known_names(self) -> Iterable[str]:
        """All names of streams, tables, views and queries, for suggestions."""
        ...

    def readers(self, name: str) -> Sequence[str]:
        """The names of the views and queries that read a stream, a table, or a query's answers, directly."""
        ...


@dataclass
class NamesInMemory:
    """Names without a catalog behind them, for checking a script."""

    streams: dict[str, Stream] = field(default_factory=dict)
    views: dict[str, Relation] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def find_stream(self, name: str) -> Stream | None:
        return self.streams.get(name.lower())

    def find_table(self, name: str) -> Table | None:
        return self.tables.get(name.lower())

    def find_view(self, name: str) -> Relation | None:
        return self.views.get(name.lower())

    def find_query(self, name: str) -> Query | None:
        return self.queries.get(name.lower())

    def allowed_paths(self) -> Sequence[str] | None:
        return None

    def find_writer(self, folder: str) -> str | None:
        return next((each.name for each in self.queries.values() if folder_of(each.sink) == folder), None)

    def known_names(self) -> Iterable[str]:
        return [*self.streams, *self.tables, *self.views, *self.queries]

    def readers(self, name: str) -> Sequence[str]:
        relations = [*self.views.items(), *((each, query.relation) for each, query in self.queries.items())]
        wanted = name.lower()
        return [
            reader
            for reader, relation in relations
            if any(name_of(leaf).lower() == wanted for leaf in leaves(relation))
        ]


class LayeredNames(NamesInMemory):
    """Names that a script defines or drops on top of those registered already."""

    def __init__(self, below: Names, dropped: Iterable[str] = ()) -> None:
        super().__init__()
        self.below = below
        self.dropped = set(dropped)
        self._writers: dict[str, str] = {}

    def find_stream(self, name: str) -> Stream | None:
        return super().find_stream(name) or (None if name.lower() in self.dropped else self.below.find_stream(name))

    def find_table(self, name: str) -> Table | None:
        return super().find_table(name) or (None if name.lower() in self.dropped else self.below.find_table(name))

    def find_view(self, name: str) -> Relation | None:
        return super().find_view(name) or (None if name.lower() in self.dropped else self.below.find_view(name))

    def find_query(self, name: str) -> Query | None:
        return super().find_query(name) or (None if name.lower() in self.dropped else self.below.find_query(name))

    def allowed_paths(self) -> Sequence[str] | None:
        return self.below.allowed_paths()

    def find_writer(self, folder: str) -> str | None:
        name = self._writers.get(folder)
        query = None if name is None else self.queries.get(name.lower())
        if query is not None and folder_of(query.sink) == folder:
            return query.name
        name = self.below.find_writer(folder)
        return None if name is None or name.lower() in self.dropped else name

    def add_query(self, query: Query) -> None:
        self.queries[query.name.lower()] = query
        folder = folder_of(query.sink)
        if folder is not None:
            self._writers[folder] = query.name

    def known_names(self) -> Iterable[str]:
        return [
            *super().known_names(),
            *(each for each in self.below.known_names() if each.lower() not in self.dropped),
        ]

    def readers(self, name: str) -> Sequence[str]:
        return [
            *super().readers(name),
            *(each for each in self.below.readers(name) if each.lower() not in self.dropped),
        ]


#: What the names of weft's own queries begin with.
OWN: Final = "weft:"


def name_refusal(name: str) -> str | None:
    """The sentence that refuses a name; None if a stream, table, view or query may have it."""
    if not name.strip():
        return "a name needs at least one letter"
    if name.lower().startswith(OWN):
        return f"names that begin with '{OWN}' are weft's own"
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        return f"the name {name!r} has a character that cannot be printed"
    return None
