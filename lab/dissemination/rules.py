"""Six ways to reorganise a tree below one node, and what each would save.

The apex k decides, and only nodes two levels below it change their parents; subtrees move along. The same nodes are
below k afterwards, so nothing changes above it: that is why k can decide alone.

    promotion         k → j → i           becomes   k → i,  k → j
    demotion          k → i,  k → j       becomes   k → j → i
    parent_child      k → j → i           becomes   k → i → j
    cousins           k → g → i,  h → j   becomes   k → g → j,  h → i
    adoption          k → g → i,  k → h   becomes   k → h → i
    uncle_nephew      k → h,  k → g → i   becomes   k → i,  k → g → h

Promotion and demotion alone reach every tree. The others are two of them at once, and get out of places where the first
half alone does not pay. All are one or two moves of a subtree to another parent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.dissemination.arrays import NONE, Arrays, Ints, Records, compiled
from lab.dissemination.moves import ROW_A, ROW_B, ROW_C, ROW_D, ROW_E, change, move, take_row
from lab.dissemination.overlay import Floats

Flags = NDArray[np.bool_]

RULES = ("promotion", "demotion", "parent_child", "cousins", "adoption", "uncle_nephew")
PROMOTION, DEMOTION, PARENT_CHILD, COUSINS, ADOPTION, UNCLE_NEPHEW = range(6)
_NOTHING = (NONE,) * 8


@dataclass(frozen=True, slots=True)
class Move:
    """A subtree goes from one parent to another."""

    node: int
    parent: int
    new_parent: int


@dataclass(frozen=True, slots=True)
class Reorganisation:
    """One use of a rule: its moves, in the order in which they are carried out, and what they change AvgLF by."""

    rule: str
    moves: tuple[Move, ...]
    change: float = 0.0


def best(made: Arrays, tree: int, apex: int, among: Collection[int] | None = None) -> Reorganisation | None:
    """The reorganisation below a node that saves most, if one saves anything.

    `among` are the children that take part, as those do that have promised to keep still; all of them if not given.
    """
    uses, changes = _priced(made, tree, apex, among)
    if not len(changes):
        return None
    least = int(np.argmin(changes))
    # Less than this is rounding, and reorganising for it would never end.
    return _reorganisation(made, apex, uses[least], float(changes[least])) if changes[least] < -1e-12 else None


def every(made: Arrays, tree: int, apex: int) -> list[Reorganisation]:
    """All reorganisations below a node, good and bad."""
    uses, changes = _priced(made, tree, apex, None)
    return [_reorganisation(made, apex, use, float(changed)) for use, changed in zip(uses, changes, strict=True)]


def apply(made: Arrays, tree: int, chosen: Reorganisation) -> None:
    for each in chosen.moves:
        move(made, tree, each.node, each.new_parent)


def candidates(made: Arrays, tree: int, apex: int) -> int:
    """How many reorganisations there are below a node."""
    fans = made.at["fan"][tree][made.at["parent"][tree] == apex]
    children, grandchildren = len(fans), int(fans.sum())
    cousins = (grandchildren**2 - int((fans**2).sum())) // 2
    return (2 * grandchildren + children) * (children - 1) + 2 * grandchildren + cousins


def moves_of(rule: int, apex: int, a: int, b: int, c: int, d: int) -> tuple[Move, ...]:
    """What a rule does to its nodes, named as in `_cost_of`."""
    if rule == PROMOTION:  # j, i
        return (Move(b, a, apex),)
    if rule == DEMOTION:  # i, j
        return (Move(a, apex, b),)
    if rule == PARENT_CHILD:  # j, i
        return Move(b, a, apex), Move(a, apex, b)
    if rule == COUSINS:  # g, i, h, j
        return Move(b, a, c), Move(d, c, a)
    if rule == ADOPTION:  # g, i, h
        return (Move(b, a, c),)
    return Move(c, b, apex), Move(a, apex, b)  # h, g, i


def _priced(made: Arrays, tree: int, apex: int, among: Collection[int] | None) -> tuple[Ints, Floats]:
    allowed = np.full(len(made.node), among is None)
    if among is not None:
        allowed[list(among)] = True
    uses = np.empty((candidates(made, tree, apex), 5), dtype=np.int64)
    number = _list(made.at[tree], apex, allowed, uses)
    changes = np.empty(number)
    _price(made, tree, apex, uses, changes)
    return uses[:number], changes


def _reorganisation(made: Arrays, apex: int, use: Ints, changed: float) -> Reorganisation:
    rule, *nodes = (int(value) for value in use)
    return Reorganisation(RULES[rule], moves_of(rule, apex, *nodes), changed / (len(made.node) - 1))


@compiled
def _list(tree: Records, k: int, allowed: Flags, uses: Ints) -> int:
    """Writes down all reorganisations below k among the children allowed: the rule, then its nodes in the order of
    `_cost_of`. Returns how many there are."""
    at = 0
    g = tree[k].child
    while g >= 0:
        i = tree[g].child
        while i >= 0 and allowed[g]:
            at = _write(uses, at, PROMOTION, g, i, NONE, NONE)
            at = _write(uses, at, PARENT_CHILD, g, i, NONE, NONE)
            i = tree[i].after
        h = tree[k].child
        while h >= 0 and allowed[g]:
            if h != g and allowed[h]:
                at = _write(uses, at, DEMOTION, g, h, NONE, NONE)
                i = tree[g].child
                while i >= 0:
                    at = _write(uses, at, ADOPTION, g, i, h, NONE)
                    at = _write(uses, at, UNCLE_NEPHEW, h, g, i, NONE)
                    j = tree[h].child
                    while j >= 0 and g < h:
                        at = _write(uses, at, COUSINS, g, i, h, j)
                        j = tree[j].after
                    i = tree[i].after
            h = tree[h].after
        g = tree[g].after
    return at


@compiled
def _write(uses: Ints, at: int, rule: int, a: int, b: int, c: int, d: int) -> int:
    uses[at, 0], uses[at, 1], uses[at, 2], uses[at, 3], uses[at, 4] = rule, a, b, c, d
    return at + 1


@compiled
def _price(s: Arrays, t: int, k: int, uses: Ints, changes: Floats) -> None:
    for at in range(len(changes)):
        changes[at] = _cost_of(s, t, k, uses[at, 0], uses[at, 1], uses[at, 2], uses[at, 3], uses[at, 4])


@compiled
def _cost_of(s: Arrays, t: int, k: int, rule: int, a: int, b: int, c: int, d: int) -> float:
    """By how much a rule changes the cost: the nodes that get other children, from the lowest to the apex."""
    if rule == PROMOTION:
        j, i = a, b
        take_row(s, t, i, ROW_A)
        steps = ((j, i, NONE, NONE, NONE, NONE, NONE, ROW_C), (k, j, ROW_C, j, NONE, ROW_A, i, ROW_E), _NOTHING)
    elif rule == DEMOTION:
        i, j = a, b
        take_row(s, t, i, ROW_A)
        steps = ((j, NONE, ROW_A, i, NONE, NONE, NONE, ROW_C), (k, j, ROW_C, j, i, NONE, NONE, ROW_E), _NOTHING)
    elif rule == PARENT_CHILD:
        j, i = a, b
        steps = (
            (j, i, NONE, NONE, NONE, NONE, NONE, ROW_C),
            (i, NONE, ROW_C, j, NONE, NONE, NONE, ROW_D),
            (k, j, ROW_D, i, NONE, NONE, NONE, ROW_E),
        )
    elif rule == COUSINS:
        g, i, h, j = a, b, c, d
        take_row(s, t, i, ROW_A)
        take_row(s, t, j, ROW_B)
        steps = (
            (g, i, ROW_B, j, NONE, NONE, NONE, ROW_C),
            (h, j, ROW_A, i, NONE, NONE, NONE, ROW_D),
            (k, g, ROW_C, g, h, ROW_D, h, ROW_E),
        )
    elif rule == ADOPTION:
        g, i, h = a, b, c
        take_row(s, t, i, ROW_A)
        steps = (
            (g, i, NONE, NONE, NONE, NONE, NONE, ROW_C),
            (h, NONE, ROW_A, i, NONE, NONE, NONE, ROW_D),
            (k, g, ROW_C, g, h, ROW_D, h, ROW_E),
        )
    else:
        h, g, i = a, b, c
        take_row(s, t, i, ROW_A)
        take_row(s, t, h, ROW_B)
        steps = ((g, i, ROW_B, h, NONE, NONE, NONE, ROW_C), (k, g, ROW_C, g, h, ROW_A, i, ROW_E), _NOTHING)
    total = 0.0
    for u, old_1, row_1, at_1, old_2, row_2, at_2, out in steps:
        if u >= 0:
            total += change(s, t, u, u == k, old_1, row_1, at_1, old_2, row_2, at_2, out)
    return total
