"""The distributed join graph: which part of a query runs at which place, and who needs whose results.

A node is a sub-query: streams that are connected by joins of one place, or a stream that its own place only reads. An
edge u → v says that a stream which v joins is in u's results. A node without incoming edges is self-contained, one with
them is partial.

`distribute` goes breadth-first over the annotated join graph, as Algorithm 5.1 of the COSMOS thesis, with the test
that is missing there: a join may be evaluated at neither of its streams' places, and then both have to send. Without
that test the result depends on the stream where one starts.

Several sub-queries of one place are nodes of their own, as the thesis proposes in a remark. Only with that, and without
cycles across places, is the graph certain to have no cycle: two nodes share a stream at most, and a way through nodes
that goes from stream to stream never comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from lab.ordering.join_graph import Groups, Join, JoinGraph


@dataclass(frozen=True, slots=True)
class Node:
    """A sub-query: what one place does for the query."""

    name: str
    place: str
    streams: tuple[str, ...]
    """All that are joined here."""
    local: tuple[str, ...]
    """Those of them that are received here."""
    joins: tuple[Join, ...]


@dataclass(frozen=True, slots=True)
class DistributedJoinGraph:
    nodes: tuple[Node, ...]
    edges: frozenset[tuple[int, int]]
    """Pairs of positions in `nodes`: the second needs results of the first."""
    selections: tuple[Join, ...] = ()

    def parents(self, node: int) -> tuple[int, ...]:
        return tuple(sorted(source for source, target in self.edges if target == node))

    def children(self, node: int) -> tuple[int, ...]:
        return tuple(sorted(target for source, target in self.edges if source == node))

    def is_partial(self, node: int) -> bool:
        return any(target == node for _, target in self.edges)

    def position(self, name: str) -> int:
        return next(place for place, node in enumerate(self.nodes) if node.name == name)

    def ancestors(self) -> tuple[frozenset[int], ...]:
        """Of each node, all from which a way leads to it."""
        return tuple(frozenset(_above(self, node)) for node in range(len(self.nodes)))


def _above(graph: DistributedJoinGraph, node: int) -> set[int]:
    found: set[int] = set()
    waiting = list(graph.parents(node))
    while waiting:
        parent = waiting.pop()
        if parent not in found:
            found.add(parent)
            waiting.extend(graph.parents(parent))
    return found


def distribute(graph: JoinGraph, start: str | None = None) -> DistributedJoinGraph:
    """The distributed form of a join graph whose cycles are cut (`cut_cycles`); the same from whichever stream."""
    nodes = _sub_queries(graph)
    home = {stream: place for place, node in enumerate(nodes) for stream in node.local}
    evaluates = {join: place for place, node in enumerate(nodes) for join in node.joins}
    edges: set[tuple[int, int]] = set()
    first = min(graph.streams) if start is None else start
    visited, waiting = {first}, deque([first])
    while waiting:
        stream = waiting.popleft()
        for join in graph.joins_of(stream):
            other = join.other(stream)
            if other in visited:
                continue
            node = evaluates[join]
            edges.update((home[each], node) for each in (stream, other) if home[each] != node)
            visited.add(other)
            waiting.append(other)
    return DistributedJoinGraph(nodes, frozenset(edges), graph.selections)


def _sub_queries(graph: JoinGraph) -> tuple[Node, ...]:
    """Streams that joins of one place connect, and streams that their places only read."""
    places = sorted({*graph.streams.values(), *(join.place for join in graph.joins)})
    return tuple(node for place in places for node in _at(graph, place))


def _at(graph: JoinGraph, place: str) -> Iterator[Node]:
    here = [join for join in graph.joins if join.place == place]
    received = {stream for stream, at in graph.streams.items() if at == place}
    concerned = sorted(received | {stream for join in here for stream in join.streams})
    groups = Groups(concerned)
    for join in here:
        groups.unite(*join.streams)
    leaders = sorted({groups.of(stream) for stream in concerned})
    for number, leader in enumerate(leaders):
        streams = tuple(stream for stream in concerned if groups.of(stream) == leader)
        yield Node(
            place if number == 0 else f"{place}/{number + 1}",
            place,
            streams,
            tuple(stream for stream in streams if stream in received),
            tuple(join for join in here if join.streams[0] in streams),
        )
