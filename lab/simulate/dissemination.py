"""Updates on their way down dissemination trees, message by message: what the cost model predicts, measured.

Every node is one queue, first come, first served. A message is tested for each child that wants its object, in random
order, and sent to those that want this update; both take times that are exponential around the node's means. Links
delay. The trees, the statistics that nodes decide by, and the protocol that reorganises the trees are the ones of
`lab.dissemination`; only time is made up.

Which updates a node wants follows from one mark that each update has, uniform in [0, 1): a node that wants a share of
them wants those with marks below the share. So whatever a node wants, a stricter one wants too, as with tolerances.

A node has lost fidelity from the birth of an update that it wants until that one, or a newer one, reaches it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from lab.dissemination.overlay import SOURCE, Overlay
from lab.dissemination.trees import Forest
from lab.simulate.events import SECOND, Events, seconds
from lab.simulate.tree_rounds import Control, Intervals

#: Copies of an update that came twice, over the old way and the new one, are few and close together.
_REMEMBERED = 8


@dataclass(slots=True)
class Copy:
    """What a node knows of an object it wants: the updates that it waits for, oldest first, and how long it waited."""

    share: float
    awaited: deque[int] = field(default_factory=deque)
    behind_since: int = 0
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run came to. Losses are shares of time, averaged over objects and nodes, one for each window."""

    losses: list[float]
    counts: Counter[str]
    forest: Forest

    @property
    def average_loss(self) -> float:
        return sum(self.losses) / len(self.losses)


