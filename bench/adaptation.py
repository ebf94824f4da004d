"""Adaptation: operators find their order and their place (COSMOS, chapters 5 and 6), simulated and on the engine.

    python -m bench.adaptation [--quick] [--only NAME]

`bench/ordering_figures/` has Figures 5.5–5.14: in which order sites join a tuple. `bench/placement_figures/` has
Figures 6.5–6.11: which site runs which part of a query. `bench/adaptation_engine/` has the same decisions on Spark.
Each of them offers `measure`, `show` and `draw`; one that is not there leaves its ratios null. A quick run has fewer
tuples.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from bench import report

DEFINITIONS = {
    "swap_over_best_static": "time until all tuples are joined, over that of the better fixed order; the worst of all "
    "settings in which nothing changes (Figures 5.5, 5.8, 5.9, 5.11)",
    "swap_over_best_static_changing": "the same where selectivities, wires or loads change half-way; the worst of "
    "Figures 5.12–5.14",
    "optimal_order_share": "the part of S tuples that took the better order, mean of both settings of Figure 5.6",
    "engine_adaptive_over_worse_static": "on Spark, selectivities that change places half-way: CPU over that of the "
    "worse order",
    "engine_adaptive_over_clairvoyant": "the same over that of one who switches at the right moment",
    "settle_seconds": "from a change of load to the last migration that it causes",
    "flow_aware_traffic_return": "traffic after a perturbation over that before it, with flow-aware load selection",
    "opbased_over_qf_3ops": "PR_max of moving single operators over that of moving fragments of three operators",
    "two_workers_pr_over_balanced": "on Spark, two workers, skewed load: PR_max over that of perfect balance",
}

MEASUREMENTS = {
    "ordering": "bench.ordering_figures",
    "placement": "bench.placement_figures",
    "engine": "bench.adaptation_engine",
}


def main() -> None:
    quick, only = _arguments()
    ratios: dict[str, float | None] = dict.fromkeys(DEFINITIONS)
    details: dict[str, Any] = {"definitions": DEFINITIONS, "seconds": {}}
    for name, module in MEASUREMENTS.items():
        if only not in (None, name):
            continue
        if find_spec(module) is None:
            report.progress(f"{name}: not measured, there is no {module}")
            continue
        report.progress(f"{name} …")
        began = perf_counter()
        measurement = import_module(module)
        found = measurement.measure(report.Effort(quick))
        details["seconds"][name] = perf_counter() - began
        measurement.show(found)
        ratios |= found.ratios()
        details[name] = found.details()
        for chart, figure in measurement.draw(found).items():
            report.save_chart(figure, chart, quick)
    report.finish("adaptation" if only is None else f"adaptation_{only}", ratios, details, quick)


def _arguments() -> tuple[bool, str | None]:
    parser = argparse.ArgumentParser(description="Operators find their order and their place.")
    parser.add_argument("--quick", action="store_true", help="a smaller run of at most a minute; not kept in git")
    parser.add_argument("--only", choices=MEASUREMENTS, help="one measurement, with results of its own")
    chosen = parser.parse_args()
    return chosen.quick, chosen.only


if __name__ == "__main__":
    main()
