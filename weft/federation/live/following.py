"""Following the log: a ledger that is kept up to date, and entries of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from weft.federation.live.entries import Entry, entry_bytes, entry_of
from weft.federation.live.ledger import Ledger
from weft.federation.live.wire import Wire


class Follower:
    """A ledger, and the wire that it is read from."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.ledger = Ledger()

    def read(self, wait: float = 0.0) -> Iterator[tuple[int, Entry]]:
        """The entries that are new, each after it was taken into the ledger."""
        while found := self.wire.entries(self.ledger.place, wait):
            for place, data in found:
                entry = entry_of(data)
                self.ledger.apply(place, entry)
                yield place, entry
            wait = 0.0

    def catch_up(self) -> bool:
        """Take in all new entries; whether there were any."""
        return sum(1 for _ in self.read()) > 0

    def append(self, entry: Callable[[], Entry | None]) -> int | None:
        """Append an entry that is made anew whenever others were faster. None if there is none to append any more."""
        while True:
            self.catch_up()
            made = entry()
            if made is None:
                return None
            place = self.wire.append(entry_bytes(made), self.ledger.place)
            if place is not None:
                self.catch_up()
                return place
