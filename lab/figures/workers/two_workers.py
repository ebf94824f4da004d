"""Two workers, each a process on a core of its own, and eight fragments: four have much to do, four have little.

Fragments are dealt out in turn, so one worker begins with all that is heavy. A round brings one file for each fragment,
all at once, and ends when all are answered: a cycle for each. Then loads are measured, as cycles account for
themselves, and fragments move by the decisions of `lab.placement`. What is heavy counts different values of
many rows, which Spark does by itself from all rows of a window; what is light adds up few rows.

What comes of it is told by the performance ratio, measured: how long the rows of a fragment waited for being answered,
over how long they do if nothing else runs; of all fragments the largest counts. Before the rounds every fragment has
cycles for itself, which says what it takes alone. After them fragments are divided as evenly as that allows, and the
same is measured in some more rounds: this is what the ratio of the adaptive rounds is compared with.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import report
from lab.workers.assignment import fragment_directory
from lab.workers.balance import moves
from lab.workers.provider import Provider

WORKERS = ("left", "right")
ROUNDS = 10
#: Rounds that are compared: the last of the adaptive ones, and those of the best division.
COMPARED = 4
#: Rows of each fragment in a round, and what it does with them.
HEAVY, LIGHT = (40_000, "COUNT(DISTINCT n) AS instants"), (2_000, "SUM(v) AS total")
WORK = (HEAVY, LIGHT) * 4
#: Rounds before anything is measured, until which a Spark is busy with itself; and cycles that a fragment has alone.
COLD, ALONE = 3, 3

#: How much the newest round counts in a load: there are only ten of them.
_NEWEST = 0.5
_PATIENCE = 180.0

_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    # A stream without an interval looks for files a hundred times a second, and there are eight of them.
    "spark.sql.streaming.pollingDelay": "200",
}


@dataclass(frozen=True, slots=True)
class Round:
    assigned: dict[str, str]
    """Where fragments ran."""
    delays: dict[str, float]
    """Seconds until what came for a fragment was answered."""
    loads: dict[str, float]
    """Of fragments after it, as they were measured."""
    moved: tuple[str, ...] = ()
    """What moved then."""

    def ratio(self, alone: Mapping[str, float]) -> float:
        """The largest performance ratio of a fragment."""
        return max(delay / alone[name] for name, delay in self.delays.items())


@dataclass(frozen=True, slots=True)
class Workers:
    alone: dict[str, float]
    """Seconds that each fragment takes if nothing else runs."""
    rounds: tuple[Round, ...]
    balanced: tuple[Round, ...]
    """With the best division of what fragments take alone."""

    @property
    def ratios(self) -> list[float]:
        return [each.ratio(self.alone) for each in self.rounds]

    @property
    def ratio_of_balanced(self) -> float:
        return median(each.ratio(self.alone) for each in self.balanced)

    @property
    def over_balanced(self) -> float:
        """Of the last adaptive rounds."""
        return median(self.ratios[-COMPARED:]) / self.ratio_of_balanced

    @property
    def began_over_balanced(self) -> float:
        """Of the first round, before anything has moved."""
        return self.ratios[0] / self.ratio_of_balanced


def measure(count: int) -> Workers:
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        sources = Sources(Path(folder) / "sources")
        provider = Provider.create(Path(folder) / "provider", sources.script, WORKERS, settings=_SETTINGS)
        fragments = {name: int(queries[0].removeprefix("q")) for name, queries in provider.fixed.fragments.items()}
        with provider:
            provider.start()
            _keep_to_cores(provider)
            for _ in range(COLD):
                _answered(provider, sources, fragments)
            alone = _alone(provider, sources, fragments)
            report.progress(f"workers: alone: {_rounded(alone)}")
            provider.measure()
            rounds = []
            for number in range(count):
                rounds.append(_round(provider, sources, fragments))
                report.progress(f"workers: round {number}: {_said(rounds[-1], alone)}")
            for name, worker in best_division(alone).items():
                provider.move(name, worker)
            # What has just moved starts cold.
            _answered(provider, sources, fragments)
            balanced = []
            for number in range(COMPARED):
                assigned, delays = provider.assigned, _answered(provider, sources, fragments)
                balanced.append(Round(assigned, delays, {}))
                report.progress(f"workers: balanced, round {number}: {_said(balanced[-1], alone)}")
    return Workers(alone, tuple(rounds), tuple(balanced))


def _keep_to_cores(provider: Provider) -> None:
    """One core for each worker, as far as there are enough. Java, which they have not started yet, stays there too."""
    cores = sorted(os.sched_getaffinity(0))
    for number, worker in enumerate(WORKERS):
        os.sched_setaffinity(provider.process_of(worker), {cores[number % len(cores)]})


@dataclass(slots=True)
class Sources:
    """A folder of files for each fragment; all files of a size are one file under several names."""

    folder: Path
    script: str = ""
    cycles: list[int] = field(default_factory=lambda: [0] * len(WORK))
    """Files that have come, by fragment."""

    def __post_init__(self) -> None:
        for number, (_, measure) in enumerate(WORK):
            (self.folder / f"s{number}").mkdir(parents=True)
            self.script += (
                f"CREATE STREAM s{number} (n BIGINT, k INT, v DOUBLE) WATERMARK FOR n AS n "
                f"USING parquet OPTIONS (path '{self.folder}/s{number}', maxFilesPerTrigger '1');\n"
                f"CREATE CONTINUOUS QUERY q{number} AS SELECT k, {measure} "
                f"FROM s{number} [RANGE 4000 SLIDE 1000] GROUP BY k;\n"
            )

    def bring(self, numbers: Iterable[int]) -> None:
        """One more file for each of some fragments, visible at once and whole."""
        chosen = list(numbers)
        drafts = {(WORK[number][0], self.cycles[number]): self.folder / f"draft-{number}" for number in chosen}
        for (rows, cycle), draft in drafts.items():
            pq.write_table(_rows(rows, cycle), draft, compression="none", use_dictionary=False)
            os.utime(draft, (10**9 + cycle, 10**9 + cycle))
        for number in chosen:
            cycle = self.cycles[number]
            os.link(drafts[WORK[number][0], cycle], self.folder / f"s{number}" / f"{cycle:04d}.parquet")
            self.cycles[number] += 1
        for draft in drafts.values():
            draft.unlink()


def _rows(count: int, cycle: int) -> pa.Table:
    random = np.random.default_rng(cycle)
    return pa.table(
        {
            "n": np.sort(random.integers(cycle * 1_000, (cycle + 1) * 1_000, count)),
            "k": pa.array(random.integers(0, 1_000, count), pa.int32()),
            "v": random.random(count),
        }
    )


def _answered(provider: Provider, sources: Sources, fragments: Mapping[str, int]) -> dict[str, float]:
    """Bring a file for each of some fragments, and wait; the seconds until each of them was answered."""
    sources.bring(fragments.values())
    came, deadline = time.time(), time.monotonic() + _PATIENCE
    while any(provider.committed()[name] < sources.cycles[number] - 1 for name, number in fragments.items()):
        if time.monotonic() > deadline:
            raise TimeoutError("the workers did not take what was there in three minutes; see their logs")
        time.sleep(0.1)
    newest = {name: sources.cycles[number] - 1 for name, number in fragments.items()}
    return {name: _committed_at(provider, name, cycle) - came for name, cycle in newest.items()}


def _committed_at(provider: Provider, fragment: str, cycle: int) -> float:
    record = fragment_directory(provider.directory, fragment) / "state" / "commits" / f"{cycle:012d}.json"
    return record.stat().st_mtime


def _alone(provider: Provider, sources: Sources, fragments: Mapping[str, int]) -> dict[str, float]:
    """The least that each fragment takes if nothing else runs; by turns, since Java gets quicker all the time."""
    found = [
        {name: _answered(provider, sources, {name: number})[name] for name, number in fragments.items()}
        for _ in range(ALONE)
    ]
    return {name: min(each[name] for each in found) for name in fragments}


def _round(provider: Provider, sources: Sources, fragments: Mapping[str, int]) -> Round:
    """Bring rows, wait until they are answered, measure, and move."""
    assigned, delays = provider.assigned, _answered(provider, sources, fragments)
    running = provider.measure(weight=_NEWEST)
    moved = moves(WORKERS, running)
    for each in moved:
        provider.move(each.fragment, each.receiver)
    loads = {each.fragment: each.load for each in running}
    return Round(assigned, delays, loads, tuple(f"{each.fragment} → {each.receiver}" for each in moved))


def best_division(alone: Mapping[str, float]) -> dict[str, str]:
    """The fragments on two workers such that the busier one has the least to do."""
    divisions = (dict(zip(alone, choice, strict=True)) for choice in product(WORKERS, repeat=len(alone)))
    return min(divisions, key=lambda each: max(_together(alone, each, worker) for worker in WORKERS))


def _together(alone: Mapping[str, float], assigned: Mapping[str, str], worker: str) -> float:
    return sum(seconds for name, seconds in alone.items() if assigned[name] == worker)


def _said(found: Round, alone: Mapping[str, float]) -> str:
    left = ", ".join(name for name, worker in found.assigned.items() if worker == WORKERS[0])
    moved = "; ".join(found.moved) or "nothing moved"
    return f"ratio {found.ratio(alone):.2f}, on the left {left}; {moved}; delays {_rounded(found.delays)}"


def _rounded(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {each:.2f}" for name, each in seconds.items())
