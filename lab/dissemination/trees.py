"""Dissemination trees, as data: who sends to whom, and which objects travel that way."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lab.dissemination.overlay import SOURCE

#: The parent of the source, and that of a node which is not in the tree.
NO_PARENT, ABSENT = -1, -2


class TreeError(ValueError):
    """What was to be a tree is none."""


@dataclass(frozen=True, slots=True)
class Tree:
    """`parents[i]` is the node that sends to node i; the objects are those that travel along this tree.

    >>> tree = tree_of({1: 0, 2: 0, 3: 1}, nodes=5)
    >>> tree.parents, tree.children(0), tree.members
    ((-1, 0, 0, 1, -2), (1, 2), (0, 1, 2, 3))
    """

    parents: tuple[int, ...]
    objects: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        check(self)

    @property
    def members(self) -> tuple[int, ...]:
        return tuple(node for node, parent in enumerate(self.parents) if parent != ABSENT)

    def children(self, node: int) -> tuple[int, ...]:
        return tuple(child for child, parent in enumerate(self.parents) if parent == node)

    def ancestors(self, node: int) -> Iterator[int]:
        """The nodes on the way to the source, nearest first."""
        while (node := self.parents[node]) >= 0:
            yield node

    def moved(self, node: int, parent: int) -> Tree:
        """The tree after a node, and all that is below it, went to another parent."""
        parents = list(self.parents)
        parents[node] = parent
        return Tree(tuple(parents), self.objects)

    def without(self, node: int) -> Tree:
        """The tree after a node is gone: its children go to the node above it, which knows them already."""
        if node == SOURCE:
            raise TreeError("the source is the root of every tree: without it there is nothing to send")
        above = self.parents[node]
        parents = [above if parent == node else parent for parent in self.parents]
        parents[node] = ABSENT
        return Tree(tuple(parents), self.objects)

    def breadth_first(self) -> list[int]:
        """The members, level by level."""
        below = children_of(self)
        found, waiting = [], deque([SOURCE])
        while waiting:
            found.append(waiting.popleft())
            waiting.extend(below[found[-1]])
        return found


#: One tree for each bundle of objects. All objects in one bundle: a single tree. Each in its own: a tree per object.
Forest = tuple[Tree, ...]


def tree_of(parents: Mapping[int, int], nodes: int, objects: Iterable[int] = (0,)) -> Tree:
    """A tree from each member's parent; the source needs none."""
    listed = [NO_PARENT, *(parents.get(node, ABSENT) for node in range(1, nodes))]
    return Tree(tuple(listed), tuple(objects))


def children_of(tree: Tree) -> list[list[int]]:
    """The children of every node."""
    below: list[list[int]] = [[] for _ in tree.parents]
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            below[parent].append(node)
    return below


def check(tree: Tree) -> None:
    """Says what is wrong with a tree: a second root, a parent outside of it, or a circle."""
    parents = tree.parents
    if not parents or parents[SOURCE] != NO_PARENT:
        raise TreeError("node 0 is the source: it has no parent")
    for node, parent in enumerate(parents[1:], start=1):
        if parent == ABSENT:
            continue
        if not 0 <= parent < len(parents) or parents[parent] == ABSENT:
            raise TreeError(f"node {node} hangs under {parent}, which is not in the tree")
    reached = {SOURCE}
    for node in range(1, len(parents)):
        path: list[int] = []
        at = node
        while at not in reached and parents[at] != ABSENT:
            if at in path:
                raise TreeError(f"nodes {path[path.index(at) :]} hang under each other, and none of them at the source")
            path.append(at)
            at = parents[at]
        reached.update(path)


def pruned(tree: Tree, object_: int, interested: Iterable[int]) -> Tree:
    """The part of a tree that one object travels: the ways to the nodes that want it.

    Nodes that do not want the object stay where they forward it.
    """
    kept = {SOURCE}
    for node in interested:
        kept.add(node)
        kept.update(tree.ancestors(node))
    parents = tuple(parent if node in kept else ABSENT for node, parent in enumerate(tree.parents))
    return Tree(parents, (object_,))
