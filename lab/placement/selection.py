"""Which fragments go: flow-aware, and the strategies it is compared with.

A node that was asked for load ranks what it runs and gives away the best ranked, until the request is met or half of
its load is gone in this round.

    elementary      most load for a byte of state first
    intermediate    foreign fragments before native ones, then as above
    flow-aware      where does the data flow? a fragment that goes to its native node, or to where its neighbours are,
                    saves transfers; one that leaves them makes some
    homing          as flow-aware, but where the receiver gets the stream anyway comes before where neighbours are: a
                    stream that has to be sent to one node more costs most. Together with calls for one's own fragments
                    (`requests.home_requests`)

The first three are COSMOS's; the last one is ours. A fragment is *native* to the node that its stream comes to, and
foreign everywhere else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from lab.placement.requests import MOST_GIVEN, Request

Node = TypeVar("Node", bound=Hashable)
Unit = TypeVar("Unit", bound=Hashable)


class Strategy(Enum):
    """How a node ranks what it could give away."""

    ELEMENTARY = "elementary"
    INTERMEDIATE = "intermediate"
    FLOW_AWARE = "flow-aware"
    HOMING = "homing"


@dataclass(frozen=True, slots=True)
class Movable(Generic[Unit, Node]):
    """Something that runs on a node and can move.

    `load` is the part of the node's time that it takes, `state` the bytes that go with it, `native` the node that its
    stream comes to, `neighbours` the nodes that the fragments next to it in the flow of data run on, and `fed` those
    that get its stream already.
    """

    unit: Unit
    load: float
    state: float
    native: Node
    neighbours: tuple[Node, ...] = ()
    fed: tuple[Node, ...] = ()

    @property
    def density(self) -> float:
        """Load moved for a byte sent."""
        return self.load / max(self.state, 1.0)


def load_of(operators: Iterable[tuple[float, int]]) -> float:
    """The load of a fragment: for each of its operators, the load of what physically runs, and how many share it."""
    return sum(load / sharers for load, sharers in operators)


def direction(movable: Movable[Unit, Node], giver: Node, receiver: Node) -> int:
    """0: foreign, and going home. 1: foreign otherwise. 2: native here."""
    if movable.native == giver:
        return 2
    return 0 if movable.native == receiver else 1


def company(movable: Movable[Unit, Node], giver: Node, receiver: Node) -> int:
    """Where its neighbours are: 0 at the receiver only, 1 at both, 2 at neither, 3 at the giver only."""
    there, here = receiver in movable.neighbours, giver in movable.neighbours
    return {(True, False): 0, (True, True): 1, (False, False): 2, (False, True): 3}[there, here]


def ranked(
    strategy: Strategy, movables: Sequence[Movable[Unit, Node]], giver: Node, receiver: Node
) -> list[Movable[Unit, Node]]:
    """What to give away, the best first. Equal ones stay in the order they are given in."""
    if strategy is Strategy.ELEMENTARY:
        return sorted(movables, key=lambda each: -each.density)
    if strategy is Strategy.INTERMEDIATE:
        return sorted(movables, key=lambda each: (each.native == giver, -each.density))
    if strategy is Strategy.FLOW_AWARE:
        return sorted(
            movables, key=lambda each: (direction(each, giver, receiver), company(each, giver, receiver), -each.density)
        )
    return sorted(
        movables,
        key=lambda each: (
            direction(each, giver, receiver),
            receiver not in each.fed,
            company(each, giver, receiver),
            -each.density,
        ),
    )


def select(
    strategy: Strategy, movables: Sequence[Movable[Unit, Node]], asked: Request[Node], load: float, may_give: float
) -> list[Movable[Unit, Node]]:
    """What a node of that load gives for a request, and is allowed to in this round.

    What is more than may be given is passed over. What is more than is still asked for is passed over unless the two
    nodes' loads are nearer to each other with it than without: giving a little too much is better than giving nothing,
    and giving so much that the receiver would have to give it back is not.
    """
    taken: list[Movable[Unit, Node]] = []
    given, receiver_load = 0.0, asked.load
    for each in ranked(strategy, movables, asked.giver, asked.receiver):
        if asked.only_home and each.native != asked.receiver:
            continue
        if given >= asked.amount:
            break
        if each.load <= 0.0 or given + each.load > may_give:
            continue
        apart, apart_then = abs(load - receiver_load), abs(load - receiver_load - 2.0 * each.load)
        if given + each.load > asked.amount and apart_then >= apart:
            continue
        taken.append(each)
        given += each.load
        load -= each.load
        receiver_load += each.load
    return taken


def allowance(load: float, given: float = 0.0) -> float:
    """What a node may still give in a round: half of what it had when the round began, less what it has given since."""
    return max(MOST_GIVEN * load - given, 0.0)
