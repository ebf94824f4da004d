"""Where a user begins to take a query's answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from weft.delivery.errors import DeliveryError
from weft.delivery.itinerary import Itinerary

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Start:
    """With what comes from now on, unless one of these is given.

    `last`: the newest so many answers first. `since`: what was published at a time, in microseconds, or later.
    `since_clock`: of what has been published, the answers whose own clock is at a time or later; then all that come.
    `after`: what comes after a cycle, as one goes on with who kept its position.
    `until` is where it ends again: at a cycle, which is still taken.
    """

    last: int | None = None
    since: int | None = None
    after: int | None = None
    until: int | None = None
    since_clock: int | None = None

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.last, self.since, self.since_clock, self.after)) > 1:
            raise ValueError("give one of last, since, since_clock and after, not several")
        if self.last is not None and self.last < 0:
            raise ValueError("last is a number of answers, and cannot be negative")


def not_known_before(route: Itinerary) -> DeliveryError:
    """What to say to one who asks for answers from before the time that an itinerary still tells of."""
    assert route.complete_from is not None
    return DeliveryError(
        f"query '{route.query}' has changed its group so often that nobody knows which rows before cycle "
        f"{route.complete_from} were its own; begin later: with after={route.complete_from - 1}, or fewer answers"
    )


def microseconds(time: datetime | int) -> int:
    """A time as microseconds since the epoch; one without a zone is in UTC."""
    if isinstance(time, int):
        return time
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
