"""Projects that tests run on Spark: files as streams, one run to the end or a live one, and what is set aside."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa

from weft.loom import Loom
from weft.runtime.recorder import Progress

#: How long a test waits for what must happen, on a machine that is busy with other things.
PATIENCE = 300.0

#: Seconds of the last day: Spark passes over files that are a week older than the newest.
_file_times = count(int(time.time()) - 86_400)


def write_text(folder: Path, name: str, text: str) -> Path:
    """A new file of a stream, complete when it appears; Spark takes files in the order in which they were written."""
    folder.mkdir(parents=True, exist_ok=True)
    draft, file = folder / f".{name}", folder / name
    draft.write_text(text)
    written = next(_file_times)
    os.utime(draft, (written, written))
    return draft.rename(file)


def write_rows(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A new file of JSON lines."""
    return write_text(folder, name, "".join(json.dumps(row) + "\n" for row in rows))


def run_to_the_end(loom: Loom) -> None:
    """Process all that is there."""
    loom.start(until_idle=True)
    loom.wait()


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of an answer, in an order that does not depend on the run."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def dead_letters(loom: Loom, stream: str) -> list[dict[str, Any]]:
    """What was set aside of a stream: reason, text, cycle and row."""
    files = sorted((loom.directory / "state" / "dead-letter" / stream).glob("*/*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def reasons(loom: Loom, stream: str) -> list[str]:
    return sorted(letter["reason"] for letter in dead_letters(loom, stream))


class Live:
    """A loom that runs until the test has seen enough."""

    def __init__(self, loom: Loom, say: Callable[[str], None] = lambda sentence: None) -> None:
        self._loom = loom
        self._say = say
        self._cycles: SimpleQueue[Progress] = SimpleQueue()

    def start(self) -> None:
        self._loom.start(on_progress=self._cycles.put, say=self._say)

    def next(self) -> Progress:
        """The next cycle that is committed."""
        return self._cycles.get(timeout=PATIENCE)

    def until(self, holds: Callable[[Progress], bool]) -> Progress:
        """The first cycle from now on of which something holds."""
        while not holds(cycle := self.next()):
            pass
        return cycle


@contextmanager
def live(loom: Loom, say: Callable[[str], None] = lambda sentence: None) -> Iterator[Live]:
    """The loom, running."""
    running = Live(loom, say)
    running.start()
    try:
        yield running
    finally:
        loom.stop()
