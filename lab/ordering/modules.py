"""Output modules: by which of them results may travel from node to node, in any order that makes sense.

Algorithms 5.2 and 5.3 of the COSMOS thesis, repaired. As printed they never end when two linked nodes both need a link
to a third one, make modules that lead back to ancestors, and forget all parents of a node but the last one found. Here
parents and ancestors are known before, a module is noted before the ones that follow from it are made, and a module has
one descriptor for each parent of its receiver.

A node that has one module has a remote output (RO). One that has several has a choice, and its modules are remote
meta-operators (RMO): they stand for all that happens at the other end, and learn how much comes of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.ordering.distributed import DistributedJoinGraph
from lab.ordering.footprints import Descriptor, descriptor


@dataclass(frozen=True, slots=True, order=True)
class Module:
    """A way from one node to another."""

    source: int
    target: int
    chooses: bool
    """Whether it is one of several (RMO), or the only one (RO)."""
    descriptors: tuple[Descriptor, ...]

    def accepts(self, footprint: int) -> bool:
        return any(each.accepts(footprint) for each in self.descriptors)

    @property
    def kind(self) -> str:
        return "RMO" if self.chooses else "RO"


def output_modules(graph: DistributedJoinGraph) -> tuple[Module, ...]:
    """All modules that some tuple may need."""
    return described(graph, _linked(graph))


def described(graph: DistributedJoinGraph, pairs: Iterable[tuple[int, int]]) -> tuple[Module, ...]:
    """Modules for pairs of nodes, with their descriptors."""
    wanted = sorted(set(pairs))
    outputs = [source for source, _ in wanted]
    return tuple(
        Module(
            source,
            target,
            outputs.count(source) > 1,
            tuple(descriptor(source, parent, target) for parent in graph.parents(target)),
        )
        for source, target in wanted
    )


def _linked(graph: DistributedJoinGraph) -> list[tuple[int, int]]:
    ancestors = graph.ancestors()
    made: dict[int, list[int]] = {node: [] for node in range(len(graph.nodes))}

    def is_sensible(source: int, target: int) -> bool:
        """Nobody sends to an ancestor, which knows the tuple; and an ancestor sends only to its children, since what
        others need has not been joined yet."""
        return (
            source != target
            and graph.is_partial(target)
            and target not in ancestors[source]
            and (source in graph.parents(target) or source not in ancestors[target])
        )

    def link(source: int, target: int) -> None:
        waiting = [(source, target)]
        while waiting:
            one, other = waiting.pop()
            if other in made[one] or not is_sensible(one, other):
                continue
            # What goes to one of them first may have to go to the other one then, either way around.
            waiting.extend(pair for before in made[one] for pair in ((other, before), (before, other)))
            made[one].append(other)

    for node in range(len(graph.nodes)):
        if not graph.is_partial(node):
            _breadth_first(graph, node, link)
    return [(source, target) for source, targets in made.items() for target in targets]


def _breadth_first(graph: DistributedJoinGraph, root: int, link: Callable[[int, int], None]) -> None:
    visited, waiting = [root], deque([root])
    while waiting:
        node = waiting.popleft()
        for child in graph.children(node):
            for other in tuple(visited):
                link(other, child)
                link(child, other)
            if child not in visited:
                visited.append(child)
                waiting.append(child)
