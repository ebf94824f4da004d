"""When queries in error are tried again: after their pause, or at once if a user says so."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from weft.runtime.state.trouble import Trouble

#: Seconds between two looks whether a query is due.
_LOOK_EVERY = 1.0


class Retries:
    """The queries that users want to be tried again now. Threads may share it."""

    def __init__(self) -> None:
        self._resumed: set[str] = set()
        self._wanted = threading.Event()

    def resume(self, query: str) -> None:
        """Try a query again without waiting for the end of its pause."""
        self._resumed.add(query)
        self._wanted.set()

    def begin(self, queries: Collection[str]) -> None:
        """These queries are being tried again."""
        self._resumed -= set(queries)

    def due(self, errors: Mapping[str, Trouble]) -> set[str]:
        """The queries in error that are to be tried again now."""
        return {name for name, each in errors.items() if each.is_due or name in self._resumed}

    def wait(self) -> None:
        """Wait a moment, or until a user wants a query to be tried again."""
        self._wanted.wait(_LOOK_EVERY)
        self._wanted.clear()
