"""A forest as arrays, with everything a change of it needs already added up. Compiled.

The cost of a forest is a sum over nodes: what a node adds is the time that messages spend at it and on the links to its
children, times the weight of all that is below it,

    cost(k) = wait(k) · D(k) + Σ over trees b: (½ t(k, b)(1 − 1/|C|) + filter + send) · D(k, b) + Σ over children: W · d

with W the weight of a subtree and D that of it without its root. A subtree that moves changes the cost of the nodes
between its old and its new parent, and no others: above the lowest node that has both below it, all sums stay as they
are. `change` says what one node would cost with another set of children, without touching anything; moves and local
rules are sums of a few such changes. Each costs as much as the tree has objects, however many children there are: the
highest and second highest rate among a node and its children are kept for every object, so that taking one child out
needs no look at the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from weft.federation.dissemination.cost import SATURATION
from weft.federation.dissemination.overlay import SOURCE, Floats, Overlay
from weft.federation.dissemination.trees import ABSENT, NO_PARENT, Forest, Tree

Ints: TypeAlias = NDArray[np.int64]
Records: TypeAlias = NDArray[np.void]

#: A node that is in a tree and has no parent yet.
DETACHED = -3
#: No such child, no such row.
NONE = -1

# Rows of scratch space. A row holds the rates of a subtree as they would be; these two belong to whoever asks.
ROW_A, ROW_B = 0, 1
ROW_C, ROW_D, ROW_E = 2, 3, 4
_LEFT, _RIGHT, _TOP, _ROWS = 5, 7, 9, 10


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
        rows=np.zeros((_ROWS, len(order))),
        row_weight=np.zeros(_ROWS),
        mark=np.zeros(overlay.nodes + 1, dtype=np.int64),
    )
    for number, tree in enumerate(forest):
        for each in reversed(tree.breadth_first()):
            if tree.parents[each] >= 0:
                _link(made, number, each, tree.parents[each])
            _refresh(made, number, each)
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
    """Makes a node that is not in a tree one that waits for its parent, so that `cost_of_move` can compare parents."""
    if made.at["parent"][tree, node] != ABSENT:
        raise ValueError(f"node {node} is in the tree already")
    made.at["parent"][tree, node] = DETACHED
    _refresh(made, tree, node)


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Numba's, with the types of the function kept for whoever calls it."""
    return cast(Function, njit(cache=True)(function))


# --- what a node costs -----------------------------------------------------------------------------------------------


