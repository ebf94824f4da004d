"""A query as a graph: streams with the places that receive them, joins with the places that evaluate them.

A place is one site, or several that share its work: then the tuples of one stream are divided among them, by the value
of an attribute or just as they come.

    graph = JoinGraph(
        streams={"R": "1", "S": "2", "T": "3"},
        joins=(Join("R.a", "S.a", "1"), Join("S.a", "T.a", "3")),
    )

A graph with cycles keeps those that one place can close by itself: there a tuple may take either way around. Cycles
across places are cut: `cut_cycles` turns one join of each into a selection over tuples that are joined already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.federation import FederationError


@dataclass(frozen=True, slots=True, order=True)
class Join:
    """`left = right`, each written as stream.attribute, and the place that evaluates it."""

    left: str
    right: str
    place: str

    @property
    def streams(self) -> tuple[str, str]:
        return stream_of(self.left), stream_of(self.right)

    def attribute(self, stream: str) -> str:
        """The side of the condition that is the stream's."""
        return self.left if stream_of(self.left) == stream else self.right

    def other(self, stream: str) -> str:
        """The stream on the other side."""
        left, right = self.streams
        return right if stream == left else left


def stream_of(attribute: str) -> str:
    return attribute.partition(".")[0]


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Streams with their places; joins; and selections, which compare tuples that other joins have put together."""

    streams: Mapping[str, str]
    joins: tuple[Join, ...]
    selections: tuple[Join, ...] = field(default=())

    def __post_init__(self) -> None:
        for join in (*self.joins, *self.selections):
            for stream in join.streams:
                if stream not in self.streams:
                    raise FederationError(
                        f"{join.left} = {join.right} names the stream {stream}, which no place receives: give it one"
                    )
            if join.streams[0] == join.streams[1]:
                raise FederationError(
                    f"{join.left} = {join.right} compares tuples of one stream with each other: "
                    "a self-join needs the stream twice, under two names"
                )
        _refuse_apart(self)

    def joins_of(self, stream: str) -> Iterator[Join]:
        return (join for join in self.joins if stream in join.streams)


def _refuse_apart(graph: JoinGraph) -> None:
    groups = Groups(graph.streams)
    for join in graph.joins:
        groups.unite(*join.streams)
    apart = [stream for stream in graph.streams if groups.of(stream) != groups.of(next(iter(graph.streams)))]
    if apart:
        raise FederationError(
            f"no join leads from {next(iter(graph.streams))} to {', '.join(apart)}: "
            "streams that are not joined make two queries"
        )


class Groups:
    """Which things belong together (union–find)."""

    def __init__(self, things: Iterable[str]) -> None:
        self._leader = {thing: thing for thing in things}

    def of(self, thing: str) -> str:
        while self._leader[thing] != thing:
            self._leader[thing] = self._leader[self._leader[thing]]
            thing = self._leader[thing]
        return thing

    def unite(self, one: str, other: str) -> None:
        first, second = sorted((self.of(one), self.of(other)))
        self._leader[second] = first


def cut_cycles(graph: JoinGraph) -> JoinGraph:
    """The same query without cycles across places.

    Joins are taken place by place. One that connects streams which are connected already closes a cycle: it stays a
    join if the cycle lies within its place, and becomes a selection otherwise. Which ones are cut depends on names
    alone, not on the order in which they are given.
    """
    connected = Groups(graph.streams)
    joins: list[Join] = []
    selections = list(graph.selections)
    for place in sorted({join.place for join in graph.joins}):
        within = Groups(graph.streams)
        for join in sorted(each for each in graph.joins if each.place == place):
            left, right = join.streams
            if connected.of(left) != connected.of(right):
                connected.unite(left, right)
                within.unite(left, right)
                joins.append(join)
            elif within.of(left) == within.of(right):
                joins.append(join)
            else:
                selections.append(join)
    return JoinGraph(graph.streams, tuple(joins), tuple(selections))
