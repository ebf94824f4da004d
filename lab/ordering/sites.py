"""Sites: one processor each, which does one item after the other for all eddies that live there.

A site takes turns between its inputs: streams that it reads, and items that came from other sites. It skips those that
have nothing, and those whose last results have found no room yet. How long an item takes is what its steps cost, times
how slow the site is: a slower processor, or other programs that want it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from lab.ordering.channels import Lane
from lab.ordering.eddies import Eddy
from lab.ordering.items import Item
from lab.ordering.setting import Costs
from lab.simulate.events import SECOND, Events


@dataclass(slots=True, eq=False)
class Site:
    events: Events
    name: str
    costs: Costs
    speed: float
    wire: int
    """Nanoseconds to send one item from here or to here."""
    others: int = 0
    """Other programs that want the processor."""
    eddies: list[Eddy] = field(default_factory=list)
    inputs: list[Lane] = field(default_factory=list)
    busy: bool = False
    in_hand: list[Item] = field(default_factory=list)
    """Results of the item that is being worked on."""
    worked: int = 0
    """Nanoseconds."""
    done: int = 0
    """When it last finished something."""
    _next: int = 0
    _owed: float = 0.0

    def opened(self, lane: Lane) -> None:
        """One more input."""
        self.inputs.append(lane)
        lane.eddy.lanes.append(lane)

    def take(self, item: Item, lane: Lane) -> None:
        """An item has come."""
        lane.queue.append(item)
        if not self.busy:
            self.work()

    def work(self) -> None:
        """Begins with the next item, if there is one."""
        inputs, count = self.inputs, len(self.inputs)
        for step in range(count):
            position = (self._next + step) % count
            lane = inputs[position]
            if lane.queue and not lane.stuck:
                self._next = position + 1
                self._begin(lane)
                return

    def _begin(self, lane: Lane) -> None:
        self.busy = True
        item = lane.queue.popleft()
        if lane.channel is None:
            cost = self.costs.read
        else:
            cost = self.costs.receive
            if len(lane.queue) + 1 == lane.channel.settings.capacity:  # it was full
                lane.channel.move()
        results, spent = lane.eddy.process(item, lane.stream)
        self.in_hand = results
        duration = round((cost + spent + self._owed) * (1 + self.others) / self.speed * SECOND)
        self._owed = 0.0
        self.worked += duration
        self.events.after(duration, partial(self._finish, lane))

    def _finish(self, lane: Lane) -> None:
        self.done = self.events.now
        results, self.in_hand = self.in_hand, []
        for result in results:
            if lane.stuck or not lane.eddy.hand_over(result):
                lane.stuck.append(result)
                lane.eddy.stuck += 1
        self.busy = False
        self.work()

    def has_room(self, eddy: Eddy) -> None:
        """A queue of one of its eddies has got room: results that were stuck may go on."""
        for lane in eddy.lanes:
            stuck = lane.stuck
            while stuck:
                # Out of the queue first: what is handed over may make room, and lead back here.
                result = stuck.popleft()
                if not eddy.hand_over(result):
                    stuck.appendleft(result)
                    break
                eddy.stuck -= 1
        if not self.busy:
            self.work()

    def owe_message(self) -> None:
        """A report was sent or has come. It is handled like any message, together with the next item."""
        self._owed += self.costs.send
