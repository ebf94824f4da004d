"""Real rows: flights out of New York and the weather there, joined by many queries with differing windows."""

from __future__ import annotations

from dataclasses import asdict

from bench.charts import canvas
from bench.contest import per_cycle
from bench.network_measurements.arena import COLD, Arena, spread
from bench.network_measurements.found import Found, Printed, costs
from bench.network_measurements.tasks import Task
from bench.network_workloads.flights import flight_joins, flight_streams

_DAYS, _STEP, _JOINS = 120, "10 days", 200


def measure(arena: Arena) -> Found:
    # No ratio of the last line is from here, so a quick run does without.
    return Found({}) if arena.effort.quick else _measured(arena)


def _measured(arena: Arena) -> Found:
    streams = flight_streams(arena.folder / "flights", _DAYS, _STEP)
    joins = flight_joins(_JOINS)
    sample = spread(joins, arena.effort.alone)
    on, off = arena.run(
        "weft_cycles",
        [
            Task("flights and weather, shared", streams, joins),
            Task("flights and weather, each by itself", streams, sample, len(joins), ["sharing = off"]),
        ],
    )
    shared = per_cycle(on["marks"], COLD)
    alone = per_cycle(off["marks"], COLD).times(len(joins) / len(sample))
    jobs = max(cycle["jobs"] for cycle in on["cycles"][COLD:])
    answers = sum(cycle["answers"] for cycle in on["cycles"])
    figure, (panel,) = canvas(1, width=6.4, height=2.6)
    costs(panel, f"{len(joins)} joins", {"weft, shared": shared.cpu, "each by itself": alone.cpu}, ["each by itself"])
    table = Printed(
        f"{len(joins)} joins of flights and weather, cycles of {_STEP}, {answers:,} answers",
        ["", "CPU s per cycle", "times", "wall s per cycle", "jobs per cycle"],
        [
            ["shared", shared.cpu, None, shared.wall, jobs],
            ["each by itself, extrapolated", alone.cpu, alone.cpu / shared.cpu, alone.wall, None],
        ],
    )
    return Found(
        {},
        [table],
        {"network_flights": figure},
        details={
            "joins": len(joins),
            "shared": asdict(shared),
            "alone": asdict(alone),
            "gain": alone.cpu / shared.cpu,
            "jobs": jobs,
            "answers": answers,
        },
    )
