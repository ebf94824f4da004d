"""The protocol that reorganises trees, carried out between events: messages take as long as links do.

Nodes measure how long they filter and send, tell others when it has changed enough, and choose among the six rules by
what was told (reports are counted; they are too few to keep anyone busy). Rates are known from requirements. What all
nodes together have been told is kept once, in the arrays that the rules work on; a node reads of it what concerns its
children and grandchildren.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lab.dissemination import rules
from lab.dissemination.arrays import arrays, forest_of
from lab.dissemination.overlay import SOURCE, Floats, Overlay
from lab.dissemination.protocol import Message, Node, View, begin, receive
from lab.dissemination.rounds import is_worth_reporting
from lab.dissemination.rules import Move
from lab.dissemination.trees import Forest, children_of
from lab.simulate.events import Events, seconds

#: Fewer measurements than this in a window say nothing.
_ENOUGH = 10


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between tokens, and between looks at the statistics."""

    tokens: float = 200.0
    statistics: float = 50.0


class Control:
    """Who sends to whom at the moment, and how that changes."""

    def __init__(
        self, events: Events, overlay: Overlay, forest: Forest, counts: Counter[str], intervals: Intervals | None
    ) -> None:
        self._events, self._counts = events, counts
        self._overlay = overlay
        self._known_filter, self._known_send = overlay.filter_time.copy(), overlay.send_time.copy()
        self._life = 0
        self._reset(forest)
        self.filter_rate: list[float] = []
        self.send_rate: list[float] = []
        self.change_times(overlay.filter_time.tolist(), overlay.send_time.tolist())
        self._filtered, self._sent = [[0.0, 0] for _ in range(overlay.nodes)], [[0.0, 0] for _ in range(overlay.nodes)]
        if intervals is not None:
            events.every(seconds(intervals.statistics), self._look)
            events.every(seconds(intervals.tokens), self._begin)

    @property
    def forest(self) -> Forest:
        return forest_of(self._made)

    def children(self, tree: int, node: int) -> Sequence[int]:
        return self._nodes[node].children.get(tree, ())

    def change_times(self, filter_time: Sequence[float], send_time: Sequence[float]) -> None:
        self.filter_rate = [1.0 / time for time in filter_time]
        self.send_rate = [1.0 / time for time in send_time]

    def remove(self, node: int) -> None:
        """A node is gone. Whatever was being agreed on is forgotten; the next token starts afresh."""
        self._reset(tuple(tree.without(node) if node in tree.members else tree for tree in self.forest))

    def noted_filter(self, node: int, took: float) -> None:
        noted = self._filtered[node]
        noted[0] += took
        noted[1] += 1

    def noted_send(self, node: int, took: float) -> None:
        noted = self._sent[node]
        noted[0] += took
        noted[1] += 1

    # --- statistics --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """The end of a window: what has changed enough is reported."""
        changed = self._report(self._known_filter, self._filtered) + self._report(self._known_send, self._sent)
        self._counts["reports"] += changed
        if changed:
            self._made = arrays(self._known(), self.forest)

    def _known(self) -> Overlay:
        return self._overlay.with_times(self._known_filter, self._known_send)

    @staticmethod
    def _report(known: Floats, noted: list[list[float]]) -> int:
        changed = 0
        for node, (total, number) in enumerate(noted):
            if number >= _ENOUGH and is_worth_reporting(known[node], total / number):
                known[node] = total / number
                changed += 1
            noted[node] = [0.0, 0]
        return changed

    # --- the protocol ------------------------------------------------------------------------------------------------

    def _reset(self, forest: Forest) -> None:
        self._made = arrays(self._known(), forest)
        below = [children_of(tree) for tree in forest]
        members = [set(tree.members) for tree in forest]
        self._nodes = [
            Node(node, {t: tuple(below[t][node]) for t in range(len(forest)) if node in members[t]})
            for node in range(self._overlay.nodes)
        ]
        self._life += 1
        self._find_shares()

    def _find_shares(self) -> None:
        """For each object the share of its updates that each node and those below it want."""
        best, full = self._made.of["best"], self._made.of["own"][SOURCE]
        self.shares = {int(x): (best[:, at] / full[at]).tolist() for at, x in enumerate(self._made.objects) if full[at]}

    def _begin(self) -> None:
        for tree in range(len(self._made.at)):
            self._nodes[SOURCE], sent = begin(self._nodes[SOURCE], tree, self._decide)
            self._send(sent)

    def _send(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._counts[message.kind.value] += 1
            delay = seconds(self._overlay.delay[message.sender, message.receiver])
            self._events.after(delay, partial(self._deliver, message, self._life))

    def _deliver(self, message: Message, life: int) -> None:
        if life == self._life:
            node, sent = receive(self._nodes[message.receiver], message, self._decide)
            self._nodes[message.receiver] = node
            self._send(sent)

    def _decide(self, view: View) -> tuple[Move, ...]:
        chosen = rules.best(self._made, view.tree, view.apex, view.grandchildren)
        if chosen is None:
            return ()
        rules.apply(self._made, view.tree, chosen)
        self._find_shares()
        self._counts["reorganisations"] += 1
        return chosen.moves
