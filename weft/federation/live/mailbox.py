"""The reader of a kept box: it takes every letter once, in order, and sees when one is missing.

How far it has read is in the store of its role. Letters that were read are deleted at the broker, all but the last one,
which the next letter must name as the one before it. A reader that finds its box empty at its first look puts a letter
of its own there. So it notices also that all letters of a box are gone.
"""

from __future__ import annotations

from weft.federation.live.letters import Letter, letter_bytes, letter_of
from weft.federation.live.store import Store
from weft.federation.live.wire import Wire

#: Letters that are read before the broker is told to delete them.
_AT_ONCE = 100
_OPENED = "opened"


class Mailbox:
    """The letters of one box. The caller calls `read` in the transaction that keeps what follows from a letter.

    A reader with an empty store `may_begin_late` if it needs no letter that another one has read.
    """

    def __init__(self, wire: Wire, store: Store, box: str, *, may_begin_late: bool = False) -> None:
        self._wire = wire
        self._store = store
        self._box = box
        self._may_begin_late = may_begin_late
        self._read = 0

    def next(self) -> tuple[int, Letter] | None:
        """The next letter and its number. Raises LostError if the one before it is not the last that was read."""
        while True:
            after = self._store.read_up_to(self._box)
            found = self._wire.take(self._box, None if self._may_begin_late and not after else after)
            if found is None:
                self._delete()
                if after:
                    return None
                self._wire.put(self._box, f"{_OPENED}/{self._box}", letter_bytes(Letter(_OPENED, {})))
                continue
            if self._read >= _AT_ONCE:
                self._delete()
            number, data = found
            letter = letter_of(data)
            if letter.kind != _OPENED:
                return number, letter
            self.read(number)

    def read(self, number: int) -> None:
        """The letter with a number was read."""
        self._store.has_read(self._box, number)
        self._read += 1

    def _delete(self) -> None:
        """Delete the letters at the broker that were read, all but the last one."""
        if self._read:
            self._wire.let_go(self._box, self._store.read_up_to(self._box))
            self._read = 0
