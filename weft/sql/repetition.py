"""Whether a CREATE only repeats what is registered, so that a script may be run again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from weft.algebra import Query, Relation, Stream, Table
from weft.sql import statements
from weft.sql.binder import bind
from weft.sql.errors import Code, SqlError
from weft.sql.names import Names


@dataclass(frozen=True)
class _AllBut:
    """Registered names without one of them."""

    names: Names
    hidden: str

    def find_stream(self, name: str) -> Stream | None:
        return None if name.lower() == self.hidden else self.names.find_stream(name)

    def find_table(self, name: str) -> Table | None:
        return None if name.lower() == self.hidden else self.names.find_table(name)

    def find_view(self, name: str) -> Relation | None:
        return None if name.lower() == self.hidden else self.names.find_view(name)

    def find_query(self, name: str) -> Query | None:
        return None if name.lower() == self.hidden else self.names.find_query(name)

    def allowed_paths(self) -> Sequence[str] | None:
        return self.names.allowed_paths()

    def find_writer(self, folder: str) -> str | None:
        name = self.names.find_writer(folder)
        return None if name is not None and name.lower() == self.hidden else name

    def known_names(self) -> Iterable[str]:
        return [each for each in self.names.known_names() if each.lower() != self.hidden]

    def readers(self, name: str) -> Sequence[str]:
        return self.names.readers(name)


def bind_or_repeat(tree: exp.Expr, names: Names, text: str) -> statements.Statement:
    """The bound form of a statement; Nothing for a CREATE of exactly what exists already. Raises SqlError."""
    try:
        return bind(tree, names, text)
    except SqlError as error:
        if any(problem.code is not Code.ALREADY_EXISTS for problem in error.problems):
            raise
        name: str = tree.this.name
        again = bind(tree, _AllBut(names, name.lower()), text)
        if not _is_registered(again, names, name):
            raise
        return statements.Nothing(f"{name} is registered already")


def _is_registered(statement: statements.Statement, names: Names, name: str) -> bool:
    if isinstance(statement, statements.CreateStream):
        return statement.stream == names.find_stream(name)
    if isinstance(statement, statements.CreateTable):
        return statement.table == names.find_table(name)
    if isinstance(statement, statements.CreateView):
        return statement.relation == names.find_view(name)
    query = names.find_query(name)
    # The text may differ in white space and comments; what it means may not.
    return (
        isinstance(statement, statements.CreateQuery)
        and query is not None
        and replace(statement.query, text="") == replace(query, text="")
    )
