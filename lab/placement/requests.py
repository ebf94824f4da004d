"""When a node asks another one for work, and for how much.

Those that have little ask: once in a round, by its own clock, a node compares its load with the mean of its own and its
partners'. If it has clearly less, it asks the most loaded of them for half of what they differ by.

That leaves fragments where they happen to be once loads are alike, and mixes them ever more: a node that is idle again
asks one partner for more than that one has of the node's own fragments, and gets others. So a node may also call its
own fragments home (`home_requests`), from all that run some of them and have more to do than it has, be it only a
little. Work never moves away from home for a small difference, only back, so this comes to rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lab.placement.load import NEWS

Node = TypeVar("Node", bound=Hashable)

#: How many times the load of a node its most loaded partner may have before it asks, where this is looked at.
APART = 1.5

#: The part of its load that a node gives away in one round, at most.
MOST_GIVEN = 0.5


@dataclass(frozen=True, slots=True)
class Request(Generic[Node]):
    """`receiver` asks `giver` for some load, a part of one node's time; `load` is what the receiver has itself.

    With `only_home` it asks for fragments that are native to it, and for nothing else.
    """

    receiver: Node
    giver: Node
    amount: float
    load: float
    only_home: bool = False


def request(
    node: Node, load: float, partners: Mapping[Node, float], factor: float = NEWS, apart: float | None = None
) -> Request[Node] | None:
    """What a node asks for at the start of a round, if anything. Of equally loaded partners the first is asked.

    One partner of eight with twice the load lifts the mean by a ninth only, and nobody asks. With `apart` a node also
    asks if the most loaded of its partners has more than so many times its own load.
    """
    if not partners:
        return None
    mean = (load + sum(partners.values())) / (1 + len(partners))
    giver = max(partners, key=lambda each: partners[each])
    if factor * load >= mean and (apart is None or apart * load >= partners[giver]):
        return None
    return Request(node, giver, (partners[giver] - load) / 2.0, load)


def home_requests(node: Node, load: float, hosts: Mapping[Node, float]) -> list[Request[Node]]:
    """What a node asks of those that run its own fragments, by their loads: of each that has more to do than it has
    itself, half of the difference. All together can give no more than what is its own."""
    return [
        Request(node, host, (each - load) / 2.0, load, only_home=True) for host, each in hosts.items() if each > load
    ]


def in_order(requests: Iterable[Request[Node]]) -> list[Request[Node]]:
    """The order in which a node serves requests: the largest first, equal ones as they came."""
    return sorted(requests, key=lambda each: -each.amount)
