"""A node that serves one thing after the other, each for a random time: the M/M/1 queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from lab.simulate.events import SECOND, Action, Events


@dataclass(slots=True)
class Queue:
    """Serves in the order of arrival. What has been served, the waiting and the work are counted in nanoseconds."""

    events: Events
    random: Random
    free_at: int = 0
    served: int = 0
    busy: int = 0
    stayed: int = 0
    _generation: int = field(default=0)

    def arrive(self, mean: float, then: Action | None = None) -> None:
        """Something arrives that takes `mean` seconds on average; `then` happens when it has been served."""
        service = round(self.random.expovariate(1 / mean) * SECOND) if mean > 0 else 0
        arrived, generation = self.events.now, self._generation
        self.free_at = max(self.free_at, arrived) + service

        def leave() -> None:
            if generation != self._generation:
                return
            self.served += 1
            self.busy += service
            self.stayed += self.events.now - arrived
            if then is not None:
                then()

        self.events.at(self.free_at, leave)

    def fail(self) -> None:
        """All that waits is lost."""
        self._generation += 1
        self.free_at = self.events.now

    @property
    def mean_stay(self) -> float:
        """Seconds from arrival to the end of service, on average."""
        return self.stayed / self.served / SECOND if self.served else 0.0
