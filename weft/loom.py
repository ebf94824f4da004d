"""The loom: what a user of the library holds in hand.

loom = weft.open("project")
loom.execute('''
    CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE)
      WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING parquet OPTIONS (path 'data/trades');
    CREATE CONTINUOUS QUERY hot AS
      SELECT symbol, AVG(price) FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES] GROUP BY symbol;
''')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlglot import exp

from weft.algebra import Field, Query, Relation, Stream
from weft.algebra.clocks import clock_type
from weft.catalog import Catalog, CatalogError, View
from weft.plan.text import duration_text, query_text, relation_lines, window_text
from weft.sql import Code, Names, SqlError, bind, parse, split, statements
from weft.sql.binder import SETTINGS
from weft.sql.scope import span_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: a sentence, and a table where there is one to show."""

    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class _AllBut:
    """Registered names without one of them."""

    names: Names
    hidden: str

    def find_stream(self, name: str) -> Stream | None:
        return None if name.lower() == self.hidden else self.names.find_stream(name)

    def find_view(self, name: str) -> Relation | None:
        return None if name.lower() == self.hidden else self.names.find_view(name)

    def find_query(self, name: str) -> Query | None:
        return None if name.lower() == self.hidden else self.names.find_query(name)

    def known_names(self) -> Iterable[str]:
        return [each for each in self.names.known_names() if each.lower() != self.hidden]


class Loom:
    """A project: its streams, views and continuous queries."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    @classmethod
    def open(cls, directory: str | Path, *, write: bool = True) -> Self:
        """Open the project in `directory`, which is created if need be. One process at a time may write to it."""
        if write:
            Path(directory).mkdir(parents=True, exist_ok=True)
        return cls(Catalog.open(directory, write=write))

    def close(self) -> None:
        self.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def execute(self, script: str) -> list[Outcome]:
        """Run the statements of a script, each in its own transaction; the first that fails stops it.

        A CREATE that repeats what is registered already changes nothing, so a script may be run again.
        """
        outcomes = []
        for piece in split(script):
            try:
                outcomes.append(self._execute_one(piece.text))
            except SqlError as error:
                raise error.shifted(piece.start) from None
        return outcomes

    def query(self, name: str, select: str) -> Query:
        """Register a continuous query."""
        self.execute(f"CREATE CONTINUOUS QUERY `{name}` AS {select}")
        return self.catalog.query(name)

    def drop(self, name: str) -> None:
        """Drop a continuous query."""
        self.execute(f"DROP CONTINUOUS QUERY `{name}`")

    def explain(self, query: str | None = None) -> str:
        """How a query, or everything together, is evaluated."""
        if query is not None:
            return query_text(self.catalog.query(query))
        return "\n\n".join(query_text(each) for each in self.catalog.queries())

    # -- statements ---------------------------------------------------------------------------------------------------

    def _execute_one(self, text: str) -> Outcome:
        tree = parse(text)
        try:
            statement = bind(tree, self.catalog, text)
        except SqlError as error:
            if self._repeats(tree, text, error):
                return Outcome(f"{tree.this.name} is registered already")
            raise
        try:
            return self._apply(statement)
        except CatalogError as error:
            # The binder cannot know who reads what; the catalog does.
            raise SqlError.one(Code.IN_USE, str(error), span_of(tree), "") from error

    def _repeats(self, tree: exp.Expr, text: str, error: SqlError) -> bool:
        """Whether a CREATE was refused only because the very same object exists."""
        if any(problem.code is not Code.ALREADY_EXISTS for problem in error.problems):
            return False
        name: str = tree.this.name
        again = bind(tree, _AllBut(self.catalog, name.lower()), text)
        if isinstance(again, statements.CreateStream):
            return again.stream == self.catalog.find_stream(name)
        if isinstance(again, statements.CreateView):
            return again.relation == self.catalog.find_view(name)
        query = self.catalog.find_query(name)
        return isinstance(again, statements.CreateQuery) and replace(again.query, text="") == (
            query and replace(query, text="")
        )

    def _apply(self, statement: statements.Statement) -> Outcome:
        if isinstance(statement, statements.CreateStream):
            self.catalog.add_stream(statement.stream)
            return Outcome(f"stream {statement.stream.name} created")
        if isinstance(statement, statements.CreateView):
            self.catalog.add_view(View(statement.name, statement.text, statement.relation))
            return Outcome(f"view {statement.name} created")
        if isinstance(statement, statements.CreateQuery):
            self.catalog.add_query(statement.query)
            return Outcome(f"query {statement.query.name} created")
        if isinstance(statement, statements.Drop):
            self._drop(statement)
            return Outcome(f"{statement.kind.lower()} {statement.name} dropped")
        if isinstance(statement, statements.SetOption):
            self.catalog.set_setting(statement.name, statement.value)
            return Outcome(f"{statement.name} = {statement.value}")
        if isinstance(statement, statements.Show):
            return self._show(statement.kind)
        if isinstance(statement, statements.Describe):
            return self._describe(statement.name)
        if isinstance(statement, statements.Explain):
            return Outcome(self.explain(statement.query))
        return Outcome(statement.reason)

    def _drop(self, statement: statements.Drop) -> None:
        drop = {
            "STREAM": self.catalog.drop_stream,
            "VIEW": self.catalog.drop_view,
            "QUERY": self.catalog.drop_query,
        }[statement.kind]
        drop(statement.name)

    def _show(self, kind: str) -> Outcome:
        if kind == "STREAMS":
            rows = [
                (each.name, each.format, each.clock, duration_text(each.delay, clock_type(each)))
                for each in self.catalog.streams()
            ]
            return _table(("stream", "format", "clock", "watermark delay"), rows)
        if kind == "VIEWS":
            return _table(("view", "definition"), [(each.name, _one_line(each.text)) for each in self.catalog.views()])
        if kind == "QUERIES":
            listed = [(each.name, _window(each), _one_line(each.text)) for each in self.catalog.queries()]
            return _table(("query", "window", "definition"), listed)
        known = dict.fromkeys(SETTINGS, "") | {name: str(value) for name, value in self.catalog.settings().items()}
        return _table(("setting", "value"), list(known.items()))

    def _describe(self, name: str) -> Outcome:
        stream, relation = self.catalog.find_stream(name), self.catalog.find_view(name)
        if stream is not None:
            delay = duration_text(stream.delay, clock_type(stream))
            message = f"stream {stream.name} from {stream.format}; clock {stream.clock}, rows late by up to {delay}"
            return replace(_columns(stream.fields), message=message)
        kind = "query" if relation is None else "view"
        relation = relation or self.catalog.query(name).relation
        return replace(_columns(relation.fields), message=f"{kind} {name}\n" + "\n".join(relation_lines(relation)))


def _columns(fields: Sequence[Field]) -> Outcome:
    return _table(("column", "type"), [(field.name, str(field.type)) for field in fields])


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Outcome:
    return Outcome(f"{len(rows)} row{'s' * (len(rows) != 1)}", columns, tuple(rows))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _window(query: Query) -> str:
    window = query.relation.window
    return window_text(window, query.relation.clock_type) if window is not None else "-"
