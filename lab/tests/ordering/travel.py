"""One answer on its way: a tuple of each stream, all of which match, and a choice of module at every step.

Nothing of the simulator is used: only nodes, modules and footprints. `choose` may be random, or go through all choices
one after the other (`every_way`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lab.ordering.distributed import DistributedJoinGraph
from lab.ordering.footprints import bits
from lab.ordering.modules import Module


@dataclass(frozen=True)
class Travelled:
    answers: int
    dead_ends: list[tuple[str, int]]
    void: list[str]
    redundant: list[str]


def travel(
    graph: DistributedJoinGraph, modules: Sequence[Module], choose: Callable[[Sequence[Module]], Module]
) -> Travelled:
    everywhere = bits(range(len(graph.nodes)))
    held: list[dict[str, tuple[int, frozenset[str]]]] = [{} for _ in graph.nodes]
    found = Travelled(0, [], [], [])
    answers = 0
    arriving = [
        (place, stream, 0, frozenset({stream})) for place, node in enumerate(graph.nodes) for stream in node.local
    ]
    while arriving:
        place, stream, footprint, streams = arriving.pop()
        node, here = graph.nodes[place], held[place]
        if stream in here:
            found.redundant.append(f"{stream} at {node.name}")
        here[stream] = footprint, streams
        if len(here) < len(node.streams):
            continue
        footprint, streams = 1 << place, frozenset[str]()
        for other_footprint, other_streams in here.values():
            footprint |= other_footprint
            streams |= other_streams
        if footprint == everywhere:
            answers += 1
            continue
        allowed = [module for module in modules if module.source == place and module.accepts(footprint)]
        if not allowed:
            found.dead_ends.append((node.name, footprint))
            continue
        target = choose(allowed).target
        if footprint >> target & 1:
            found.redundant.append(f"{sorted(streams)} to {graph.nodes[target].name}")
        entries = streams & set(graph.nodes[target].streams)
        if len(entries) != 1:
            found.void.append(f"{sorted(streams)} to {graph.nodes[target].name}")
            continue
        arriving.append((target, next(iter(entries)), footprint, streams))
    return Travelled(answers, found.dead_ends, found.void, found.redundant)


def every_way(graph: DistributedJoinGraph, modules: Sequence[Module]) -> Iterator[Travelled]:
    """All of them: each run repeats the choices of a prefix, then takes the first of what is offered."""
    prefixes: list[tuple[int, ...]] = [()]
    while prefixes:
        prefix = prefixes.pop()
        taken: list[int] = []

        def choose(offered: Sequence[Module], prefix: tuple[int, ...] = prefix, taken: list[int] = taken) -> Module:
            if len(taken) < len(prefix):
                choice = prefix[len(taken)]
            else:
                choice = 0
                prefixes.extend((*taken, other) for other in range(1, len(offered)))
            taken.append(choice)
            return offered[choice]

        yield travel(graph, modules, choose)