class Dissemination:
    """A run: `advance` lets time pass, and the world can be changed in between."""

    def __init__(self, overlay: Overlay, forest: Forest, seed: int = 0, adapt: Intervals | None = None) -> None:
        self.events = Events(seed)
        self.counts: Counter[str] = Counter()
        self.control = Control(self.events, overlay, forest, self.counts, adapt)
        self._service, self._marks = self.events.random("service"), self.events.random("marks")
        self._tree_of = {x: number for number, tree in enumerate(forest) for x in tree.objects}
        rates = overlay.rates
        self._copies = [
            {x: Copy(rates[node, x] / rates[SOURCE, x]) for x in self._tree_of if node != SOURCE and rates[node, x] > 0}
            for node in range(overlay.nodes)
        ]
        self._wanting = {x: [copies[x] for copies in self._copies if x in copies] for x in self._tree_of}
        self._delay = overlay.delay.tolist()
        self._busy_until = [0] * overlay.nodes
        self._seen: dict[tuple[int, int], deque[int]] = {}
        self._versions = dict.fromkeys(self._tree_of, 0)
        self._died: dict[int, int] = {}
        for x in self._tree_of:
            self._schedule_update(x, float(rates[SOURCE, x]))

    # --- what can be done to it --------------------------------------------------------------------------------------

    def advance(self, duration: float, window: float | None = None) -> Measured:
        """Lets seconds pass; the loss of fidelity is that of each window within them."""
        step = seconds(window or duration)
        end = self.events.now + seconds(duration)
        losses = []
        while self.events.now < end:
            self._forget_losses()
            began = self.events.now
            self.events.run_until(min(end, began + step))
            losses.append(self._loss(self.events.now - began))
        return Measured(losses, Counter(self.counts), self.control.forest)

    def change_times(self, filter_time: Sequence[float], send_time: Sequence[float]) -> None:
        """Nodes become busier or idler, from the next message on. They find out by measuring."""
        self.control.change_times(filter_time, send_time)

    def fail(self, node: int, noticed_after: float) -> None:
        """A node stops for good, with all that is in its queue. When that is noticed, its children go to the node above
        it, which sends them the newest update that it has."""
        self._died[node] = self.events.now
        self.events.after(seconds(noticed_after), partial(self._mend, node))

    # --- updates -----------------------------------------------------------------------------------------------------

    def _schedule_update(self, x: int, rate: float) -> None:
        if rate > 0:
            self.events.after(seconds(self._marks.expovariate(rate)), partial(self._update, x, rate))

    def _update(self, x: int, rate: float) -> None:
        self._schedule_update(x, rate)
        self._versions[x] = version = self._versions[x] + 1
        mark, now = self._marks.random(), self.events.now
        for copy in self._wanting[x]:
            if mark < copy.share:
                if not copy.awaited:
                    copy.behind_since = now
                copy.awaited.append(version)
        self.counts["updates"] += 1
        self._forward(SOURCE, x, version, mark)

    def _arrive(self, node: int, x: int, version: int, mark: float, sender: int, left: int) -> None:
        if node in self._died or (sender in self._died and left > self._died[sender]):
            self.counts["lost"] += 1
            return
        seen = self._seen.get((node, x))
        if seen is None:
            seen = self._seen[node, x] = deque(maxlen=_REMEMBERED)
        if version in seen:
            self.counts["doubled"] += 1
            return
        seen.append(version)
        self.counts["received"] += 1
        copy = self._copies[node].get(x)
        if copy is not None and copy.awaited:
            while copy.awaited and copy.awaited[0] <= version:
                copy.awaited.popleft()
            if not copy.awaited:
                copy.behind += self.events.now - copy.behind_since
        self._forward(node, x, version, mark)

    def _forward(self, node: int, x: int, version: int, mark: float) -> None:
        """Tests and sends for every child. The queue is served in order, so its future can be told at once."""
        children = self.control.children(self._tree_of[x], node)
        if not children:
            return
        draw, shares, control = self._service.expovariate, self.control.shares[x], self.control
        filtering, sending, delays = control.filter_rate[node], control.send_rate[node], self._delay[node]
        at = max(self.events.now, self._busy_until[node])
        order = [child for child in children if shares[child] > 0.0]
        if len(order) > 1:
            self._service.shuffle(order)
        for child in order:
            took = draw(filtering)
            control.noted_filter(node, took)
            at += round(took * SECOND)
            if mark < shares[child]:
                took = draw(sending)
                control.noted_send(node, took)
                at += round(took * SECOND)
                arrive = partial(self._arrive, child, x, version, mark, node, at)
                self.events.at(at + round(delays[child] * SECOND), arrive)
        self._busy_until[node] = at

    # --- failures ----------------------------------------------------------------------------------------------------

    def _mend(self, node: int) -> None:
        before = self.control.forest
        self.control.remove(node)
        for tree in before:
            above = tree.parents[node]
            for child in tree.children(node) if above >= 0 else ():
                for x in tree.objects:
                    seen = self._seen.get((above, x))
                    newest = self._versions[x] if above == SOURCE else max(seen) if seen else 0
                    if newest and self.control.shares[x][child] > 0.0:
                        self.counts["caught up"] += 1
                        # Everyone below may have missed it, so it has the mark of an update that all of them want.
                        arrive = partial(self._arrive, child, x, newest, 0.0, above, self.events.now)
                        self.events.after(seconds(self._delay[above][child]), arrive)

    # --- measuring ---------------------------------------------------------------------------------------------------

    def _forget_losses(self) -> None:
        for copies in self._copies:
            for copy in copies.values():
                copy.behind = 0
                copy.behind_since = max(copy.behind_since, self.events.now)

    def _loss(self, duration: int) -> float:
        now, of_nodes = self.events.now, []
        for node, copies in enumerate(self._copies):
            if copies and node not in self._died:
                behind = sum(copy.behind + (now - copy.behind_since if copy.awaited else 0) for copy in copies.values())
                of_nodes.append(behind / duration / len(copies))
        return sum(of_nodes) / len(of_nodes)


def disseminate(
    overlay: Overlay,
    forest: Forest,
    duration: float,
    seed: int = 0,
    adapt: Intervals | None = None,
    window: float | None = None,
) -> Measured:
    """A run from beginning to end, in seconds."""
    return Dissemination(overlay, forest, seed, adapt).advance(duration, window)
