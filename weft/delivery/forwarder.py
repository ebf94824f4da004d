"""The forwarder: takes committed parcels from the log to a broker, in order, and remembers how far it came.

What the broker has acknowledged is kept in `acknowledged.json`. After a restart, of this process or of the broker, the
broker is asked what it holds: if that is less, it has lost something, and is given again what the log still has.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.delivery.broker import Broker
from weft.delivery.errors import BrokerError, LogError
from weft.delivery.log import ACKNOWLEDGED, cycles, read_parcel, read_routes, write_json

_PATIENCE: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def acknowledged(directory: Path) -> int | None:
    """The newest cycle that the broker has acknowledged."""
    try:
        found = json.loads((directory / ACKNOWLEDGED).read_bytes())
        return int(found["cycle"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # It is damaged; the broker is asked anyway before anything is sent.
        return None


class Forwarder:
    """A thread that gives a broker what the log has. `problem` says what is wrong while it cannot."""

    def __init__(self, directory: Path, broker: Broker, on_change: Callable[[], None]) -> None:
        self._directory = directory
        self._broker = broker
        self._on_change = on_change
        self._wanted = threading.Event()
        self._closing = False
        self.problem: str | None = None
        #: Seconds that a parcel takes, the newest ones counting most.
        self.latency: float | None = None
        self.acknowledged = acknowledged(directory)
        broker.learn(read_routes(directory).values())
        self._thread = threading.Thread(target=self._run, name="weft-forwarder", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There may be something new in the log."""
        self._wanted.set()

    def close(self, timeout: float) -> None:
        """Stop when all is forwarded, or after so many seconds."""
        self._closing = True
        self._wanted.set()
        self._thread.join(timeout)
        self._broker.close()

    def _run(self) -> None:
        pause: float | None
        failures, asked = 0, False
        while True:
            try:
                if not asked:
                    self._ask()
                    asked = True
                self._forward_all()
            except (BrokerError, LogError) as error:
                # A broker that came back may have lost what it held.
                asked = False
                self.problem = str(error)
                pause = _PATIENCE[min(failures, len(_PATIENCE) - 1)]
                failures += 1
            else:
                failures, self.problem, pause = 0, None, None
            self._on_change()
            if self._closing:
                return
            self._wanted.wait(pause)
            self._wanted.clear()

    def _ask(self) -> None:
        # More than was acknowledged is what was stored when the answer got lost; less is what the broker has lost.
        self.acknowledged = self._broker.held()

    def _forward_all(self) -> None:
        for cycle in cycles(self._directory):
            if self.acknowledged is not None and cycle <= self.acknowledged:
                continue
            parcel = read_parcel(self._directory, cycle)
            if parcel is not None:
                begun = time.monotonic()
                self._broker.send(parcel)
                taken = time.monotonic() - begun
                self.latency = taken if self.latency is None else 0.8 * self.latency + 0.2 * taken
                write_json(self._directory / ACKNOWLEDGED, {"cycle": cycle})
                self.acknowledged = cycle
                self._on_change()
