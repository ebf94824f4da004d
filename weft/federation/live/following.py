"""Following the log: a ledger that is kept up to date, and entries of one's own.

With a store, a follower notes how far it has read and a digest of all entries up to there, before it acts on them. The
next process reads the log from the beginning, and must find the same entries: a broker whose store was lost, cut, or
replaced by another one is found out, and not taken for a federation in which little has happened.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator

from weft.federation.live.entries import Entry, entry_bytes, entry_of
from weft.federation.live.ledger import Ledger
from weft.federation.live.store import Store
from weft.federation.live.wire import LostError, Wire

#: The table that a follower needs in its store.
LOG_TABLE = "log (one INTEGER PRIMARY KEY CHECK (one = 1), place INTEGER NOT NULL, digest BLOB NOT NULL)"

#: How often an append is refused, although the log has nothing new, until the log must be taken for a shorter one.
_REFUSALS = 50
_PAUSE = 0.02


class Follower:
    """A ledger, and the wire that it is read from."""

    def __init__(self, wire: Wire, store: Store | None = None) -> None:
        self.wire = wire
        self.ledger = Ledger()
        self._store = store
        known = store.rows("SELECT place, digest FROM log") if store is not None else []
        self._known: tuple[int, bytes] = known[0] if known else (0, b"")
        self._digest = b""

    def read(self, wait: float = 0.0) -> Iterator[tuple[int, Entry]]:
        """The entries that are new, each after it was taken into the ledger.

        Raises LostError if they are not those that were read before.
        """
        while found := self.wire.entries(self.ledger.place, wait):
            digests = self._digests(found)
            self._note(found[-1][0], digests[-1])
            for (place, data), digest in zip(found, digests, strict=True):
                entry = entry_of(data)
                self.ledger.apply(place, entry)
                self._digest = digest
                yield place, entry
            wait = 0.0
        if self.ledger.place < self._known[0]:
            raise self._lost(f"it ends at entry {self.ledger.place}")

    def catch_up(self) -> bool:
        """Take in all new entries; whether there were any."""
        return sum(1 for _ in self.read()) > 0

    def append(self, entry: Callable[[], Entry | None]) -> int | None:
        """Append an entry that is made anew whenever others were faster. None if there is none to append any more."""
        refusals = 0
        while True:
            refusals = 0 if self.catch_up() else refusals + 1
            made = entry()
            if made is None:
                return None
            place = self.wire.append(entry_bytes(made), self.ledger.place)
            if place is not None:
                self.catch_up()
                return place
            if refusals > _REFUSALS:
                raise self._lost("it takes no entry behind that one, and has none there")
            if refusals:
                time.sleep(_PAUSE)

    def _digests(self, found: list[tuple[int, bytes]]) -> list[bytes]:
        """The digest of the log up to each entry. Raises LostError at one that another entry was read at before."""
        digests, digest = [], self._digest
        for place, data in found:
            digest = hashlib.blake2b(digest + data, digest_size=16).digest()
            if place == self._known[0] and digest != self._known[1]:
                raise self._lost("it has other entries up to there now")
            digests.append(digest)
        return digests

    def _note(self, place: int, digest: bytes) -> None:
        """Keep how far the log was read."""
        if place > self._known[0]:
            if self._store is not None:
                self._store.note("INSERT OR REPLACE INTO log VALUES (1, ?, ?)", place, digest)
            self._known = place, digest

    def _lost(self, what: str) -> LostError:
        return LostError(
            f"the log at {self.wire.name} was read up to entry {self._known[0]} before, and {what}; restore the "
            "broker's store, or begin a federation of another name with new directories"
        )
