"""A place in the log, from where a user or a link takes what comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from weft.delivery.errors import DeliveryError
from weft.delivery.log import cycles, read_parcel
from weft.delivery.parcel import Parcel

if TYPE_CHECKING:
    from weft.delivery.users.hub import Hub

Item = TypeVar("Item")

#: The place before all cycles.
BEGINNING: Final = -1


class Missed:
    """How many rows a reader that is behind has not taken yet, by cycle, so that it can be told if they are let go.

    All rows of cycles after `after` were seen. Cycles whose parcels have gone are put together: they will be missed
    together. So there is no more to keep than the log has parcels.
    """

    def __init__(self, after: int) -> None:
        self._after = after
        self._seen: deque[tuple[int, int, int]] = deque()

    def saw(self, cycle: int, rows: int) -> None:
        """A cycle had rows for the reader."""
        self._seen.append((cycle, cycle, rows))

    def lost_sight(self, until: int) -> None:
        """What was published up to a cycle was not seen."""
        self._after = max(self._after, until)

    def compact(self, place: int, oldest: int) -> None:
        """Forget what the reader has taken, and put together what is gone."""
        while self._seen and self._seen[0][1] <= place:
            self._seen.popleft()
        while len(self._seen) > 1 and self._seen[1][1] < oldest:
            first, second = self._seen.popleft(), self._seen.popleft()
            self._seen.appendleft((first[0], second[1], first[2] + second[2]))

    def between(self, after: int, until: int) -> int | None:
        """The rows of cycles after one, up to another; None if they were not all seen, or one by one."""
        inside = [rows for first, last, rows in self._seen if first > after and last <= until]
        is_cut = any(first <= after < last or first <= until < last for first, last, _ in self._seen)
        return None if after < self._after or is_cut else sum(inside)


class Reader(Generic[Item]):
    """A place in the log of a hub, and what is to be had from there on.

    `cut` says what of a parcel is the reader's. `dropped` makes the notice that cycles after one, up to another, are
    gone, and with them so many rows, or nobody knows how many.
    `wake` is called, from another thread, when there may be something new. At most `limit` items wait in memory. A
    `query` is what the hub looks its users' rows up by; a reader without one has a `cut` that is always asked.
    """

    def __init__(
        self,
        hub: Hub,
        after: int,
        cut: Callable[[Parcel], Item | None],
        dropped: Callable[[int, int, int | None], Item],
        wake: Callable[[], None],
        limit: int,
        query: str | None = None,
    ) -> None:
        self.place = after
        self.limit = limit
        self.query = query
        self.cut = cut
        self.wake = wake
        self._hub = hub
        self._dropped = dropped
        self.queue: deque[tuple[int, Item]] = deque()
        self.is_live = False
        #: What the hub has seen of its rows while it is behind.
        self.missed: Missed | None = None
        self.through = after
        self.failure: DeliveryError | None = None
        hub.enter(self)

    @property
    def position(self) -> int:
        """The cycle up to which everything was taken, though the last ones had nothing to take."""
        through, was_live = self.through, self.is_live
        return max(self.place, through) if was_live and not self.queue else self.place

    def take(self) -> Item | None:
        """The next item, or None if there is none yet. Raises what has made the hub stop."""
        while True:
            # First how far the hub had come, then the queue: what it had put there by then is not overlooked.
            through, was_live = self.through, self.is_live
            if self.queue:
                self.place, item = self.queue.popleft()
                return item
            if was_live:
                self.place = max(self.place, through)
                return None
            if self.failure is not None:
                raise self.failure
            reached = self._hub.through
            found, item_or_none = self._catch_up()
            if item_or_none is not None:
                return item_or_none
            if not found:
                # The hub may know of cycles that have no parcels.
                self.place = max(self.place, reached)
                if self._hub.go_live(self):
                    return None

    def go_back(self) -> None:
        """Let go of what waits, to cut it anew: what `cut` gives has changed."""
        self._hub.leave(self)
        self.queue.clear()

    def close(self) -> None:
        """Take nothing more."""
        self._hub.leave(self)
        self._hub.exit(self)

    def _catch_up(self) -> tuple[bool, Item | None]:
        """Go on by one parcel. Whether there was one, and what it has for this reader."""
        for cycle in cycles(self._hub.directory):
            if cycle <= self.place:
                continue
            parcel = read_parcel(self._hub.directory, cycle)
            if parcel is None:
                return True, None
            gone = parcel.previous
            if gone is not None and gone > self.place:
                rows = self._hub.missed_by(self, gone)
                before, self.place = self.place, gone
                return True, self._dropped(before, gone, rows)
            self.place = cycle
            return True, self.cut(parcel)
        return False, None
