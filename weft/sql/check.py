"""Checks a whole script without registering anything: every mistake in it, in one go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from weft.algebra import Query, Relation, Stream, Table
from weft.sql import dialect, statements
from weft.sql.errors import Problem, SqlError
from weft.sql.folders import folder_of
from weft.sql.names import Names, NamesInMemory
from weft.sql.repetition import bind_or_repeat
from weft.sql.script import split


@dataclass(frozen=True)
class Checked:
    """One statement of a script that was found good, and where it starts."""

    statement: statements.Statement
    start: int


@dataclass(frozen=True)
class Report:
    """What a check found. `notes` say what is worth knowing of good statements.

    `skipped` counts statements that build on a refused one: nothing can be said of them.
    """

    good: tuple[Checked, ...]
    problems: tuple[Problem, ...]
    skipped: int
    notes: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def good_count(self) -> int:
        return len(self.good)

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries that the script creates and does not drop again, in order."""
        left: dict[str, Query] = {}
        for each in self.good:
            if isinstance(each.statement, statements.CreateQuery):
                left[each.statement.query.name.lower()] = each.statement.query
            elif isinstance(each.statement, statements.Drop):
                left.pop(each.statement.name.lower(), None)
        return tuple(left.values())


class _Layered(NamesInMemory):
    """Names that the script defines on top of those registered already."""

    def __init__(self, below: Names) -> None:
        super().__init__()
        self.below = below
        self.dropped: set[str] = set()
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

    def apply(self, statement: statements.Statement) -> None:
        if isinstance(statement, statements.CreateStream):
            self.streams[statement.stream.name.lower()] = statement.stream
        elif isinstance(statement, statements.CreateTable):
            self.tables[statement.table.name.lower()] = statement.table
        elif isinstance(statement, statements.CreateQuery):
            self.queries[statement.query.name.lower()] = statement.query
            folder = folder_of(statement.query.sink)
            if folder is not None:
                self._writers[folder] = statement.query.name
        elif isinstance(statement, statements.CreateView):
            self.views[statement.name.lower()] = statement.relation
        elif isinstance(statement, statements.Drop):
            name = statement.name.lower()
            self.dropped.add(name)
            for each in (self.streams, self.tables, self.views, self.queries):
                each.pop(name, None)


def check(script: str, names: Names | None = None) -> Report:
    """Reads and binds every statement of a script, each on top of the good ones before it.

    A statement that names an object whose own CREATE was refused is skipped: the first mistake is the one to mend.
    """
    known = _Layered(names or NamesInMemory())
    refused: set[str] = set()
    good: list[Checked] = []
    problems: list[Problem] = []
    notes: list[Problem] = []
    skipped = 0
    for piece in split(script):
        tree: exp.Expr | None = None
        try:
            tree = dialect.parse(piece.text)
            if _mentioned(tree) & refused:
                refused |= _created(tree)
                skipped += 1
                continue
            statement = bind_or_repeat(tree, known, piece.text)
        except SqlError as error:
            problems.extend(error.shifted(piece.start).problems)
            refused |= _created(tree) if tree is not None else _created_by_text(piece.text)
            continue
        if isinstance(statement, (statements.CreateQuery, statements.CreateView)):
            notes += [note.shifted(piece.start) for note in statement.notes]
        known.apply(statement)
        good.append(Checked(statement, piece.start))
    return Report(tuple(good), tuple(problems), skipped, tuple(notes))


def _created(tree: exp.Expr) -> set[str]:
    if isinstance(tree, (dialect.StreamNode, dialect.TableNode, dialect.QueryNode, dialect.ViewNode)):
        return {tree.this.name.lower()}
    return set()


def _created_by_text(text: str) -> set[str]:
    """The name that a statement which cannot be parsed would have created, as far as one can tell."""
    words = re.sub(r"(?i)\bIF\s+NOT\s+EXISTS\b", "", text.replace("(", " ")).split()
    if len(words) > 2 and words[0].upper() == "CREATE":
        name = words[3] if words[1].upper() == "CONTINUOUS" and len(words) > 3 else words[2]
        return {name.strip("`").lower()}
    return set()


def _mentioned(tree: exp.Expr) -> set[str]:
    named = {table.name.lower() for table in tree.find_all(exp.Table)}
    if isinstance(tree, (dialect.DropNode, dialect.DescribeNode, dialect.ResumeNode)) or (
        isinstance(tree, dialect.ExplainNode) and tree.this is not None
    ):
        named.add(tree.this.name.lower())
    return named
