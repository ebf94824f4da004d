"""Trees from nothing: Greedy, and the simple ones that it is compared with.

Each takes the bundles of objects that are to travel together, and makes one tree for each: `one_bundle` gives a single
tree for all objects, `bundle_each` a tree for every object, with only those nodes in it that want the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from lab.dissemination.arrays import Arrays, Ints, arrays, average_loss, compiled, detach, forest_of
from lab.dissemination.moves import cost_of_move, move
from lab.dissemination.overlay import SOURCE, Overlay
from lab.dissemination.trees import Forest, Tree, tree_of

Bundles = Sequence[tuple[int, ...]]


def one_bundle(overlay: Overlay) -> Bundles:
    """All objects in one tree."""
    return (tuple(range(overlay.objects)),)


def bundle_each(overlay: Overlay) -> Bundles:
    """A tree for each object that somebody wants."""
    return tuple((x,) for x in range(overlay.objects) if overlay.interested((x,)))


def star(overlay: Overlay, bundles: Bundles) -> Forest:
    """No cooperation: the source sends to everyone itself."""
    return tuple(
        tree_of(dict.fromkeys(overlay.interested(objects), SOURCE), overlay.nodes, objects) for objects in bundles
    )


def random_trees(overlay: Overlay, bundles: Bundles, seed: int) -> Forest:
    """Nodes come in any order, and each chooses any node that is there: what is built without knowing anything."""
    random = Random(seed)
    return tuple(_random_tree(overlay, objects, random) for objects in bundles)


def _random_tree(overlay: Overlay, objects: tuple[int, ...], random: Random) -> Tree:
    nodes = overlay.interested(objects)
    random.shuffle(nodes)
    there, parents = [SOURCE], {}
    for node in nodes:
        parents[node] = random.choice(there)
        there.append(node)
    return tree_of(parents, overlay.nodes, objects)


def greedy(overlay: Overlay, bundles: Bundles) -> Forest:
    """Nodes come in the order of how near and how fast they are, and each goes where the trees so far lose least."""
    quickness = overlay.delay[SOURCE] + overlay.filter_time + overlay.send_time
    order = sorted(range(1, overlay.nodes), key=lambda node: (quickness[node], node))
    made = arrays(overlay, tuple(tree_of({}, overlay.nodes, objects) for objects in bundles))
    wanting = [set(overlay.interested(objects)) for objects in bundles]
    there = np.zeros((len(bundles), overlay.nodes), dtype=np.bool_)
    there[:, SOURCE] = True
    for node in order:
        for tree, nodes in enumerate(wanting):
            if node in nodes:
                detach(made, tree, node)
                move(made, tree, node, _best_parent(made, tree, node, np.flatnonzero(there[tree])))
                there[tree, node] = True
    return forest_of(made)


@compiled
def _best_parent(s: Arrays, t: int, i: int, parents: Ints) -> int:
    best, least = SOURCE, np.inf
    for q in parents:
        cost = cost_of_move(s, t, i, q)
        if cost < least:
            best, least = q, cost
    return best


#: Numbers of children per node that DiTA tries.
_FAN_OUTS = range(1, 9)


def dita(overlay: Overlay, bundles: Bundles) -> Forest:
    """DiTA, in the form that favours it: with that limit to the number of children which turns out best.

    Nodes come in the order of their requirements, strictest first, so that nobody gets more than its parent does; each
    goes to the nearest that has room. Neither the nodes' speed nor the way to the source is looked at.
    """
    forests = [tuple(dita_tree(overlay, objects, fan_out) for objects in bundles) for fan_out in _FAN_OUTS]
    return min(forests, key=lambda forest: average_loss(arrays(overlay, forest)))


def dita_tree(overlay: Overlay, objects: tuple[int, ...], fan_out: int) -> Tree:
    """DiTA with a number of children that no node, nor the source, may exceed."""
    strictness = overlay.rates[:, list(objects)].sum(axis=1)
    order = sorted(overlay.interested(objects), key=lambda node: (-strictness[node], node))
    room = np.zeros(overlay.nodes, dtype=np.int64)
    room[SOURCE] = fan_out
    parents: dict[int, int] = {}
    for node in order:
        parent = int(np.argmin(np.where(room > 0, overlay.delay[:, node], np.inf)))
        parents[node] = parent
        room[parent] -= 1
        room[node] = fan_out
    return tree_of(parents, overlay.nodes, objects)
