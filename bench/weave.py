"""Weaving: the papers' experiments on planning, figure by figure, and what planning costs at scale.

    python -m bench.weave [--quick]

The families of figures are in `bench/weave_figures/`. A quick run draws fewer query sets, leaves out Figure 17 of
Guirguis (2,000 unrelated slides), counts edges in shorter composite slides, and plans 100,000 queries for the million.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from time import perf_counter
from typing import Any

from bench import report
from bench.weave_figures import (
    counting,
    effort,
    incremental,
    kernels,
    optimum,
    roll_ups,
    scale,
    sharing,
    sharing_shown,
    three_levels,
)


class Stopwatch:
    """Runs the families one after the other, and keeps what each took: seconds of the clock, and of all processors."""

    def __init__(self) -> None:
        self.spent: dict[str, dict[str, float]] = {}

    def run(self, name: str, measure: Callable[[bool], Any], show: Callable[[Any, bool], None], quick: bool) -> Any:
        report.progress(f"{name} …")
        wall, cpu = perf_counter(), report.cpu_seconds()
        found = measure(quick)
        show(found, quick)
        spent = {"wall_seconds": perf_counter() - wall, "cpu_seconds": report.cpu_seconds() - cpu}
        self.spent[name] = spent
        report.progress(f"{name}: {spent['wall_seconds']:.0f} s")
        return found


def main() -> None:
    quick = report.quick_from_arguments("Weaving: the papers' experiments on planning, figure by figure.")
    watch = Stopwatch()
    # What is timed comes first, while the process is small.
    planned = watch.run("scale", scale.measure, scale.show, quick)
    counts = watch.run("counting edges", counting.measure, counting.show, quick)
    added = watch.run("queries one by one", incremental.measure, incremental.show, quick)
    gaps = watch.run("distance from the optimum", optimum.measure, optimum.show, quick)
    experiments = watch.run("kernels", kernels.measure, kernels.show, quick)
    shared = watch.run("sharing", sharing.measure, sharing_shown.show, quick)
    three = watch.run("three levels", three_levels.measure, three_levels.show, quick)
    rolled_up = watch.run("roll-ups", roll_ups.measure, roll_ups.show, quick)
    spent = watch.run("effort", effort.measure, effort.show, quick)

    most = scale.HUNDRED_THOUSAND if quick else scale.MILLION
    size = "100k" if quick else "1m"
    ratios = {
        f"plan_{size}_seconds": scale.slowest(planned, most),
        f"plan_{size}_peak_gb": scale.largest_peak(planned, most),
        "plan_10k_seconds": scale.slowest(planned, scale.TEN_THOUSAND),
        "add_one_to_10k_ms": added.add_one_ms,
        "bitset_over_f1_seconds": counts[-1].ratio,
        **kernels.ratios(experiments),
        "gap_to_optimum_mean": optimum.mean_gap(gaps),
        "gap_to_optimum_worst": optimum.worst_gap(gaps),
        "incremental_deviation_max_over_tolerance": incremental.worst_over_tolerance(added),
    }
    details = {
        "plans": [asdict(each) for each in planned],
        "counts": [asdict(each) for each in counts],
        "incremental": asdict(added),
        "experiments": {str(number): [asdict(each) for each in points] for number, points in experiments.items()},
        "sharing": asdict(shared),
        "statements": [claim._asdict() for claim in sharing_shown.claims(shared)],
        "three_levels": [asdict(each) for each in three],
        "roll_ups": [asdict(each) for each in rolled_up],
        "effort": asdict(spent),
        "time": watch.spent,
    }
    report.finish("weave", ratios, details, quick)


if __name__ == "__main__":
    main()
