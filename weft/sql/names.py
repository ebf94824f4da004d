"""What is registered, as far as the binder needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weft.algebra import Query, Relation, Stream, Table
from weft.algebra.properties import leaves, name_of
from weft.sql.folders import folder_of


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
        """The name of the query that writes to a folder: see `folders.py`."""
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
