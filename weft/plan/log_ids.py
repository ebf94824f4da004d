"""Names of logs: what the rows or the state that a log holds are of."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class LogKind(StrEnum):
    """What a log holds."""

    STREAM = "stream"
    TABLE = "table"
    #: The rows that a query answers.
    ANSWERS = "answers"
    #: The rows of an operator inside a query.
    ROWS = "rows"
    #: The rows of a group of joins.
    JOINED = "joined"
    #: The partial aggregates of a stream.
    PARTIALS = "partials"
    #: The aggregates that never close, over the rows of another log.
    RUNNING = "running"
    #: The merged groups of an aggregate that never closes, as Spark keeps it.
    GROUPS = "groups"
    #: The values that DISTINCT or a set operator remembers.
    VALUES = "values"


class LogId(str):
    """The name of a log: its kind, and what it is of.

    It is a text, `stream trades`, as digests, statistics, the catalog and commits write it, and compares like one.
    """

    __slots__ = ("kind", "of")
    kind: LogKind
    of: str

    def __new__(cls, kind: LogKind, of: str) -> Self:
        made = super().__new__(cls, f"{kind} {of}")
        made.kind, made.of = kind, of
        return made

    def __getnewargs__(self) -> tuple[LogKind, str]:  # type: ignore[override]
        """The arguments that unpickling makes it from: operators with names of logs are sent to executors."""
        return self.kind, self.of

    @classmethod
    def parse(cls, text: str) -> LogId:
        """Return the name that was written as a text."""
        kind, _, of = text.partition(" ")
        return cls(LogKind(kind), of)

    @property
    def is_table(self) -> bool:
        return self.kind is LogKind.TABLE
