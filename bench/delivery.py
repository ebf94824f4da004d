"""Delivery: what grouping queries saves on the network, and what it takes; the source's Figures 6 to 9.

    python -m bench.delivery [--quick]

The experiments are in `bench/delivery_figures/`. A quick run has 600 queries of each kind, and nothing to say of
10,000. What the real transport carries is measured by `bench/delivery_transport/`.
"""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from bench import report
from bench.delivery_figures import shown
from bench.delivery_figures.overlay import power_law_overlay
from bench.delivery_figures.queries import POPULARITIES, random_queries, statistics, template_queries
from bench.delivery_figures.runs import Experiment, Run

TEMPLATES = "templates"
_SIZES, _QUICK_SIZES = (1_000, 2_000, 5_000, 10_000), (200, 600)
_OVERHEADS = (0.0, 0.1, 0.5)
_OVERHEAD, _SEED, _OVERLAY_SEED = 0.5, 1, 4

#: The keys of reductions, by workload.
_REDUCTIONS = {
    "uniform": "reduction_uniform_10k",
    "Zipf 1.0": "reduction_zipf1_10k",
    "Zipf 1.5": "reduction_zipf15_10k",
    "Zipf 2.0": "reduction_zipf2_10k",
    TEMPLATES: "reduction_templates_10k",
}
#: Measured with real brokers and edges.
TRANSPORT = ("nats_bytes_saved_ratio_1000", "edge_rows_per_second", "latency_p99_ms")


def experiments(count: int) -> dict[str, Experiment]:
    """The source's four popularities, and users with templates."""
    overlay, known = power_law_overlay(_OVERLAY_SEED), statistics(512)
    drawn = {each.name: random_queries(each, count, _SEED) for each in POPULARITIES}
    drawn[TEMPLATES] = template_queries(count, _SEED)
    return {name: Experiment(queries, overlay, known, _SEED) for name, queries in drawn.items()}


def grouped(quick: bool) -> list[Run]:
    """Figures 6, 8 and 9: all workloads grow to their size, and lose half of it."""
    sizes = _QUICK_SIZES if quick else _SIZES
    runs = []
    for name, experiment in experiments(sizes[-1]).items():
        begun = perf_counter()
        run = Run(name, _OVERHEAD)
        experiment.shrink(run, experiment.grow(run, sizes))
        runs.append(run)
        saved = ", ".join(f"{100 * each:.1f} %" for each in run.reductions)
        report.progress(f"{name}: saved {saved}; {perf_counter() - begun:.0f} s")
    return runs


def with_overheads(quick: bool) -> list[Run]:
    """Figure 7: how much the tolerated overhead matters."""
    size = 300 if quick else 2_000
    runs = []
    for name, experiment in experiments(size).items():
        for overhead in _OVERHEADS:
            run = Run(name, overhead)
            experiment.grow(run, (size,))
            runs.append(run)
    return runs


def transport(quick: bool) -> dict[str, float | None]:
    """What real brokers and edges carry, if that can be measured here."""
    name = "bench.delivery_transport"
    if find_spec(name) is None:
        return dict.fromkeys(TRANSPORT)
    measured: dict[str, Any] = import_module(name).measure(quick)
    return {key: measured.get(key) for key in TRANSPORT}


def main() -> None:
    quick = report.quick_from_arguments("Delivery: what grouping queries saves on the network, and what it takes.")
    runs = grouped(quick)
    tolerant = with_overheads(quick)
    shown.show(runs, tolerant, quick)
    ratios: dict[str, float | None] = {
        key: None if quick else next(run.reductions[-1] for run in runs if run.workload == name)
        for name, key in _REDUCTIONS.items()
    }
    ratios["insert_ms_mean_10k"] = None if quick else max(run.insert_ms_mean for run in runs)
    ratios["terminate_ms_mean_10k"] = None if quick else max(run.terminate_ms_mean for run in runs)
    ratios["reopt_migrated_share"] = max(run.migrated for run in runs)
    ratios.update(transport(quick))
    details = {
        "runs": [asdict(run) for run in runs],
        "overheads": [asdict(run) for run in tolerant],
        "statements": shown.statements(runs, tolerant),
    }
    report.finish("delivery", ratios, details, quick)


if __name__ == "__main__":
    main()
