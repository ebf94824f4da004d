"""What the catalog keeps besides streams and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.algebra import Query, Relation


@dataclass(frozen=True, slots=True)
class View:
    """A named relation that queries may read; binding such a query copies the relation into it."""

    name: str
    text: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Representative:
    """A query that runs for all members of a group of queries, whose answers are published under the group's name.

    A group has a new epoch when what runs for it changes, and an epoch has several parts if no single query gives the
    answers of all members. `about` is what whoever publishes its rows has to know, as plain data.
    """

    name: str
    stream: str
    epoch: int
    part: int
    query: Query
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptItinerary:
    """Where the answers of a member of a group are found, as plain data, and the first cycle in which that is so.

    A member that `ended` was dropped before that cycle. `number` is the query's.
    """

    number: int
    cycle: int
    document: Mapping[str, Any]
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Statistics:
    """The numbers that one cycle reported for a stream or a node of the plan, under a key of the reporter's choice."""

    key: str
    cycle: int
    numbers: Mapping[str, int | float]


@dataclass(frozen=True, slots=True)
class PlanVersion:
    """A plan and the number it was stored under."""

    number: int
    plan: Any


@dataclass(frozen=True, slots=True)
class Request:
    """A script that another process asked the writer to carry out, and the writer's answer once there is one."""

    id: int
    script: str
    answer: str | None
