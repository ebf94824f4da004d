"""The network: selections and joins that queries share, as data.

A node gives the rows of its parents that satisfy its predicates. What a parent gives, all nodes above it share.

    base        the rows of a log: a stream, a table, or what another query answers no parents
    selection   the rows of its parent that satisfy its predicates                  one parent
    join        the pairs of rows of its parents that satisfy them                  two parents

Every node reads one or more **legs**, the logs at its feet, from left to right: a join has those of its left parent,
then those of its right one. Leg i is called `T<i+1>` in predicates, whatever a user called it, so a column has the same
name in every node above a join's left parent, and `T1.amount` of a join's right parent is `T<n+1>.amount` in the join.

    F ── amount > 500000 ──> S1 ── amount > 1000000 ──> S2          legs (F), (F)
    S2 ⋈ S1  ON T1.benef = T2.orig AND T2.amount > T1.amount / 2    legs (F, F)

A leg's clock is the column that shows it, or else its column `CLOCK`. A table is a leg without a clock, to which no
rows are ever added. There is no join of tables alone.

A row of a node keeps the earliest arrival among the rows it is made of, those of tables left out. A query looks at
those alone that arrived with it or after it. So a node may be older than a query that comes to share it: what it gave
before does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from weft.plan.log_ids import LogId
from weft.predicates.clauses import PredicateSet

Key = TypeVar("Key", bound=Hashable)

#: The name of a leg's clock that no column of its log shows: a BIGINT in ticks. Columns of users cannot have it.
CLOCK = "\0clock"


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `predicates` are what it checks of its parents' rows, over columns `T<leg>.<name>`.

    `columns` are those that someone above needs, as (leg, name), with legs counted from 0. A node is `timely` if it
    leaves out rows that came too late for every window: joins whose rows expire are, plain selections are not.
    """

    number: int
    parents: tuple[int, ...]
    legs: tuple[LogId, ...]
    predicates: PredicateSet
    columns: tuple[tuple[int, str], ...]
    timely: bool = False

    @property
    def is_base(self) -> bool:
        return not self.parents

    @property
    def is_join(self) -> bool:
        return len(self.parents) == 2


@dataclass(frozen=True, slots=True)
class Result:
    """Where a select finds its rows: in a node, its input i being the node's leg `legs[i]`."""

    node: int
    legs: tuple[int, ...]


@dataclass(slots=True)
class Computation:
    """What a node computes, as the planner of the network knows it.

    Its **anchor** is the nearest join or log at or below it, and `selected` is what its rows satisfy beyond those of
    its anchor. A join has two **join anchors**, those of its parents; `joined` is what its rows satisfy beyond pairs of
    rows of these two. `rows` is how many it was expected to have when it was made.
    """

    number: int
    parents: tuple[int, ...]
    legs: tuple[LogId, ...]
    predicates: PredicateSet
    timely: bool
    level: int
    anchor: int
    selected: PredicateSet
    join_anchors: tuple[int, int] | None
    joined: PredicateSet
    rows: int


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Where a select finds its rows, and the columns that it needs of them, as the node counts legs."""

    result: Result
    columns: frozenset[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Network:
    """Nodes by number, parents before children, and for each select, by its place, where its rows are.

    A number identifies a set of rows, for good. How a node gets its rows may change: a selection may find a closer
    parent, and a join may become a selection of a weaker join's rows, or a join again. Numbers are never used twice.
    """

    nodes: Mapping[int, Node]
    results: Mapping[str, Result]


def parents_first(parents: Mapping[Key, tuple[Key, ...]], starts: Iterable[Key] | None = None) -> Iterator[Key]:
    """Nodes, each after its parents, otherwise in their order: all of them, or some and what they are made from.

    Raises KeyError if a parent is missing, and ValueError if a node is below itself.
    """
    given: set[Key] = set()
    for start in parents if starts is None else starts:
        waiting, above = [start], set[Key]()
        while waiting:
            missing = [each for each in parents[waiting[-1]] if each not in given]
            if missing:
                above.add(waiting[-1])
                if above.intersection(missing):
                    raise ValueError(f"node {waiting[-1]} is below itself")
                waiting.extend(missing)
                continue
            number = waiting.pop()
            if number not in given:
                given.add(number)
                yield number
