"""Who is told at once, inside this process, when a directory has a new parcel. Other processes look for themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_lock = threading.Lock()
_waiting: dict[Path, list[Callable[[], None]]] = {}


def listen(directory: Path, wake: Callable[[], None]) -> Callable[[], None]:
    """Have `wake` called after each commit in a directory; what is returned ends that."""
    path = directory.resolve()
    with _lock:
        _waiting.setdefault(path, []).append(wake)

    def end() -> None:
        with _lock:
            _waiting[path].remove(wake)

    return end


def wake(directory: Path) -> None:
    """Tell those who listen that a directory has something new."""
    with _lock:
        waiting = list(_waiting.get(directory.resolve(), ()))
    for each in waiting:
        each()
