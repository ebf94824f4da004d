"""Two workers, each a process with a Spark, and five fragments, two with many rows, that all begin at one worker.

Every round brings a file for each fragment and is as long as two cycles have time for. After it loads are measured, as
cycles account for themselves, and fragments move by the decisions of `weft.federation.placement`. What comes of it
is told by the performance ratio that the model gives a worker of such a load, 1 / (1 - load): that of the busier worker
over what the best division of the fragments between two workers would give. Loads swing from round to round (a
fragment that has just moved starts cold, and two Sparks share two cores with everything else), so what counts is the
division: the loads of fragments are means over the rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import report
from weft.federation.placement.performance import single_server
from weft.federation.workers.balance import moves
from weft.federation.workers.provider import Provider

WORKERS = ("left", "right")
INTERVAL = 3.0
ROUNDS = 10
#: Rows of each fragment in a round.
ROWS = (200_000, 1_000, 200_000, 1_000, 1_000)
#: Rounds before loads are looked at: until then a Spark is busy with itself.
COLD = 2
#: No worker is taken to be busier than this: the model has no ratio for one that is always busy.
_BUSIEST = 0.95

#: How much the newest round counts in a load: there are only ten of them.
_NEWEST = 0.5

_SETTINGS = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}


@dataclass(frozen=True, slots=True)
class Round:
    loads: dict[str, float]
    """Of fragments, since the round before."""
    assigned: dict[str, str]
    moved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Workers:
    rounds: tuple[Round, ...]
    loads: dict[str, float]
    """Of fragments, means over all rounds that count."""
    ratios: tuple[float, ...]
    """After each round, the ratio of the busier worker over that of the best division."""

    @property
    def over_balanced(self) -> float:
        """As it is after ten rounds."""
        return self.ratios[-1]


def measure(count: int) -> Workers:
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        sources = Path(folder) / "sources"
        script = "".join(_statements(sources, number) for number in range(len(ROWS)))
        provider = Provider.create(
            Path(folder) / "provider", script, WORKERS, interval=f"{INTERVAL:g} seconds", settings=_SETTINGS
        )
        rounds: list[Round] = []
        with provider:
            for each in range(COLD):
                _bring(sources, each)
            for fragment in provider.fixed.fragments:
                provider.move(fragment, WORKERS[0])
            provider.start()
            _wait_until_running(provider)
            provider.measure()
            for number in range(count):
                rounds.append(_round(provider, sources, COLD + number))
                report.progress(f"workers: round {number}: {rounds[-1]}")
    loads = {name: fmean(each.loads[name] for each in rounds) for name in rounds[0].loads}
    return Workers(tuple(rounds), loads, tuple(_over_balanced(loads, each.assigned) for each in rounds))


def _statements(sources: Path, number: int) -> str:
    (sources / f"s{number}").mkdir(parents=True)
    return (
        f"CREATE STREAM s{number} (n BIGINT, k INT, v DOUBLE) WATERMARK FOR n AS n "
        f"USING parquet OPTIONS (path '{sources}/s{number}', maxFilesPerTrigger '1');\n"
        f"CREATE CONTINUOUS QUERY q{number} AS SELECT k, SUM(v) AS total, MAX(v) AS most "
        f"FROM s{number} [RANGE 4000 SLIDE 1000] GROUP BY k;\n"
    )


def _bring(sources: Path, cycle: int) -> None:
    """A file for each fragment, visible at once and whole."""
    random = np.random.default_rng(cycle)
    for number, rows in enumerate(ROWS):
        table = pa.table(
            {
                "n": np.sort(random.integers(cycle * 1_000, (cycle + 1) * 1_000, rows)),
                "k": pa.array(random.integers(0, rows // 20, rows), pa.int32()),
                "v": random.random(rows),
            }
        )
        draft = sources / f"draft-{number}"
        pq.write_table(table, draft)
        os.utime(draft, (10**9 + cycle, 10**9 + cycle))
        draft.rename(sources / f"s{number}" / f"{cycle:04d}.parquet")


def _wait_until_running(provider: Provider) -> None:
    deadline = time.monotonic() + 180
    while min(provider.committed().values()) < COLD - 1:
        if time.monotonic() > deadline:
            raise TimeoutError("the workers did not take what was there in three minutes; see their logs")
        time.sleep(0.5)


def _round(provider: Provider, sources: Path, cycle: int) -> Round:
    """Bring rows, give the workers time for them, measure, and move."""
    _bring(sources, cycle)
    deadline = time.monotonic() + 60
    time.sleep(2 * INTERVAL)
    while min(provider.committed().values()) < cycle and time.monotonic() < deadline:
        time.sleep(0.2)
    running = provider.measure(weight=_NEWEST)
    moved = moves(WORKERS, running)
    for each in moved:
        provider.move(each.fragment, each.receiver)
    loads = {each.fragment: each.load for each in running}
    return Round(loads, provider.assigned, tuple(f"{each.fragment} → {each.receiver}" for each in moved))


def _over_balanced(loads: Mapping[str, float], assigned: Mapping[str, str]) -> float:
    divisions = (dict(zip(loads, choice, strict=True)) for choice in product(WORKERS, repeat=len(loads)))
    best = min(_ratio(loads, each) for each in divisions)
    return _ratio(loads, assigned) / best


def _ratio(loads: Mapping[str, float], assigned: Mapping[str, str]) -> float:
    """The performance ratio of the busier worker."""
    busiest = max(sum(load for name, load in loads.items() if assigned[name] == worker) for worker in WORKERS)
    return single_server(min(busiest, _BUSIEST))
