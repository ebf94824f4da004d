"""A broker inside one process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from weft.federation.live.transport import Transport, is_passing, lost_messages


@dataclass
class MemoryBroker:
    """What all transports of one federation share. `lost` are numbers of messages that the broker has let go of."""

    log: list[bytes] = field(default_factory=list)
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)


class MemoryTransport(Transport):
    """A site's connection to a broker in this process."""

    name = "the broker of this process"
    largest = 0

    def __init__(self, broker: MemoryBroker, largest: int = 1 << 20) -> None:
        self._broker = broker
        self.largest = largest

    def append(self, data: bytes, after: int) -> int | None:
        with self._broker.changed:
            if len(self._broker.log) != after:
                return None
            self._broker.log.append(data)
            self._broker.changed.notify_all()
            return len(self._broker.log)

    def entries(self, after: int, wait: float = 0.0) -> list[tuple[int, bytes]]:
        with self._broker.changed:
            if len(self._broker.log) <= after and wait:
                self._broker.changed.wait(wait)
            return [(place, data) for place, data in enumerate(self._broker.log, 1) if place > after]

    def put(self, mailbox: str, identity: str, data: bytes) -> int:
        assert len(data) <= self.largest, "a message is too large"
        with self._broker.changed:
            if identity not in self._broker.known:
                self._broker.messages.append((mailbox, data))
                self._broker.known[identity] = len(self._broker.messages)
                self._broker.changed.notify_all()
            return self._broker.known[identity]

    def take(self, mailbox: str, after: int | None) -> tuple[int, bytes] | None:
        with self._broker.changed:
            previous = 0
            for number, (where, data) in enumerate(self._broker.messages, 1):
                if where != mailbox:
                    continue
                if number > (after or 0) and number not in self._broker.lost:
                    if after is not None and previous != after and not is_passing(mailbox):
                        raise lost_messages(self.name, mailbox, after, previous)
                    return number, data
                previous = number
            return None

    def delete(self, mailbox: str, before: int) -> None:
        with self._broker.changed:
            messages = enumerate(self._broker.messages, 1)
            self._broker.lost |= {number for number, (where, _) in messages if where == mailbox and number < before}

    def get(self, number: int) -> bytes | None:
        with self._broker.changed:
            return None if number in self._broker.lost else self._broker.messages[number - 1][1]

    def close(self) -> None:
        """Nothing is held."""
