"""Subscribers that a thread feeds: with what comes from a broker or from an edge, through a bounded queue."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections import deque

from weft.delivery.batch import Batch, Dropped
from weft.delivery.errors import DeliveryError
from weft.delivery.users.reader import BEGINNING
from weft.delivery.users.subscriber import Subscriber

_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)


class FedSubscriber(Subscriber):
    """A queue between a thread and the user. A user who does not read makes the thread wait, and only that."""

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(query)
        self._queue: deque[tuple[int, Batch | Dropped | None]] = deque()
        self._limit = limit
        self._room = threading.Event()
        self._position = BEGINNING
        self._end: DeliveryError | StopIteration | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"weft-{query}", daemon=True)

    @property
    def position(self) -> int:
        return self._position

    def close(self) -> None:
        self._closing.set()
        self._room.set()
        self._wake()

    @abstractmethod
    def _feed(self) -> None:
        """Put what comes into the queue until there is no more, or the subscriber is closed."""

    def _take(self) -> Batch | Dropped | None:
        # First whether it has ended, then the queue: what was put there before the end is not overlooked.
        end = self._end
        while self._queue:
            self._position, item = self._queue.popleft()
            self._room.set()
            if item is not None:
                return item
        if self._closing.is_set():
            raise StopIteration
        if end is not None:
            raise end
        return None

    def _put(self, position: int, item: Batch | Dropped | None) -> bool:
        """Hand something to the user, or only that there is nothing up to a position; false if it wants no more."""
        while len(self._queue) >= self._limit and not self._closing.is_set():
            self._room.clear()
            if len(self._queue) >= self._limit:
                self._room.wait(1.0)
        self._queue.append((position, item))
        self._wake()
        return not self._closing.is_set()

    def _pause(self, failures: int) -> None:
        self._closing.wait(_PAUSES[min(failures, len(_PAUSES) - 1)])

    def _run(self) -> None:
        try:
            self._feed()
            self._end = StopIteration()
        except DeliveryError as error:
            self._end = error
        self._wake()