@compiled
def _waiting(tested: float, sent: float, rate: float, filter_time: float, send_time: float) -> float:
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
def _of_tree(
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
        total += node.below * _waiting(node.tested, node.sent, node.rate, f, c)
        for t in range(len(s.at)):
            at = s.at[t, u]
            if at.parent != ABSENT:
                total += _of_tree(at.tested, at.sent, at.rate, at.fan, at.weight - at.own_weight, at.links, f, c)
    return total


@compiled
def change(
    s: Arrays,
    t: int,
    u: int,
    is_top: bool,
    old_1: int,
    row_1: int,
    at_1: int,
    old_2: int,
    row_2: int,
    at_2: int,
    out: int,
) -> float:
    """By how much the cost of node u changes if child `old` goes and a subtree with the rates of `row`, rooted at node
    `at`, comes; twice. What u's own subtree becomes is left in row `out`.

    At the top of a change the same nodes are below u as before, so its rates stay. Elsewhere at most one child goes.
    """
    tested, sent, rate = 0.0, s.at[t, u].sent, 0.0
    fan, weight, links = s.at[t, u].fan, s.at[t, u].weight, s.at[t, u].links
    if old_1 >= 0:
        sent, fan, weight = sent - s.at[t, old_1].rate, fan - 1, weight - s.at[t, old_1].weight
        links -= s.at[t, old_1].weight * s.delay[u, old_1]
    if old_2 >= 0:
        sent, fan, weight = sent - s.at[t, old_2].rate, fan - 1, weight - s.at[t, old_2].weight
        links -= s.at[t, old_2].weight * s.delay[u, old_2]
    if row_1 >= 0:
        fan, weight = fan + 1, weight + s.row_weight[row_1]
        links += s.row_weight[row_1] * s.delay[u, at_1]
    if row_2 >= 0:
        fan, weight = fan + 1, weight + s.row_weight[row_2]
        links += s.row_weight[row_2] * s.delay[u, at_2]
    for x in range(s.columns[t], s.columns[t + 1]):
        best, wanting = s.of[u, x].best, s.of[u, x].wanting
        if old_1 >= 0:
            if not is_top and s.of[u, x].holder == old_1:
                best = s.of[u, x].second
            if s.of[old_1, x].best > 0.0:
                wanting -= 1
        if old_2 >= 0 and s.of[old_2, x].best > 0.0:
            wanting -= 1
        if row_1 >= 0 and s.rows[row_1, x] > 0.0:
            wanting += 1
            sent += s.rows[row_1, x]
            best = max(best, s.rows[row_1, x])
        if row_2 >= 0 and s.rows[row_2, x] > 0.0:
            wanting += 1
            sent += s.rows[row_2, x]
            best = max(best, s.rows[row_2, x])
        s.rows[out, x] = best
        rate += best
        tested += best * wanting
    s.row_weight[out] = weight

    f, c = s.node[u].filter_time, s.node[u].send_time
    own, was = s.at[t, u].own_weight, s.at[t, u].weight
    before = _of_tree(
        s.at[t, u].tested, s.at[t, u].sent, s.at[t, u].rate, s.at[t, u].fan, was - own, s.at[t, u].links, f, c
    )
    now = _of_tree(tested, sent, rate, fan, weight - own, links, f, c)
    before += s.node[u].below * _waiting(s.node[u].tested, s.node[u].sent, s.node[u].rate, f, c)
    now += (s.node[u].below + weight - was) * _waiting(
        s.node[u].tested + tested - s.at[t, u].tested,
        s.node[u].sent + sent - s.at[t, u].sent,
        s.node[u].rate + rate - s.at[t, u].rate,
        f,
        c,
    )
    return float(now - before)


@compiled
def take_row(s: Arrays, t: int, u: int, row: int) -> None:
    """Writes the rates and the weight of u's subtree into a row, as they are."""
    for x in range(s.columns[t], s.columns[t + 1]):
        s.rows[row, x] = s.of[u, x].best
    s.row_weight[row] = s.at[t, u].weight


# --- moving a subtree ------------------------------------------------------------------------------------------------


@compiled
def meeting(s: Arrays, t: int, i: int, p: int, q: int) -> int:
    """The lowest node that has both p and q below it or is one of them; NONE if q is below i.

    A detached node's move changes everything up to the source.
    """
    if p < 0:
        u = q
        while u >= 0:
            if u == i:
                return NONE
            u = s.at[t, u].parent
        return SOURCE
    s.mark[-1] += 1
    stamp = s.mark[-1]
    u = p
    while u >= 0:
        s.mark[u] = stamp
        u = s.at[t, u].parent
    u = q
    while u >= 0 and s.mark[u] != stamp:
        if u == i:
            return NONE
        u = s.at[t, u].parent
    return u


@compiled
def cost_of_move(s: Arrays, t: int, i: int, q: int) -> float:
    """By how much the total cost changes if i's subtree goes to q; infinity where it cannot."""
    p = s.at[t, i].parent
    if q in (i, p) or s.at[t, q].parent < NO_PARENT:
        return np.inf
    top = meeting(s, t, i, p, q)
    if top < 0:
        return np.inf
    take_row(s, t, i, ROW_A)
    total = 0.0

    old_1, row_1 = NONE, NONE
    if p >= 0:
        old_1, at, row = i, p, NONE
        while at != top:
            out = _LEFT if row != _LEFT else _LEFT + 1
            total += change(s, t, at, False, old_1, row, old_1, NONE, NONE, NONE, out)
            old_1, row, at = at, out, s.at[t, at].parent
        row_1 = row

    old_2, row_2, come = NONE, ROW_A, i
    at = q
    while at != top:
        out = _RIGHT if row_2 != _RIGHT else _RIGHT + 1
        total += change(s, t, at, False, old_2, row_2, come, NONE, NONE, NONE, out)
        old_2, row_2, come, at = at, out, at, s.at[t, at].parent
    return total + change(s, t, top, True, old_1, row_1, old_1, old_2, row_2, come, _TOP)


@compiled
def move(s: Arrays, t: int, i: int, q: int) -> None:
    """Moves i's subtree to q, and adds up anew what lies between its old and its new place."""
    p = s.at[t, i].parent
    top = meeting(s, t, i, p, q)
    if p >= 0:
        _unlink(s, t, i)
    _link(s, t, i, q)
    u = p
    while u >= 0 and u != top:
        _refresh(s, t, u)
        u = s.at[t, u].parent
    u = q
    while u != top:
        _refresh(s, t, u)
        u = s.at[t, u].parent
    _refresh(s, t, top)


@compiled
def _link(s: Arrays, t: int, i: int, q: int) -> None:
    first = s.at[t, q].child
    s.at[t, i].parent, s.at[t, i].after, s.at[t, i].before, s.at[t, q].child = q, first, NONE, i
    if first >= 0:
        s.at[t, first].before = i


@compiled
def _unlink(s: Arrays, t: int, i: int) -> None:
    before, after = s.at[t, i].before, s.at[t, i].after
    if before >= 0:
        s.at[t, before].after = after
    else:
        s.at[t, s.at[t, i].parent].child = after
    if after >= 0:
        s.at[t, after].before = before
    s.at[t, i].parent = DETACHED


@compiled
def _refresh(s: Arrays, t: int, u: int) -> None:
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
