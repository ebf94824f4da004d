"""Selections over one stream: a thousand in one pass, against ten; and against a Spark stream for each of a hundred."""

from __future__ import annotations

from dataclasses import asdict

from bench.charts import canvas
from bench.contest import PerCycle, per_cycle
from bench.network_measurements.arena import COLD, Arena, spread
from bench.network_measurements.found import Found, Printed, costs
from bench.network_measurements.tasks import Task
from bench.network_workloads.files import FED
from bench.network_workloads.selections import selections

_SIZES = (10, 100, 1_000)


def measure(arena: Arena) -> Found:
    each = _spark(arena, 100)
    folder = arena.selection_rows()
    tasks = [Task(f"{size:,} selections", FED.statement(folder), selections(size)) for size in _SIZES]
    results = arena.run("weft_cycles", tasks)
    weft = {size: per_cycle(result["marks"], COLD) for size, result in zip(_SIZES, results, strict=True)}
    jobs = {
        size: max(cycle["jobs"] for cycle in result["cycles"]) for size, result in zip(_SIZES, results, strict=True)
    }
    rows: list[list[object]] = [["weft", size, spent.cpu, spent.wall, jobs[size], ""] for size, spent in weft.items()]
    rows.append(["Spark, a stream each", 100, each.cpu, each.wall, None, f"extrapolated from 1/{each.scaled:.3g}"])
    figure, (panel,) = canvas(1, width=6.4)
    costs(
        panel,
        f"Selections, batches of {arena.effort.selection_rows:,} rows",
        {**{f"weft, {size:,}": spent.cpu for size, spent in weft.items()}, "a Spark stream each, 100": each.cpu},
        ["a Spark stream each, 100"],
        ours=len(weft),
    )
    return Found(
        {
            "selections_1000_over_10_cpu": weft[1_000].cpu / weft[10].cpu,
            "spark_each_over_weft_100_selections": each.cpu / weft[100].cpu,
        },
        [
            Printed(
                f"Selections with ranges and equalities, batches of {arena.effort.selection_rows:,} transfers",
                ["contestant", "queries", "CPU s per batch", "wall s per batch", "jobs", ""],
                rows,
            )
        ],
        {"network_selections": figure},
        details={
            "weft": {str(size): {**asdict(spent), "jobs": jobs[size]} for size, spent in weft.items()},
            "spark_each_100": asdict(each),
        },
    )


def _spark(arena: Arena, total: int) -> PerCycle:
    sample = spread(selections(total), arena.effort.alone)
    task = arena.stream_task("selections, a stream each", FED, sample, arena.selection_rows())
    (result,) = arena.run("spark_each", [task])
    runs = [per_cycle(marks, COLD) for marks in result["runs"]]
    together = PerCycle(sum(each.cpu for each in runs), sum(each.wall for each in runs), runs[0].cycles)
    return together.times(total / len(runs))
