"""Subscribers: where a user begins, and what it holds in hand, in threads as well as in coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self, TypeAlias

import msgspec

from weft.delivery.delivery_errors import BrokerError, DeliveryError, retry_pause
from weft.delivery.delivery_log import BEGINNING
from weft.delivery.parcel import Batch, Dropped

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Cycles, times and counts are 64-bit integers everywhere.
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class Start(msgspec.Struct, frozen=True):
    """Where a user begins to take a query's answers: with what comes from now on, unless one of these is given.

    `last`: a number of the newest answers first. `since`: what was published at a time, in microseconds, or later.
    `since_clock`: of what has been published, the answers whose own clock is at a time or later; then all that come.
    `after`: what comes after a cycle: the `position` of an earlier subscriber.
    `until`: the last cycle that is taken.
    """

    last: Number | None = None
    since: Number | None = None
    after: Number | None = None
    until: Number | None = None
    since_clock: Number | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.last, self.since, self.since_clock, self.after)) > 1:
            raise ValueError("give one of last, since, since_clock and after, not several")
        if self.last is not None and self.last < 0:
            raise ValueError("last is a number of answers, and cannot be negative")


def microseconds(time: datetime | int | None) -> int | None:
    """A time as microseconds since the epoch; one without a zone is in UTC."""
    if time is None or isinstance(time, int):
        return time
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


class Ended(msgspec.Struct):
    """No more answers will come."""


class Subscriber(ABC):
    """The answers of a query as they come: batches, and a `Dropped` where some could not be kept.

    It is an iterator and an asynchronous iterator, and ends when the query does. `position` is the cycle up to which
    everything was taken: who keeps it can go on there later, with `subscribe(…, after=position)`.
    """

    def __init__(self, query: str) -> None:
        self.query = query
        self._woken = threading.Event()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    @property
    @abstractmethod
    def position(self) -> int:
        """The cycle up to which everything was taken."""

    @abstractmethod
    def _take(self) -> Batch | Dropped | Ended | None:
        """The next item if there is one now."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing more."""

    def _takes_long(self) -> bool:
        """Whether taking may have to read files, which a coroutine leaves to a thread."""
        return False

    def next(self, timeout: float | None = None) -> Batch | Dropped | None:
        """The next item; None if there is none within `timeout` seconds. Raises StopIteration when the query ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._woken.clear()
            item = self._take()
            if isinstance(item, Ended):
                raise StopIteration
            if item is not None:
                return item
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._woken.wait(left)

    def rows(self) -> Iterator[dict[str, Any] | Dropped]:
        """The answers one by one, as dictionaries; a notice of dropped ones comes as it is."""
        for item in self:
            if isinstance(item, Dropped):
                yield item
            else:
                yield from item.rows()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch | Dropped:
        item = self.next()
        assert item is not None
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch | Dropped:
        event = asyncio.Event()
        self._waiting = asyncio.get_running_loop(), event
        try:
            while True:
                event.clear()
                item = await asyncio.to_thread(self._take) if self._takes_long() else self._take()
                if isinstance(item, Ended):
                    raise StopAsyncIteration
                if item is not None:
                    return item
                await event.wait()
        finally:
            self._waiting = None

    def _wake(self) -> None:
        """There may be something new; called from any thread."""
        self._woken.set()
        if (waiting := self._waiting) is not None:
            loop, event = waiting
            loop.call_soon_threadsafe(event.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class QueuedSubscriber(Subscriber):
    """A queue between a thread and the user. A user who does not read makes the thread wait, and only that."""

    def __init__(self, query: str, limit: int) -> None:
        super().__init__(query)
        self._queue: deque[tuple[int, Batch | Dropped | None]] = deque()
        self._limit = limit
        self._room = threading.Event()
        self._position = BEGINNING
        #: The cycle up to which all is in the queue, or was; None before anything came.
        self._place: int | None = None
        self._end: DeliveryError | Ended | None = None
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
    def _items(self) -> Iterator[tuple[int, Batch | Dropped | None]]:
        """What comes after `_place`, if anything, up to each cycle. Called again after an OSError or BrokerError."""

    def _take(self) -> Batch | Dropped | Ended | None:
        # First whether it has ended, then the queue: what was put there before the end is not overlooked.
        end = self._end
        while self._queue:
            self._position, item = self._queue.popleft()
            self._room.set()
            if item is not None:
                return item
        if isinstance(end, DeliveryError) and not self._closing.is_set():
            raise end
        return Ended() if end is not None or self._closing.is_set() else None

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set() and self._end is None:
            try:
                for place, item in self._items():
                    failures = 0
                    self._put(place, item)
                    if self._closing.is_set():
                        break
                self._end = Ended()
            except (OSError, BrokerError):
                # Where answers come from is away; it may come back.
                self._closing.wait(retry_pause(failures))
                failures += 1
            except DeliveryError as error:
                self._end = error
        self._wake()

    def _put(self, place: int, item: Batch | Dropped | None) -> None:
        while len(self._queue) >= self._limit and not self._closing.is_set():
            self._room.clear()
            if len(self._queue) >= self._limit:
                self._room.wait(1.0)
        self._queue.append((place, item))
        self._place = place
        self._wake()
