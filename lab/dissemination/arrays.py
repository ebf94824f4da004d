"""A forest as arrays, with everything a change of it needs already added up. Compiled.

The cost of a forest is a sum over nodes: what a node adds is the time that messages spend at it and on the links to its
children, times the weight of all that is below it,

    cost(k) = wait(k) · D(k) + Σ over trees b: (½ t(k, b)(1 − 1/|C|) + filter + send) · D(k, b) + Σ over children: W · d

with W the weight of a subtree and D that of it without its root. All parts of these sums are kept for every node and
tree, so that `moves` can tell what any change would cost. The highest and second highest rate among a node and its
children are kept too, for every object: taking one child out needs no look at the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lab.dissemination.cost import SATURATION
from lab.dissemination.overlay import Floats, Overlay
from lab.dissemination.trees import ABSENT, Forest, Tree

Ints: TypeAlias = NDArray[np.int64]
Records: TypeAlias = NDArray[np.void]

#: A node that is in a tree and has no parent yet.
DETACHED = -3
#: No such child, no such row.
NONE = -1

#: Rows of scratch space, for `moves`.
ROWS = 10


_OF_OBJECT = np.dtype(
    [
        ("own", np.float64),
        ("best", np.float64),  # the highest rate of the node and its children: the effective rate of the subtree
        ("second", np.float64),  # the highest without the one that has `best`
        ("holder", np.int64),  # the child that has `best`, or NONE: the node itself
        ("wanting", np.int64),  # how many children want the object
    ]
)
_OF_TREE = np.dtype(
    [
        ("parent", np.int64),
        ("child", np.int64),  # the first of the children
        ("after", np.int64),  # the next child of the same parent
        ("before", np.int64),
        ("fan", np.int64),  # how many children
        ("own_weight", np.float64),
        ("weight", np.float64),  # of the subtree
        ("links", np.float64),  # Σ over children: weight × delay
        ("tested", np.float64),  # tests for children a second
        ("sent", np.float64),  # messages to children a second
        ("rate", np.float64),  # messages received a second
    ]
)
_OF_NODE = np.dtype(
    [
        ("filter_time", np.float64),
        ("send_time", np.float64),
        ("below", np.float64),  # weight below the node; this and the next over all trees
        ("tested", np.float64),
        ("sent", np.float64),
        ("rate", np.float64),
    ]
)


class Arrays(NamedTuple):
    """Records, because compiled functions take a few large arrays far quicker than many small ones."""

    columns: Ints  # where the columns of each tree begin, and the end of the last
    objects: Ints  # the object of each column
    of: Records  # by node and column
    at: Records  # by tree and node
    node: Records
    delay: Floats
    rows: Floats
    row_weight: Floats
    mark: Ints  # the last entry is the newest mark


def arrays(overlay: Overlay, forest: Forest) -> Arrays:
    """The arrays of a forest; what they hold is the overlay's and the trees' alone, so they can be made again."""
    order = [x for tree in forest for x in tree.objects]
    if len(set(order)) != len(order):
        raise ValueError("an object travels along one tree, and here is one with two")
    widths = [len(tree.objects) for tree in forest]
    weights = overlay.weights()

    of = np.zeros((overlay.nodes, len(order)), dtype=_OF_OBJECT)
    of["own"] = of["best"] = overlay.rates[:, order]
    of["holder"] = NONE
    at = np.zeros((len(forest), overlay.nodes), dtype=_OF_TREE)
    at["child"] = at["after"] = at["before"] = NONE
    for number, tree in enumerate(forest):
        at["parent"][number] = tree.parents
        at["own_weight"][number] = weights[:, list(tree.objects)].sum(axis=1)
    node = np.zeros(overlay.nodes, dtype=_OF_NODE)
    node["filter_time"], node["send_time"] = overlay.filter_time, overlay.send_time
    made = Arrays(
        columns=np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        objects=np.array(order, dtype=np.int64),
        of=of,
        at=at,
        node=node,
        delay=overlay.delay.copy(),
        rows=np.zeros((ROWS, len(order))),
        row_weight=np.zeros(ROWS),
        mark=np.zeros(overlay.nodes + 1, dtype=np.int64),
    )
    for number, tree in enumerate(forest):
        for each in reversed(tree.breadth_first()):
            if tree.parents[each] >= 0:
                link(made, number, each, tree.parents[each])
            refresh(made, number, each)
    return made


def forest_of(made: Arrays) -> Forest:
    """The trees that arrays stand for."""
    return tuple(
        Tree(
            tuple(int(parent) for parent in made.at["parent"][number]),
            tuple(int(x) for x in made.objects[made.columns[number] : made.columns[number + 1]]),
        )
        for number in range(len(made.at))
    )


def average_loss(made: Arrays) -> float:
    """AvgLF, from the sums that are kept."""
    return float(total_cost(made)) / (len(made.node) - 1)


def detach(made: Arrays, tree: int, node: int) -> None:
    """Makes a node that is not in a tree one that waits for its parent: its moves can then be compared."""
    if made.at["parent"][tree, node] != ABSENT:
        raise ValueError(f"node {node} is in the tree already")
    made.at["parent"][tree, node] = DETACHED
    refresh(made, tree, node)


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Numba's, with the types of the function kept for whoever calls it."""
    return cast(Function, njit(cache=True)(function))


