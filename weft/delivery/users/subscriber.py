"""What a user holds in hand: an iterator of batches, in threads as well as in coroutines."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from weft.delivery.batch import Batch, Dropped


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
    def _take(self) -> Batch | Dropped | None:
        """The next item if there is one now. Raises StopIteration when there will be none any more."""

    @abstractmethod
    def close(self) -> None:
        """Take nothing more."""

    def _takes_long(self) -> bool:
        """Whether taking may have to read files, which a coroutine leaves to a thread."""
        return False

    def next(self, timeout: float | None = None) -> Batch | Dropped | None:
        """The next item; None if there is none within so many seconds. Raises StopIteration when the query ended."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._woken.clear()
            item = self._take()
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
                item = await asyncio.to_thread(self._take_or_end) if self._takes_long() else self._take_or_end()
                if isinstance(item, StopIteration):
                    raise StopAsyncIteration
                if item is not None:
                    return item
                await event.wait()
        finally:
            self._waiting = None

    def _take_or_end(self) -> Batch | Dropped | StopIteration | None:
        try:
            return self._take()
        except StopIteration as end:
            return end

    def _wake(self) -> None:
        """There may be something new; called from any thread."""
        self._woken.set()
        if (waiting := self._waiting) is not None:
            loop, event = waiting
            loop.call_soon_threadsafe(event.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
