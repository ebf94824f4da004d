"""The publisher: the engine's side of delivery, a transactional outbox, and how a broker gets what it holds.

    publisher.wait_for_room()
    publisher.write(cycle, [Message("g17", 3, rows, watermark)], control=[itinerary])        before the commit
    publisher.committed(cycle)                                                               after it

Readers see a cycle when it is committed, whole. At the start, `committed(last)` shows what the last process had
committed and not shown, and forgets what it had not.

Users of the same machine read the delivery log. For others a thread takes committed parcels from the log to a broker,
in order. After a restart, of this process or of the broker, the broker is asked what it holds, and given again what it
has lost and the log still has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from weft.delivery import delivery_log, hub
from weft.delivery.delivery_errors import BrokerError, DamagedLog, LogError, retry_pause
from weft.delivery.delivery_log import ACKNOWLEDGED, BEGINNING, Limits, LogWriter
from weft.delivery.itinerary import Itinerary
from weft.delivery.nats_broker import NatsBroker
from weft.delivery.parcel import Message, Parcel
from weft.files.checked_file import marker, move_marker

_SAY_EVERY: Final = 10.0


class Forwarder:
    """A thread that gives a broker what the log has. `problem` says what is wrong while it cannot.

    `changed` is notified when the broker has taken more, or does not take it any more.
    """

    def __init__(self, directory: Path, broker: NatsBroker, say: Callable[[str], None]) -> None:
        self._directory = directory
        self._broker = broker
        self._say = say
        self._wanted = threading.Event()
        self._closing = False
        self.changed = threading.Condition()
        self.problem: str | None = None
        self._marked = marker(directory, ACKNOWLEDGED)
        #: The newest cycle that the broker has, as far as is known.
        self.acknowledged = BEGINNING if self._marked is None else self._marked
        broker.learn(delivery_log.read_routes(directory).values())
        self._thread = threading.Thread(target=self._run, name="weft-forwarder", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wanted.set()

    def close(self, timeout: float) -> None:
        """Stop when all is forwarded, or after a number of seconds."""
        self._closing = True
        self._wanted.set()
        self._thread.join(timeout)
        self._broker.close()

    def _run(self) -> None:
        failures, is_asked = 0, False
        while True:
            try:
                if not is_asked:
                    # More than was noted is what was stored when the answer got lost; less, what the broker has lost.
                    self.acknowledged = self._broker.newest()
                    is_asked = True
                for cycle in delivery_log.cycles(self._directory):
                    parcel = delivery_log.read_parcel(self._directory, cycle) if cycle > self.acknowledged else None
                    if parcel is not None:
                        self._broker.send(parcel)
                        move_marker(self._directory, ACKNOWLEDGED, self._marked, cycle)
                        self._marked = self.acknowledged = cycle
                        self._note(self.problem)
            except (BrokerError, LogError, OSError) as error:
                # A broker that came back may have lost what it held.
                is_asked = False
                failures += 1
                self._note(str(error))
            else:
                failures = 0
                self._note(None)
            if self._closing:
                return
            self._wanted.wait(retry_pause(failures - 1) if failures else None)
            self._wanted.clear()

    def _note(self, problem: str | None) -> None:
        with self.changed:
            if problem != self.problem:
                self._say(problem or "the broker takes what it is given again")
                self.problem = problem
            self.changed.notify_all()


class Publisher:
    """Writes a project's delivery log, and has it forwarded to a broker if there is one.

    `say` is given sentences for people: that the broker cannot be reached, and that it can again. One process at a time
    may publish a project; the lock on its catalog sees to that.
    """

    def __init__(
        self,
        directory: str | Path,
        project: str,
        *,
        limits: Limits | None = None,
        broker: NatsBroker | None = None,
        say: Callable[[str], None] = lambda sentence: None,
        begins_after: int | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._project = project
        self._limits = limits or Limits()
        self._say = say
        self.log = LogWriter(self._directory, self._limits, begins_after)
        self._forwarder = None if broker is None else Forwarder(self._directory, broker, say)

    def write(self, cycle: int, published: Sequence[Message], control: Sequence[Itinerary] = ()) -> None:
        """Keep what a cycle publishes until it is committed. Raises LogError; the cycle must then not commit."""
        messages = tuple(each for each in published if each.rows.num_rows)
        if not messages and not control:
            self.log.forget(cycle)
            return
        self.log.write(Parcel(self._project, cycle, time.time_ns() // 1000, None, tuple(control), messages))

    def committed(self, cycle: int) -> None:
        """Show readers what was written up to a cycle, and forget what was written for later ones."""
        if not self.log.commit(cycle):
            return
        hub.wake(self._directory)
        if self._forwarder is not None:
            self._forwarder.wake()
        self.log.trim(None if self._forwarder is None else self._forwarder.acknowledged)

    def wait_for_room(self, timeout: float | None = None) -> bool:
        """Wait while the broker has too much to catch up with; False if it still has after `timeout` seconds."""
        if (forwarder := self._forwarder) is None:
            return True
        end = None if timeout is None else time.monotonic() + timeout
        with forwarder.changed:
            while (waiting := self._waiting_bytes(forwarder)) > self._limits.waiting_bytes:
                self._say(
                    f"{waiting >> 20} MiB wait for {forwarder.problem or 'the broker'}; "
                    "the next cycle begins when it has taken enough of them"
                )
                left = _SAY_EVERY if end is None else min(_SAY_EVERY, end - time.monotonic())
                if left <= 0:
                    return False
                forwarder.changed.wait(left)
        return True

    def wait_until_forwarded(self, timeout: float) -> bool:
        """Wait until the broker holds all that is committed; False if it does not after `timeout` seconds."""
        if (forwarder := self._forwarder) is None:
            return True
        with forwarder.changed:
            return forwarder.changed.wait_for(lambda: not self._waiting_bytes(forwarder), timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Close the log; what the broker has not taken within `timeout` seconds waits in it for the next start."""
        if self._forwarder is not None:
            self._forwarder.close(timeout)

    def _waiting_bytes(self, forwarder: Forwarder) -> int:
        """The size of what the broker has not taken yet."""
        return sum(head.size for cycle, head in list(self.log.heads.items()) if cycle > forwarder.acknowledged)


def open_publisher(
    directory: Path,
    make: Callable[[Path, int | None], Publisher],
    is_whole: Callable[[Publisher], bool],
    begins_after: int | None,
    say: Callable[[str], None],
) -> tuple[Publisher, bool]:
    """The publisher of the log as it is; or of a new one, if the log is damaged or not whole. Whether it is a new one.

    `make` opens the log in a directory, and lets a new one begin after a cycle.
    """
    try:
        publisher = make(directory, None)
        if is_whole(publisher):
            return publisher, False
        publisher.close()
        problem = f"{directory} lacks what was published"
    except DamagedLog as error:
        problem = str(error).partition(";")[0]
    aside = delivery_log.put_aside(directory)
    after = "" if begins_after is None else f" after cycle {begins_after}"
    say(
        f"{problem}: the delivery log was put aside, in {aside}, and begins anew{after}; users are told that they lack "
        "the cycles before"
    )
    return make(directory, begins_after), True
