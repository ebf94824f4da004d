"""What a script did to a project, and the thread by which a process answers the scripts of other processes.

A process that has a project open for writing can carry out what others ask for: they submit a script as a request, and
`RequestThread` executes it and writes down a `Registration` in the same transaction (see `weft/catalog/catalog.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from weft.algebra.codec import dumps, loads
from weft.catalog import Catalog, CatalogError, register
from weft.sql.problems import Code, Problem, Span

#: Seconds between two looks for requests.
_PAUSE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: a sentence, and a table where there is one to show."""

    message: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """The result of a script: an outcome for each statement, or the problems because of which nothing was changed.

    `notes` say what is worth knowing of good statements.
    `failure` is a sentence that says why it could not be carried out although the SQL is good.
    """

    outcomes: tuple[Outcome, ...]
    problems: tuple[Problem, ...] = ()
    good_count: int = 0
    skipped: int = 0
    failure: str = ""
    notes: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems and not self.failure

    def to_text(self) -> str:
        return dumps(self)

    @classmethod
    def from_text(cls, text: str) -> Registration:
        found = loads(text)
        assert isinstance(found, Registration)
        return found


class RequestThread:
    """The thread that carries out the requests of other processes, from `start` to `stop`.

    It does not wait for the cycles of an engine: what it changes takes effect when the next cycle is decided on.
    """

    def __init__(self, catalog: Catalog, carry_out: Callable[[str], Registration]) -> None:
        self._catalog = catalog
        self._carry_out = carry_out
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-requests", daemon=True)

    def start(self) -> None:
        self._catalog.announce()
        self._thread.start()

    def stop(self) -> None:
        """Answer no more requests. Those that are pending are left to the processes that asked."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE):
            try:
                for request in self._catalog.pending():
                    self._answer(request.id, request.script)
            except CatalogError:
                # The request was withdrawn, and is undone; or the disk is full, and it is tried again.
                continue

    def _answer(self, number: int, script: str) -> None:
        with self._catalog.transaction():
            try:
                found = self._carry_out(script)
            except Exception as error:
                # The process that asked shows it; this one has to go on.
                found = Registration((), failure=str(error) or type(error).__name__)
            self._catalog.answer(number, found.to_text())


for _class in (Registration, Outcome, Problem, Code, Span):
    register(_class)
