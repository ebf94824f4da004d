"""What is registered, as far as the binder needs to know, and the names that it may have."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from weft.algebra import Definition, Query, Stream, Table, View
from weft.algebra.properties import leaves, name_of
from weft.sql.paths import folder_of

#: The order in which the names that a script defines are listed.
_ORDER: Final[Sequence[type[Definition]]] = (Stream, Table, View, Query)


class Names(Protocol):
    """Looks up registered objects; names do not depend on upper and lower case."""

    def find(self, name: str) -> Definition | None:
        """The stream, table, view or query of that name."""
        ...

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


class NamesInMemory:
    """Names that a script defines or drops, on top of those registered already, if any are."""

    def __init__(self, below: Names | None = None, dropped: Iterable[str] = ()) -> None:
        self.definitions: dict[str, Definition] = {}
        self._below = below
        self._dropped = set(dropped)
        self._writers: dict[str, str] = {}

    def add(self, *definitions: Definition) -> None:
        for each in definitions:
            self.definitions[each.name.lower()] = each
            if isinstance(each, Query) and (folder := folder_of(each.sink)) is not None:
                self._writers[folder] = each.name

    def drop(self, name: str) -> None:
        self._dropped.add(name.lower())
        self.definitions.pop(name.lower(), None)

    def find(self, name: str) -> Definition | None:
        found = self.definitions.get(name.lower())
        return self._below.find(name) if found is None and self._below and self._stands(name) else found

    def allowed_paths(self) -> Sequence[str] | None:
        return self._below.allowed_paths() if self._below else None

    def find_writer(self, folder: str) -> str | None:
        query = self.definitions.get(self._writers.get(folder, "").lower())
        if isinstance(query, Query) and folder_of(query.sink) == folder:
            return query.name
        name = self._below.find_writer(folder) if self._below else None
        return name if name is not None and self._stands(name) else None

    def known_names(self) -> Iterable[str]:
        own = sorted(self.definitions, key=lambda name: _ORDER.index(type(self.definitions[name])))
        return [*own, *filter(self._stands, self._below.known_names() if self._below else ())]

    def readers(self, name: str) -> Sequence[str]:
        own = [
            reader
            for kind in (View, Query)
            for reader, each in self.definitions.items()
            if isinstance(each, kind) and any(name_of(leaf).lower() == name.lower() for leaf in leaves(each.relation))
        ]
        return [*own, *filter(self._stands, self._below.readers(name) if self._below else ())]

    def _stands(self, name: str) -> bool:
        """Whether a name that is registered already was not dropped."""
        return name.lower() not in self._dropped


#: What the names of weft's own queries begin with.
OWN: Final = "weft:"


def listed(readers: Sequence[str]) -> str:
    """The readers of something, as messages list them."""
    return ", ".join(f"'{each}'" for each in readers[:5]) + f" and {len(readers) - 5} more" * (len(readers) > 5)


def name_refusal(name: str) -> str | None:
    """The sentence that refuses a name; None if a stream, table, view or query may have it."""
    if not name.strip():
        return "a name needs at least one letter"
    if name.lower().startswith(OWN):
        return f"names that begin with '{OWN}' are weft's own"
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        return f"the name {name!r} has a character that cannot be printed"
    return None
