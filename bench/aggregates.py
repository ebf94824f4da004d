"""A thousand windowed aggregates for the price of one: what sharing saves, and what it still costs.

    python -m bench.aggregates [--quick] [--only NAME]

The measurements and contestants are in `bench/aggregate_measurements/`, which also says how time is taken. A quick run
has 1, 10 and 100 queries and some hundred thousand rows; what a hundred queries cost one by one is extrapolated from
one of them. A full run takes about forty minutes. Apache Flink takes part in it if the environment variable
WEFT_BENCH_FLINK_PYTHON names an interpreter that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from matplotlib.figure import Figure

from bench import report
from bench.aggregate_measurements import against, flatness, key_scale, latency, limits, model
from bench.aggregate_measurements.arena import FULL, QUICK, Arena
from bench.contest import ContestantFailed

DEFINITIONS = {
    "spark_each_over_weft_10": "CPU per row of one Structured Streaming query for each of 10, over weft's",
    "spark_each_over_weft_100": "the same for 100, extrapolated from a sample of them",
    "spark_union_over_weft_100": "the same for 100 as branches of one Structured Streaming query, extrapolated",
    "cpu_1000_over_1": "CPU of cycles at 1,000 queries over CPU at one, without sinks, when Java has warmed up: in the "
    "second half of the cycles, the median of five runs of each by turns (less is better)",
    "cpu_10000_over_1": "the same at 10,000",
    "spark_floor_share_1000": "rows per CPU second at 1,000 queries over those of one plain Spark batch "
    "groupBy(fragment, key) of the same files with the same statistics, at 10 million rows in a cycle, the largest "
    "size measured, when Java has warmed up, the cheapest of three runs of 40 million rows each; with fewer rows the "
    "cost of a cycle itself counts for more",
    "machine_floor_share_1000": "the same over those of one process with pyarrow and Numba, at the same size",
    "flink_over_weft_10": "CPU per row of Flink's HOP windows, without reading, over weft's with reading; null without "
    "Flink",
    "flink_over_weft_100": "the same for 100",
    "model_error_mean": "mean of |predicted − measured| / measured over final aggregation of woven plans",
    "cycle_p50_ms_1000": "median time of a cycle of 100,000 rows at 1,000 queries",
    "jobs_per_cycle_1": "Spark jobs in a warm cycle, at most, with one query",
    "jobs_per_cycle_1000": "the same with 1,000",
    "restart_seconds_1000": "from the start of a new process to the end of its first cycle, Spark's start included, "
    "with 1,000 queries and more than an hour of state, after `weft warm-up`",
}


@dataclass(frozen=True)
class Measurement:
    measure: Callable[[Arena], Any]
    show: Callable[[Any], None]
    draw: Callable[[Any], dict[str, Figure]]


MEASUREMENTS = {
    name: Measurement(module.measure, module.show, module.draw)
    for name, module in {
        "flatness": flatness,
        "limits": limits,
        "against": against,
        "latency": latency,
        "model": model,
        "keys": key_scale,
    }.items()
}


def main() -> None:
    quick, only = report.quick_and_only_from_arguments("Shared aggregates against what else one could do", MEASUREMENTS)
    chosen = {name: each for name, each in MEASUREMENTS.items() if only in (None, name)}
    ratios: dict[str, float | None] = dict.fromkeys(DEFINITIONS)
    details: dict[str, Any] = {"definitions": DEFINITIONS, "seconds": {}}
    with TemporaryDirectory(prefix="weft-bench-aggregates-") as folder:
        arena = Arena(Path(folder), QUICK if quick else FULL)
        for name, measurement in chosen.items():
            report.progress(f"{name} …")
            began = perf_counter()
            try:
                found = measurement.measure(arena)
            except ContestantFailed as reason:
                # What was measured before, and comes after, is not lost by it.
                report.progress(f"{name} has failed: {reason}")
                details[name] = {"failed": str(reason)}
                continue
            details["seconds"][name] = perf_counter() - began
            measurement.show(found)
            if found is not None:
                ratios |= found.ratios()
                details[name] = found.details()
            for chart, figure in measurement.draw(found).items():
                report.save_chart(figure, chart, quick)
        details["answers_compared"] = arena.compared
        details["whole_processes"] = arena.whole
    _show_compared(arena.compared)
    report.finish("aggregates" if only is None else f"aggregates_{only}", ratios, details, quick)


def _show_compared(compared: dict[str, int]) -> None:
    report.table(
        "Answers over the small files that equal weft's",
        ["contestant", "answers"],
        [[contestant, number] for contestant, number in compared.items()],
        "a difference would have ended the benchmark",
    )


if __name__ == "__main__":
    main()
