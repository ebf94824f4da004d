"""A thousand queries while time goes by: cycles, queries that come and go, and a second process that takes over."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import pictures
from bench.aggregate_measurements.arena import Arena, WeftRun
from bench.aggregate_measurements.data import write_readings
from bench.contest import COLD

QUERIES, ROWS, CHANGED = 1_000, 100_000, 100
#: Over an hour of state; queries come and go in the middle of it; some files are left for the second process.
FILES, CHANGE_AFTER, CHANGE_BACK_AFTER, FILES_AFTER = 66, 30, 45, 3


@dataclass(frozen=True)
class Latency:
    run: WeftRun
    restart: dict[str, Any]

    @property
    def milliseconds(self) -> list[float]:
        """From the end of a cycle to the end of the next, Spark's part included."""
        walls = [mark.wall for mark in self.run.marks]
        return [1e3 * (after - before) for before, after in pairwise(walls)]

    def quantile(self, share: float) -> float:
        """Of the warm cycles, but for the two in which queries came or went."""
        changed = {CHANGE_AFTER - 1, CHANGE_BACK_AFTER - 1}
        usual = [each for place, each in enumerate(self.milliseconds) if place >= COLD - 1 and place not in changed]
        return float(np.quantile(usual, share))

    def change(self, after: int) -> float:
        """How many milliseconds longer than usual the cycle took that followed a change, the change included."""
        return self.milliseconds[after - 1] - self.quantile(0.5)

    def ratios(self) -> dict[str, float | None]:
        return {
            "cycle_p50_ms_1000": self.quantile(0.5),
            "restart_seconds_1000": self.restart["seconds"]["first_cycle"],
        }

    def details(self) -> dict[str, Any]:
        return {
            "milliseconds": self.milliseconds,
            "p50": self.quantile(0.5),
            "p95": self.quantile(0.95),
            "engine_p50": 1e3 * float(np.median([cycle["seconds"] for cycle in self.run.warm_cycles])),
            "adding_100_ms": self.change(CHANGE_AFTER),
            "dropping_100_ms": self.change(CHANGE_BACK_AFTER),
            **self.run.changes,
            "restart": self.restart,
            "most_partials": self.run.partials,
        }


def measure(arena: Arena) -> Latency | None:
    """None where a thousand queries are left out."""
    if QUERIES not in arena.effort.sizes:
        return None
    rows = write_readings(arena.folder / "hour", FILES, ROWS)
    project = str(arena.folder / "project")
    options = {
        "project": project,
        "changed": CHANGED,
        "change_after": CHANGE_AFTER,
        "change_back_after": CHANGE_BACK_AFTER,
    }
    run = arena.weft(rows, QUERIES, options=options)
    write_readings(rows, FILES_AFTER, ROWS, first=FILES)
    again = {"project": project, "since": time.time()}
    restart = arena.contest("weft_restart", arena.job("weft_restart", rows, QUERIES, options=again))
    return Latency(run, restart)


def show(found: Latency | None) -> None:
    if found is None:
        return
    details, restart = found.details(), found.restart["seconds"]
    report.table(
        f"{QUERIES:,} queries, {ROWS:,} rows in each cycle, more than an hour of event time",
        ["", "ms"],
        [
            ["a cycle, median", details["p50"]],
            ["a cycle, 95 of 100 are shorter", details["p95"]],
            ["the engine's part of it, median", details["engine_p50"]],
            [f"longer after {CHANGED} queries came", details["adding_100_ms"]],
            [f"longer after {CHANGED} queries went", details["dropping_100_ms"]],
            ["restart: interpreter and imports", 1e3 * restart["imported"]],
            ["restart: the project", 1e3 * (restart["opened"] - restart["imported"])],
            ["restart: Spark, trees from partials, first cycle", 1e3 * (restart["first_cycle"] - restart["opened"])],
        ],
        f"at the restart {found.restart['partials']:,} partials are live",
    )


def draw(found: Latency | None) -> dict[str, Figure]:
    if found is None:
        return {}
    changes = {CHANGE_AFTER: f"{CHANGED} queries more", CHANGE_BACK_AFTER: f"{CHANGED} fewer"}
    return {"aggregates_latency": pictures.latency(found.milliseconds, changes)}
