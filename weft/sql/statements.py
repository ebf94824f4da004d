"""Statements with every name and type resolved: what the front end hands on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from weft.algebra import Definition
from weft.sql.problems import Problem


@dataclass(frozen=True, slots=True)
class Create:
    """`notes` say what is worth knowing of a good view or query."""

    definition: Definition
    notes: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """`kind` is STREAM, TABLE, VIEW or QUERY."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ResumeQuery:
    """Try a query that is in error again now."""

    name: str


@dataclass(frozen=True, slots=True)
class Show:
    """`kind` is STREAMS, TABLES, VIEWS, QUERIES or SETTINGS."""

    kind: str


@dataclass(frozen=True, slots=True)
class Describe:
    name: str


@dataclass(frozen=True, slots=True)
class Explain:
    """`query` is None for EXPLAIN SHARED. `format` is TEXT, VERBOSE, JSON, MERMAID, DOT or SVG."""

    query: str | None
    format: str = "TEXT"


@dataclass(frozen=True, slots=True)
class SetOption:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class NoChange:
    """A DROP … IF EXISTS of something that does not exist, or a CREATE of what is `known` already."""

    reason: str
    known: Definition | None = field(default=None, repr=False)


Statement: TypeAlias = Create | Drop | ResumeQuery | Show | Describe | Explain | SetOption | NoChange
