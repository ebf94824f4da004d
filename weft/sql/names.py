"""What statements may name: what is registered, and folders.

Each folder has one writer. `weft init --allow FOLDER` limits the folders that statements may name; they cannot set that
themselves: otherwise a script could lift it. A path is compared as the system resolves it, so neither `..` nor a link
on the way to it leads out.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from weft.algebra import Definition, Query, Sink, Stream, Table, View
from weft.algebra.properties import leaves, name_of

#: The order in which the names that a script defines are listed.
_ORDER: Final[Sequence[type[Definition]]] = (Stream, Table, View, Query)


class Names(Protocol):
    """Looks up registered objects; names do not depend on upper and lower case."""

    def find(self, name: str) -> Definition | None:
        """The stream, table, view or query of that name."""

    def allowed_paths(self) -> Sequence[str] | None:
        """The folders that statements may name; None if there is no limit."""

    def find_writer(self, folder: str) -> str | None:
        """The name of the query that writes to a folder: see `folder_of`."""

    def known_names(self) -> Iterable[str]:
        """All names of streams, tables, views and queries, for suggestions."""

    def readers(self, name: str) -> Sequence[str]:
        """The names of the views and queries that read a stream, a table, or a query's answers, directly."""


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


# -- folders --------------------------------------------------------------------------------------------------------

#: Sinks that write files.
_FILE_SINKS = frozenset({"parquet", "json"})

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)


def folder_of(sink: Sink | None) -> str | None:
    """Return the folder that a sink writes to, under the one name that all ways to write it have in common.

    Links are followed, and paths begin where this process runs. None for a sink that writes no files.
    """
    if sink is None or sink.format not in _FILE_SINKS:
        return None
    return folder_of_path(dict(sink.options)["path"])


def folder_of_path(path: str) -> str:
    """Return a path under the one name that all ways to write it have in common."""
    found = _SCHEME.fullmatch(path)
    scheme, rest = ("file", path) if found is None else (found[1].lower(), found[2])
    if scheme == "file":
        return os.path.realpath(re.sub(r"\A/+", "/", rest))
    return f"{scheme}:{posixpath.normpath(rest)}"


#: Formats that read files below their option `path`, and formats that read nothing from outside.
_FILES = frozenset({"csv", "json", "parquet", "orc", "text", "xml", "replay"})
_CLOSED = frozenset({"rate", "rate-micro-batch", "memory", "python"})

#: Options of file formats that name other files, or remove those that were read.
_OTHER_FILES = frozenset({"paths", "cleansource", "sourcearchivedir", "rowvalidationxsdpath"})

_PATTERN = re.compile(r"[*?\[{]")


def source_refusal(format_: str, options: Mapping[str, str], roots: Sequence[str] | None) -> str | None:
    """Why a project with these folders does not read from a source; None if it does."""
    if roots is None or format_ in _CLOSED:
        return None
    if format_ not in _FILES:
        return f"this project limits what may be read, and the format {format_} reads more than files"
    for name, value in options.items():
        if name.lower() in _OTHER_FILES:
            return f"this project limits what may be read and written, and so refuses the option {name}"
        if refused := _path_refusal(name, value, roots):
            return refused
    return None


def sink_refusal(sink: Sink | None, roots: Sequence[str] | None) -> str | None:
    """Why a project with these folders does not write to a sink; None if it does."""
    if sink is None or roots is None:
        return None
    return next(filter(None, (_path_refusal(name, value, roots) for name, value in sink.options)), None)


def _path_refusal(name: str, path: str, roots: Sequence[str]) -> str | None:
    """Why an option is refused that names a path, or a pattern, outside of the folders; None for any other option."""
    if name.lower() != "path" or _is_inside(path, roots):
        return None
    return f"the path '{path}' lies outside of the folders that this project allows: {', '.join(roots)}"


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    """Whether a path, or all that matches a pattern, lies in one of the folders."""
    pattern = _PATTERN.search(path)
    if pattern is not None:
        rest = path[pattern.start() :]
        if ".." in rest or re.search(r"\{[^}]*/", rest):
            # It leads up from what the pattern matches, or braces hold whole paths.
            return False
        path = path[: pattern.start()].rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    folder = folder_of_path(path)
    return any(folder == root or folder.startswith(f"{root.rstrip('/')}/") for root in roots)
