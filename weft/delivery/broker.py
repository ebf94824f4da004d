"""What a broker must be able to do for the publisher.

Users of the same machine need none: they read the delivery log. A broker takes parcels from the log to where users of
other machines can get at them. It must hold a parcel durably when `send` returns, and may be given one twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from weft.delivery.itinerary import Itinerary
from weft.delivery.parcel import Parcel


class Broker(Protocol):
    """Takes parcels away, in the order of their cycles."""

    @property
    def name(self) -> str:
        """What to call it, without what is secret in its address."""

    def learn(self, routes: Iterable[Itinerary]) -> None:
        """Tell it the itineraries of before the first parcel that it is sent."""

    def held(self) -> int | None:
        """The newest cycle whose parcel it holds whole. Raises BrokerError when it cannot be asked."""

    def send(self, parcel: Parcel) -> None:
        """Give it a parcel; when this returns, it holds it. Raises BrokerError, and is then tried again."""

    def close(self) -> None:
        """Let go of it."""