# --- what a node costs -----------------------------------------------------------------------------------------------


@compiled
def waiting_at(tested: float, sent: float, rate: float, filter_time: float, send_time: float) -> float:
    """`cost.waiting`, from sums per second."""
    if rate == 0.0:
        return 0.0
    load = filter_time * tested + send_time * sent
    time = load / rate
    if load <= SATURATION:
        return load / (1.0 - load) * time
    idle = 1.0 - SATURATION
    return (SATURATION / idle + (load - SATURATION) / (idle * idle)) * time


@compiled
def cost_in_tree(
    tested: float, sent: float, rate: float, fan: int, below: float, links: float, filter_time: float, send_time: float
) -> float:
    """What a node adds to the cost of one tree, without its queue."""
    if fan == 0:
        return 0.0
    time = (filter_time * tested + send_time * sent) / rate if rate > 0.0 else 0.0
    return (0.5 * time * (1.0 - 1.0 / fan) + filter_time + send_time) * below + links


@compiled
def total_cost(s: Arrays) -> float:
    """Σ over nodes: the average loss of fidelity times the number of nodes."""
    total = 0.0
    for u in range(len(s.node)):
        node = s.node[u]
        f, c = node.filter_time, node.send_time
        total += node.below * waiting_at(node.tested, node.sent, node.rate, f, c)
        for t in range(len(s.at)):
            at = s.at[t, u]
            if at.parent != ABSENT:
                total += cost_in_tree(at.tested, at.sent, at.rate, at.fan, at.weight - at.own_weight, at.links, f, c)
    return total


@compiled
def link(s: Arrays, t: int, i: int, q: int) -> None:
    first = s.at[t, q].child
    s.at[t, i].parent, s.at[t, i].after, s.at[t, i].before, s.at[t, q].child = q, first, NONE, i
    if first >= 0:
        s.at[t, first].before = i


@compiled
def unlink(s: Arrays, t: int, i: int) -> None:
    before, after = s.at[t, i].before, s.at[t, i].after
    if before >= 0:
        s.at[t, before].after = after
    else:
        s.at[t, s.at[t, i].parent].child = after
    if after >= 0:
        s.at[t, after].before = before
    s.at[t, i].parent = DETACHED


@compiled
def refresh(s: Arrays, t: int, u: int) -> None:
    """All sums of node u in one tree, from its children's."""
    fan, weight, links, sent = 0, s.at[t, u].own_weight, 0.0, 0.0
    j = s.at[t, u].child
    while j >= 0:
        fan += 1
        weight += s.at[t, j].weight
        links += s.at[t, j].weight * s.delay[u, j]
        sent += s.at[t, j].rate
        j = s.at[t, j].after
    tested, rate = 0.0, 0.0
    for x in range(s.columns[t], s.columns[t + 1]):
        best, second, holder, wanting = s.of[u, x].own, 0.0, NONE, 0
        j = s.at[t, u].child
        while j >= 0:
            value = s.of[j, x].best
            if value > 0.0:
                wanting += 1
            if value > best:
                best, second, holder = value, best, j
            elif value > second:
                second = value
            j = s.at[t, j].after
        s.of[u, x].best, s.of[u, x].second, s.of[u, x].holder, s.of[u, x].wanting = best, second, holder, wanting
        rate += best
        tested += best * wanting
    s.node[u].tested += tested - s.at[t, u].tested
    s.node[u].sent += sent - s.at[t, u].sent
    s.node[u].rate += rate - s.at[t, u].rate
    s.node[u].below += (weight - s.at[t, u].own_weight) - max(0.0, s.at[t, u].weight - s.at[t, u].own_weight)
    s.at[t, u].tested, s.at[t, u].sent, s.at[t, u].rate = tested, sent, rate
    s.at[t, u].fan, s.at[t, u].weight, s.at[t, u].links = fan, weight, links
