"""Weaving: the papers' experiments on planning, figure by figure, and what planning costs at scale.

    python -m lab.figures.weaving [--quick]

The families of figures are in `lab/figures/weaving/`. A quick run draws fewer query sets, leaves out Figure 17 of
Guirguis (2,000 unrelated slides), counts edges in shorter composite slides, and plans 100,000 queries for the million.
"""

from __future__ import annotations

from dataclasses import asdict

from bench import report
from lab.figures.weaving import (
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


def main() -> None:
    quick = report.quick_from_arguments("Weaving: the papers' experiments on planning, figure by figure.")
    watch = report.Stopwatch()
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
