"""What it costs to move a subtree, without moving it; and moving it. Compiled.

A subtree that moves changes the cost of the nodes between its old and its new parent, and no others: above the lowest
node that has both below it, all sums stay as they are. `change` says what one node would cost with another set of
children, without touching anything; moves and local rules are sums of a few such changes. Each costs as much as the
tree has objects, however many children there are.
"""

from __future__ import annotations

import numpy as np

from lab.dissemination.arrays import (
    NONE,
    Arrays,
    compiled,
    cost_in_tree,
    link,
    refresh,
    unlink,
    waiting_at,
)
from lab.dissemination.overlay import SOURCE
from lab.dissemination.trees import NO_PARENT

# Rows of scratch space. A row holds the rates of a subtree as they would be; these five belong to whoever asks.
ROW_A, ROW_B, ROW_C, ROW_D, ROW_E = range(5)
_LEFT, _RIGHT, _TOP = 5, 7, 9


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
    before = cost_in_tree(
        s.at[t, u].tested, s.at[t, u].sent, s.at[t, u].rate, s.at[t, u].fan, was - own, s.at[t, u].links, f, c
    )
    now = cost_in_tree(tested, sent, rate, fan, weight - own, links, f, c)
    before += s.node[u].below * waiting_at(s.node[u].tested, s.node[u].sent, s.node[u].rate, f, c)
    now += (s.node[u].below + weight - was) * waiting_at(
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
        unlink(s, t, i)
    link(s, t, i, q)
    u = p
    while u >= 0 and u != top:
        refresh(s, t, u)
        u = s.at[t, u].parent
    u = q
    while u != top:
        refresh(s, t, u)
        u = s.at[t, u].parent
    refresh(s, t, top)
