"""Messages that take as long as the way is, are counted, and get lost at sites that are down."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lab.simulate.events import SECOND, Action, Events


@dataclass(slots=True)
class Wires:
    """The ways between sites; `sent` counts messages by kind, `lost` those that nobody was there to get."""

    events: Events
    milliseconds: NDArray[np.float64]
    down: set[int] = field(default_factory=set)
    sent: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def send(self, kind: str, source: int, target: int, arrive: Action) -> None:
        """Sends a message. A site that is down neither sends nor gets any; who goes down meanwhile gets none either."""
        if source in self.down:
            return
        self.sent[kind] += 1

        def deliver() -> None:
            if target in self.down:
                self.lost[kind] += 1
            else:
                arrive()

        self.events.after(round(float(self.milliseconds[source, target]) * SECOND / 1000), deliver)
