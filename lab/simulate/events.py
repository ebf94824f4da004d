"""What happens when: a queue of events, and random numbers that come from one seed.

Time is whole nanoseconds, so that two events are at the same instant or not, on every machine alike. Events of the same
instant happen in the order in which they were scheduled. Nothing here looks at a real clock: a run with the same seed
is the same run.

    events = Events(seed=1)
    events.after(seconds(0.2), lambda: arrive(message))
    events.run_until(seconds(3600))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

SECOND = 1_000_000_000

Action = Callable[[], None]


def seconds(duration: float) -> int:
    """A duration in seconds as the nanoseconds that the queue counts in."""
    return round(duration * SECOND)


@dataclass(slots=True, eq=False)
class Event:
    """Something that will happen at an instant, unless it is cancelled first."""

    at: int
    action: Action | None

    def cancel(self) -> None:
        """Keeps it from happening. It stays in the queue, which drops it when its instant comes."""
        self.action = None


@dataclass(slots=True)
class Events:
    """The queue. `now` is the instant of the event that is happening, or the end of the last run."""

    seed: int = 0
    now: int = 0
    happened: int = 0
    _numbered: int = 0
    _queue: list[tuple[int, int, Event]] = field(default_factory=list)
    _randoms: dict[str, Random] = field(default_factory=dict)

    def at(self, instant: int, action: Action) -> Event:
        """Schedules an action at an instant, which may be now but not before."""
        if instant < self.now:
            raise ValueError(f"an event at {instant} ns would lie before the present, {self.now} ns")
        event = Event(instant, action)
        self._numbered += 1
        heappush(self._queue, (instant, self._numbered, event))
        return event

    def after(self, delay: int, action: Action) -> Event:
        """Schedules an action some nanoseconds from now."""
        return self.at(self.now + delay, action)

    def every(self, period: int, action: Action) -> Callable[[], None]:
        """Schedules an action once per period, the first time a period from now; returns how to stop it."""
        if period <= 0:
            raise ValueError(f"a period of {period} ns never lets time pass")
        waiting: list[Event] = []

        def again() -> None:
            waiting[:] = [self.after(period, again)]
            action()

        def stop() -> None:
            waiting[0].cancel()

        waiting.append(self.after(period, again))
        return stop

    def run_until(self, end: int) -> None:
        """Lets everything happen that is due at `end` or before, and leaves `now` there."""
        while self._queue and self._queue[0][0] <= end:
            self._step()
        self.now = max(self.now, end)

    def run(self) -> None:
        """Lets everything happen, until nothing is left to happen."""
        while self._queue:
            self._step()

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to happen."""
        return not self._queue

    def random(self, name: str) -> Random:
        """The random numbers of this name. Each name has its own: a draw under one never shifts those of another."""
        found = self._randoms.get(name)
        if found is None:
            found = self._randoms[name] = Random(f"{self.seed}/{name}")
        return found

    def _step(self) -> None:
        self.now, _, event = heappop(self._queue)
        if event.action is not None:
            self.happened += 1
            event.action()
