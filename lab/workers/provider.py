"""A provider with several workers: sets up, starts, measures, moves, and stands in for workers that die.

provider = Provider.create("provider", script, workers=("left", "right"), interval="1 second")
provider.start()
…
provider.rebalance()        # now and then: measure, decide, move
provider.supervise()        # workers that have died are replaced
provider.results("hot")
provider.stop()
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lab.placement.load import WEIGHT, low_pass
from lab.workers.assignment import (
    Fixed,
    fragment_directory,
    read_assignment,
    read_fixed,
    write_assignment,
    write_fixed,
)
from lab.workers.balance import Move, Running, loads_of, moves
from lab.workers.parts import parts
from weft.catalog import Catalog
from weft.federation import FederationError
from weft.files.atomic import private_folder
from weft.loom import Loom

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds that a worker has for finishing its cycles when it is told to stop.
_PATIENCE = 120.0


@dataclass(slots=True)
class _Seen:
    """What is known of a fragment's load: the newest cycle that was looked at, and the filtered load; and whether it
    has moved since, so that its next cycle starts cold and says little about those after it."""

    cycle: int = -1
    load: float | None = None
    is_cold: bool = False


class Provider:
    """Fragments, the workers that run them, and who runs which."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.fixed = read_fixed(directory)
        self._native = self._first_assignment()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._seen = {fragment: _Seen() for fragment in self.fixed.fragments}
        self._measured_at = time.monotonic()

    @classmethod
    def create(
        cls,
        directory: str | Path,
        script: str,
        workers: Sequence[str],
        *,
        master: str = "local[1]",
        interval: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Set up a provider: a loom for each group of queries that stay together, assigned to workers in turn."""
        place = Path(directory).resolve()
        if not workers or len(set(workers)) != len(workers):
            raise FederationError("a provider needs workers, and each of them a name of its own")
        if place.exists() and any(place.iterdir()):
            raise FederationError(f"{place} is not empty; open the provider that is there, or choose another directory")
        private_folder(place)
        fragments = {f"f{number}": part for number, part in enumerate(parts(place / "queries", script))}
        for fragment, part in fragments.items():
            with Loom.open(fragment_directory(place, fragment)) as loom:
                loom.execute(part.script)
        queries = {fragment: part.queries for fragment, part in fragments.items()}
        write_fixed(place, Fixed(tuple(workers), queries, master, interval, dict(settings or {})))
        write_assignment(place, {fragment: workers[number % len(workers)] for number, fragment in enumerate(queries)})
        return cls(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all workers that do not run."""
        for worker in self.fixed.workers:
            if not self.is_alive(worker):
                self._spawn(worker)

    def stop(self) -> None:
        """Every worker finishes the cycles that it is in, and ends."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for worker, process in self._processes.items():
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill(worker)
        self._processes.clear()

    def kill(self, worker: str) -> None:
        """End a worker at once, whatever it is doing. What it had not committed will be done again."""
        process = self._processes[worker]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def is_alive(self, worker: str) -> bool:
        process = self._processes.get(worker)
        return process is not None and process.poll() is None

    def process_of(self, worker: str) -> int:
        """The number of a worker's process, for who wants to watch it or keep it to some cores."""
        return self._processes[worker].pid

    def supervise(self) -> list[str]:
        """Replace the workers that have died; returns their names. Their fragments go on where they were assigned."""
        dead = [worker for worker in self._processes if not self.is_alive(worker)]
        for worker in dead:
            # Its Java may have survived it, and must not write any more when another takes over.
            _end_group(self._processes[worker].pid)
            self._spawn(worker)
        return dead

    def _spawn(self, worker: str) -> None:
        command = [sys.executable, "-m", "lab.workers.worker", str(self.directory), worker]
        with (self.directory / f"{worker}.log").open("ab") as log:
            self._processes[worker] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    # --- who runs what -----------------------------------------------------------------------------------------------

    @property
    def assigned(self) -> dict[str, str]:
        """The worker of each fragment."""
        return read_assignment(self.directory)

    def move(self, fragment: str, worker: str) -> None:
        """Let another worker go on with a fragment, after the cycle that is running."""
        self._move_all({fragment: worker})

    def _move_all(self, targets: Mapping[str, str]) -> None:
        for fragment, worker in targets.items():
            if fragment not in self.fixed.fragments:
                raise FederationError(f"there is no fragment '{fragment}'; there are {', '.join(self.fixed.fragments)}")
            if worker not in self.fixed.workers:
                raise FederationError(f"there is no worker '{worker}'; there are {', '.join(self.fixed.workers)}")
        assigned = self.assigned
        write_assignment(self.directory, {**assigned, **targets})
        for fragment, worker in targets.items():
            self._seen[fragment].is_cold |= assigned[fragment] != worker

    def _first_assignment(self) -> dict[str, str]:
        """Where fragments are at home: in turn, as they were assigned first."""
        workers = self.fixed.workers
        return {fragment: workers[number % len(workers)] for number, fragment in enumerate(self.fixed.fragments)}

    # --- load --------------------------------------------------------------------------------------------------------

    def measure(self, weight: float = WEIGHT) -> list[Running]:
        """The load of each fragment since the last time: the seconds that its cycles took, by their own account in its
        catalog, over the seconds that have passed; filtered, except for the first time. What has just moved is taken to
        have the load that it had."""
        now = time.monotonic()
        passed, self._measured_at = max(now - self._measured_at, 1e-9), now
        assigned, running = self.assigned, []
        for fragment, seen in self._seen.items():
            cycles = {each: seconds for each, seconds in self._cycles(fragment).items() if each > seen.cycle}
            load = sum(cycles.values()) / passed
            if seen.load is None:
                seen.load = load
            elif not seen.is_cold:
                seen.load = low_pass(seen.load, load, weight)
            seen.is_cold = seen.is_cold and not cycles
            seen.cycle = max(cycles, default=seen.cycle)
            running.append(
                Running(fragment, seen.load, assigned[fragment], self._native[fragment], self._state_bytes(fragment))
            )
        return running

    def rebalance(self, weight: float = WEIGHT) -> list[Move]:
        """Measure, decide, and move. Nothing moves while loads are alike."""
        decided = moves(self.fixed.workers, self.measure(weight))
        if decided:
            self._move_all({each.fragment: each.receiver for each in decided})
        return decided

    def loads(self) -> dict[str, float]:
        """The load of each worker, as it was measured last."""
        assigned = self.assigned
        return loads_of(
            self.fixed.workers,
            [Running(fragment, seen.load or 0.0, assigned[fragment], "") for fragment, seen in self._seen.items()],
        )

    def _cycles(self, fragment: str) -> dict[int, float]:
        """The seconds of the newest cycles of a fragment."""
        catalog = Catalog.open(fragment_directory(self.directory, fragment), write=False)
        try:
            return {each.cycle: float(each.numbers["seconds"]) for each in catalog.statistics("cycle")}
        finally:
            catalog.close()

    def _state_bytes(self, fragment: str) -> float:
        segments = fragment_directory(self.directory, fragment) / "state" / "segments"
        sizes = (_size(file) for file in segments.rglob("*"))
        return float(sum(sizes))

    # --- answers -----------------------------------------------------------------------------------------------------

    def committed(self) -> dict[str, int]:
        """The newest cycle of each fragment that is done; −1 if there is none."""
        from weft.runtime.state.commits import last_commit

        found = {name: last_commit(fragment_directory(self.directory, name)) for name in self.fixed.fragments}
        return {name: -1 if commit is None else commit.cycle for name, commit in found.items()}

    def results(self, query: str) -> pa.Table:
        """The newest answers of a query, wherever it runs."""
        for fragment, queries in self.fixed.fragments.items():
            if query in queries:
                with Loom.open(fragment_directory(self.directory, fragment), write=False) as loom:
                    return loom.results(query)
        known = ", ".join(name for queries in self.fixed.fragments.values() for name in queries)
        raise FederationError(f"there is no query '{query}'; there are {known}")


def _size(file: Path) -> int:
    """The size of a file that may be gone by now."""
    try:
        return file.stat().st_size if file.is_file() else 0
    except FileNotFoundError:
        return 0


def _end_group(process: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
