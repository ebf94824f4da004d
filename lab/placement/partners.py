"""Whose load a node knows: a few nodes, asked for and asked by.

Partnership goes both ways, and each side counts it where it belongs: a node that asked has the other among those it
`asked`, at most `most_asked`; one that was asked has it among those it was `asked_by`, at most `most_asked_by`. Nodes
ask those first with which they share most pairs of neighbouring fragments, because work that moves between such two
nodes tends to move towards its data.

Nothing here waits: a node sends its questions, and asks again when answers have come. Each function takes what a node
knows and returns what it knows then, and what it says.

    node a                           node b
    asked {}, waiting {b}   ── ask ──→  asked_by {a}
    asked {b}, waiting {}   ←─ yes ──
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many partners a node may have, and how many strangers it asks when neighbours are not enough."""

    most_asked: int = 5
    most_asked_by: int = 3
    strangers: int = 4


def bounds(most_asked: int) -> Bounds:
    """The bounds of the experiments: half as many, rounded up, may come by themselves."""
    return Bounds(most_asked, -(-most_asked // 2))


@dataclass(frozen=True, slots=True)
class Partners:
    """What a node knows about its partners; `waiting` have not answered yet, `refused` have said no."""

    asked: frozenset[int] = frozenset()
    asked_by: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(sorted(self.asked | self.asked_by))


def ask(
    partners: Partners, neighbours: Sequence[int], strangers: Sequence[int], limits: Bounds
) -> tuple[Partners, tuple[int, ...]]:
    """Whom to ask now: neighbours, the nearest first, then strangers in the (random) order they are given in.

    A neighbour that has asked already is a partner as it is; it counts as asked from now on, which leaves room for
    others to ask.
    """
    asked, asked_by = set(partners.asked), set(partners.asked_by)
    now: list[int] = []
    for node in (*neighbours, *strangers[: limits.strangers]):
        if len(asked) + len(partners.waiting) + len(now) >= limits.most_asked:
            break
        if node in asked_by:
            asked_by.discard(node)
            asked.add(node)
        elif node not in asked and node not in partners.waiting and node not in partners.refused:
            now.append(node)
    waiting = partners.waiting | frozenset(now)
    return Partners(frozenset(asked), frozenset(asked_by), waiting, partners.refused), tuple(now)


def asked(partners: Partners, by: int, limits: Bounds) -> tuple[Partners, bool]:
    """What a node answers that is asked. Two nodes that ask each other at the same time both asked."""
    if by in partners.asked or by in partners.waiting:
        return replace(partners, asked=partners.asked | {by}, waiting=partners.waiting - {by}), True
    if by in partners.asked_by:
        return partners, True
    if len(partners.asked_by) < limits.most_asked_by:
        return replace(partners, asked_by=partners.asked_by | {by}), True
    return partners, False


def answered(partners: Partners, by: int, yes: bool) -> Partners:
    """What a node knows when its question is answered."""
    waiting = partners.waiting - {by}
    if yes:
        return replace(partners, asked=partners.asked | {by}, asked_by=partners.asked_by - {by}, waiting=waiting)
    return replace(partners, waiting=waiting, refused=partners.refused | {by})


def refreshed(partners: Partners) -> Partners:
    """From time to time refusals are forgotten: who had no room may have some now."""
    return replace(partners, refused=frozenset())


def should_look_further(load: float, known: Sequence[float], overloaded: float) -> bool:
    """Whether a node should look for partners at random: it is overloaded, and so are all whose load it knows."""
    return load > overloaded and all(each > overloaded for each in known)


def found(partners: Partners, node: int) -> Partners:
    """A partner more than the bounds allow, because all others have too much work themselves."""
    return replace(partners, asked=partners.asked | {node}, asked_by=partners.asked_by - {node})
