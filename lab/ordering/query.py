"""A query made ready to run: its distributed join graph, its output modules, and the sites that share a place.

    query = plan(graph)                                  every order that makes sense, chosen tuple by tuple
    query = plan(graph).fixed(("2", "1"), ("1", "3"))    one order, with remote outputs only

A place of several sites divides one stream among them: by the value of an attribute (`key`), or as its tuples come.
Another stream that is joined with that attribute goes to the one site that can match; all others go to every site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lab.ordering.distributed import DistributedJoinGraph, Node, distribute
from lab.ordering.join_graph import JoinGraph, cut_cycles, stream_of
from lab.ordering.modules import Module, described, output_modules
from weft.federation import FederationError


@dataclass(frozen=True, slots=True)
class Place:
    """The sites of a place, and the attribute by which they divide tuples among them, if by any."""

    sites: tuple[str, ...]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    graph: JoinGraph
    distributed: DistributedJoinGraph
    modules: tuple[Module, ...]
    places: Mapping[str, Place]

    def fixed(self, *pairs: tuple[str, str]) -> Query:
        """The same with only these modules, given by names of nodes: a static order if each node has one."""
        position = self.distributed.position
        kept = {(position(source), position(target)) for source, target in pairs}
        missing = kept - {(module.source, module.target) for module in self.modules}
        if missing:
            raise FederationError(f"there is no way {sorted(missing)}: a fixed order keeps some of the ways there are")
        return replace(self, modules=described(self.distributed, kept))


def plan(graph: JoinGraph, places: Mapping[str, Place] | None = None) -> Query:
    """From a join graph to all modules that its tuples may need."""
    cut = cut_cycles(graph)
    distributed = distribute(cut)
    known = dict(places or {})
    for node in distributed.nodes:
        known.setdefault(node.place, Place((node.place,)))
        _refuse_indivisible(node, known[node.place])
    return Query(cut, distributed, output_modules(distributed), known)


def divided_stream(node: Node, place: Place) -> str | None:
    """The stream whose tuples the sites of a place divide among them."""
    if len(place.sites) == 1:
        return None
    if place.key is not None and stream_of(place.key) in node.streams:
        return stream_of(place.key)
    return node.local[0] if node.local else None


def matching_attribute(node: Node, place: Place, stream: str) -> str | None:
    """The attribute of a stream whose value says to which site its tuples go; none if they go to all."""
    divided = divided_stream(node, place)
    if divided is None or place.key is None or stream_of(place.key) != divided:
        return None
    if stream == divided:
        return place.key
    for join in node.joins:
        if place.key in (join.left, join.right) and stream in join.streams:
            return join.attribute(stream)
    return None


def _refuse_indivisible(node: Node, place: Place) -> None:
    if len(place.sites) == 1:
        return
    divided = divided_stream(node, place)
    if divided is None:
        raise FederationError(
            f"the sites of {node.place} would all compute the same results of {', '.join(node.streams)}: "
            "give the place a key, an attribute of one of these streams"
        )
    for stream in node.local:
        if stream != divided and matching_attribute(node, place, stream) is None:
            raise FederationError(
                f"{stream} and {divided} are both divided among the sites of {node.place}, but not by the attribute "
                "that joins them, so matching tuples would not meet: make that attribute the key of the place"
            )
