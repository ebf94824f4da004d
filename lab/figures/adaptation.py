"""Adaptation: operators find their order and their place (COSMOS, chapters 5 and 6).

    python -m lab.figures.adaptation [--quick] [--only NAME]

`lab/figures/ordering/` has Figures 5.5–5.14: in which order sites join a tuple. `lab/figures/placement/` has
Figures 6.5–6.11: which site runs which part of a query. `lab/figures/workers/` has two workers with a Spark each.
Each of them offers `measure`, with the efforts `QUICK` and `FULL`, `show`, `draw`, and the `DEFINITIONS` of its ratios.
A quick run is smaller, and leaves out what Spark takes.
"""

from __future__ import annotations

from importlib import import_module
from time import perf_counter
from typing import Any

from bench import report

KEYS = (
    "swap_over_best_static",
    "swap_over_best_static_changing",
    "optimal_order_share",
    "settle_seconds",
    "flow_aware_traffic_return",
    "opbased_over_qf_3ops",
    "two_workers_pr_over_balanced",
)
"""What is in the last line; the measurements define their own."""

MEASUREMENTS = {
    "ordering": "lab.figures.ordering",
    "placement": "lab.figures.placement",
    "workers": "lab.figures.workers",
}


def main() -> None:
    quick, only = report.quick_and_only_from_arguments("Operators find their order and their place.", MEASUREMENTS)
    ratios: dict[str, float | None] = dict.fromkeys(KEYS)
    details: dict[str, Any] = {"definitions": {}, "seconds": {}}
    for name, module in MEASUREMENTS.items():
        if only not in (None, name):
            continue
        report.progress(f"{name} …")
        began = perf_counter()
        measurement = import_module(module)
        found = measurement.measure(measurement.QUICK if quick else measurement.FULL)
        details["seconds"][name] = perf_counter() - began
        measurement.show(found)
        ratios |= found.ratios()
        details[name] = found.details()
        details["definitions"] |= measurement.DEFINITIONS
        for chart, figure in measurement.draw(found).items():
            report.save_chart(figure, chart, quick)
    report.finish("adaptation" if only is None else f"adaptation_{only}", ratios, details, quick)


if __name__ == "__main__":
    main()
