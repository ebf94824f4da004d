"""The oracle behind weft's own language: statements in, answers out.

script = Script("CREATE STREAM s (n BIGINT, v BIGINT) WATERMARK FOR n AS n USING memory")
script.run("CREATE CONTINUOUS QUERY q AS SELECT COUNT(*) FROM s [ROWS 10 SLIDE 10]")
script.cycle(s=[(3, 1), (12, 1)])["q"]          # [(0, 10, 1)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.oracle import DeadLetter, Oracle, Values
from weft.algebra import Query, Stream, Table, Value
from weft.sql import NamesInMemory, read, split, statements


class Script:
    """Runs statements against an oracle. Rows are tuples in the order of the stream's columns."""

    def __init__(self, text: str = "") -> None:
        self.names = NamesInMemory()
        self.tables: dict[str, Table] = {}
        self.queries: dict[str, Query] = {}
        self.oracle = Oracle([])
        self.run(text)

    def run(self, text: str) -> None:
        """Runs the statements of a script between two cycles."""
        for piece in split(text):
            self._take(read(piece.text, self.names))

    def _take(self, statement: statements.Statement) -> None:
        match statement:
            case statements.Create(definition):
                self.names.add(definition)
                match definition:
                    case Stream():
                        self.oracle.declare(definition)
                    case Table():
                        self.tables[definition.name.lower()] = definition
                    case Query():
                        self.queries[definition.name.lower()] = definition
                        self.oracle.create(definition)
            case statements.Drop("QUERY", name):
                self.names.drop(name)
                self.oracle.drop(self.queries.pop(name.lower()).name)
            case statements.Drop("STREAM", name):
                self.names.drop(name)
            case _:
                raise ValueError(f"the oracle has no use for {statement}")

    def load(self, **rows: Sequence[Values]) -> None:
        """The rows that tables have from the next cycle on, as tuples in the order of their columns."""
        for name, loaded in rows.items():
            names = [field.name for field in self.tables[name].fields]
            self.load_named({name: [dict(zip(names, row, strict=True)) for row in loaded]})

    def load_named(self, rows: Mapping[str, Sequence[Mapping[str, Value]]]) -> None:
        """The same, with rows that have their columns by name."""
        for name, loaded in rows.items():
            self.oracle.load(self.tables[name], loaded)

    def query(self, name: str) -> Query:
        return self.queries[name.lower()]

    def cycle(self, heartbeats: Mapping[str, int] | None = None, **rows: Sequence[Values]) -> dict[str, list[Values]]:
        """One cycle with these rows per stream; the answers of every query in it."""
        named = {
            stream: [
                {field.name: value for field, value in zip(self.oracle.streams[stream].fields, row, strict=True)}
                for row in arrived
            ]
            for stream, arrived in rows.items()
        }
        return self.oracle.cycle(named, heartbeats)

    def dead_letters(self, stream: str) -> list[DeadLetter]:
        return self.oracle.dead_letters[stream]
