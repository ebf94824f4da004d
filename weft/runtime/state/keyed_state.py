"""Keyed state in memory, and the rules by which it may change.

The state of a node is a log of segments. A host is given an order for each node, computes cycles, and says what they
change:

    order       what is committed: the segments of the node. A host knows nothing else of the state
    warm copy   what these segments hold, in memory, so that the next cycle costs what is new
    change      what a cycle adds to the log

Three things hold. Orders name committed segments. A warm copy is made of them alone: one that has computed a cycle is
torn, and is made again from segments, unless that cycle is the next one to be committed. And a change is true when the
commit record names it; until then it is a block in a file that no record names.

Nothing here, and nothing in a `KeyedState`, needs Spark: an executor could host a node, or some of its keys, as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.runtime.state.commits import Segment
from weft.runtime.state.store import Block, Change, StateStore


class KeyedState(Protocol):
    """The state of a node."""

    def restore(self, blocks: Iterable[bytes]) -> None:
        """Take back what segments hold, oldest first; of a key that is in several, the newest record counts."""

    def changed(self) -> Block | None:
        """The records that the newest cycle has changed."""

    def whole(self) -> Block | None:
        """All records that may still be needed."""


State = TypeVar("State", bound=KeyedState)
Answers = TypeVar("Answers")


@dataclass(frozen=True)
class Order(Generic[State]):
    """What a host is asked to have: the state of a node, as the `committed` segments say.

    `make` gives their state, from the warm copy as of the last commit if there is one; without one, it is restored.
    """

    node: LogId
    committed: tuple[Segment, ...]
    make: Callable[[State | None], State]


class DriverHost(Generic[State]):
    """The warm copies of nodes in the driver."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._orders: dict[LogId, Order[State]] = {}
        self._copies: dict[LogId, State] = {}
        self._added: dict[LogId, Block | None] = {}
        #: The cycle that the copies are the state after; None while one is under way.
        self._cycle: int | None = None

    def begin(self, last_cycle: int, orders: Iterable[Order[State]]) -> None:
        """Have the state of some nodes after the last commit, and of no others."""
        known = self._copies if self._cycle == last_cycle else {}
        self._orders = {each.node: each for each in orders}
        self._copies, self._added, self._cycle = {}, {}, None
        for node, order in self._orders.items():
            copy = self._copies[node] = order.make(known.get(node))
            if node not in known:
                copy.restore(map(self._store.read, order.committed))

    def __getitem__(self, node: LogId) -> State:
        return self._copies[node]

    def __contains__(self, node: LogId) -> bool:
        return node in self._copies

    def __iter__(self) -> Iterator[LogId]:
        return iter(self._copies)

    def run(self, node: LogId, compute: Callable[[State], Answers]) -> Answers:
        """Compute a cycle of a node."""
        answers = compute(self._copies[node])
        self._added[node] = self._copies[node].changed()
        return answers

    def changes(self, since: Callable[[LogId], Clock] = lambda node: None) -> Iterator[Change]:
        """What the cycle changes; `since` says which clocks the log of a node still needs."""
        for node, order in self._orders.items():
            whole = self._copies[node].whole
            yield Change(node, order.committed, self._added.get(node), _only(whole), since(node))

    def commit(self, cycle: int) -> None:
        """The changes of a cycle are true."""
        self._cycle = cycle


def _only(whole: Callable[[], Block | None]) -> Callable[[object], Iterable[Block | None]]:
    """All of a state, in the place of its segments."""
    return lambda segments: [whole()]
