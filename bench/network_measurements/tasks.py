"""What contestants are to do, and the child processes that do it.

A contestant is a module with a function `contestant(task)`, which a child process calls (`contestants.py`).
Measurements may run beside each other and ask for the same child: the second one waits until the first has its results.

In a full run weft has a process of its own, and Spark's own ways another. A quick run has one for all of them, and its
Java compiles at once and not well (`_AT_ONCE`): to start Spark twice, and to compile well what runs for seconds, would
take most of its minute. Whoever asks Spark says how plans are to be compiled, so nobody has the settings of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any

from bench import report
from bench.contest import Child
from bench.network_workloads.query import WorkloadQuery

#: For Java: the first of its two compilers alone.
_AT_ONCE = "-XX:TieredStopAtLevel=1"

#: The contestant that is weft.
WEFT_CYCLES = "weft_cycles"
_WEFT, _OTHERS = "weft", "others"


@dataclass(frozen=True)
class Task:
    """Queries over streams. `total` is the number of queries that they stand for, if they are a sample."""

    name: str
    streams: str
    """The statements that create the streams."""
    queries: Sequence[WorkloadQuery]
    total: int = 0
    settings: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scale(self) -> float:
        return (self.total or len(self.queries)) / len(self.queries)


class Contestants:
    """The child processes: one for weft, one for Spark's own ways and all others; or one for all, `together`.

    A child that weft works in does the task `first`, to warm up; its result is for `look`.
    """

    def __init__(self, first: Callable[[], Task], look: Callable[[dict[str, Any]], None], together: bool) -> None:
        self._first, self._look, self._together = first, look, together
        self._children: dict[str, Child] = {}
        self._rooms = {_WEFT: Lock(), _OTHERS: Lock()}

    def run(self, contestant: str, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """Let a contestant do some tasks, one after the other; a result for each."""
        room = _WEFT if self._together or contestant == WEFT_CYCLES else _OTHERS
        with self._rooms[room]:
            child = self._children.pop(room, None) or self._started(room)
            results = []
            for task in tasks:
                report.progress(f"  {contestant}: {task.name}, {len(task.queries):,} queries")
                results.append(child.do([contestant, asdict(task)]))
            self._children[room] = child
            return results

    def _started(self, room: str) -> Child:
        options = _AT_ONCE if self._together else ""
        child = Child("bench.network_measurements.contestants", java_options=options)
        if room == _WEFT:
            self._look(child.do([WEFT_CYCLES, asdict(self._first())]))
        return child

    def close(self) -> None:
        for child in self._children.values():
            child.close()
        self._children.clear()
