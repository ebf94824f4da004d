"""A worker: runs the looms that are assigned to it, and lets go of those that are not.

    python -m lab.workers.worker <directory of the provider> <name>

It looks at the assignment now and then. A fragment that is assigned to another worker is stopped after the cycle that
is running, and its lock released; one that is assigned to it is taken as soon as its lock is free. SIGTERM lets go of
all of them and ends the process.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

from lab.workers.assignment import Fixed, fragment_directory, read_assignment, read_fixed
from weft.catalog.catalog_errors import CatalogLocked
from weft.loom import Loom

#: Seconds between two looks at the assignment.
_LOOK_EVERY = 0.2

_log = logging.getLogger("weft.worker")


class Worker:
    """The looms that run in this process."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._fixed: Fixed = read_fixed(directory)
        self._running: dict[str, Loom] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping.wait(_LOOK_EVERY):
            self.look()
        for fragment in tuple(self._running):
            self._let_go(fragment)

    def look(self) -> None:
        """Do as the assignment says."""
        assigned = read_assignment(self._directory)
        mine = {fragment for fragment, worker in assigned.items() if worker == self._name}
        for fragment in self._running.keys() - mine:
            self._let_go(fragment)
        for fragment in sorted(mine - self._running.keys()):
            self._take(fragment)
        for fragment in tuple(self._running):
            self._check(fragment)

    def _take(self, fragment: str) -> None:
        try:
            loom = Loom.open(fragment_directory(self._directory, fragment))
        except CatalogLocked:
            return  # whoever had it finishes its cycle; the next look comes soon
        try:
            loom.start(
                master=self._fixed.master,
                settings=self._fixed.settings,
                interval=self._fixed.interval,
                say=_log.warning,
            )
        except BaseException:
            loom.close()
            raise
        self._running[fragment] = loom
        _log.info("runs %s", fragment)

    def _let_go(self, fragment: str) -> None:
        self._running.pop(fragment).close()
        _log.info("has let go of %s", fragment)

    def _check(self, fragment: str) -> None:
        """A fragment whose stream has failed is let go of, and taken again at the next look: it may only have been the
        disk. What is wrong is in the worker's log."""
        try:
            ended = self._running[fragment].wait(0)
        except Exception:
            _log.exception("%s has failed", fragment)
            ended = True
        if ended:
            self._let_go(fragment)


def main() -> None:
    directory, name = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    _log.setLevel(logging.INFO)  # of this room only: what talks to Java has something to say about every call
    worker = Worker(Path(directory), name)
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stopping.set())
    worker.run()


if __name__ == "__main__":
    main()
