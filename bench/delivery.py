"""Delivery: what grouping queries saves on the network, and what it takes; the source's Figures 6 to 9.

    python -m bench.delivery [--quick]

The experiments are in `bench/delivery_figures/`. A quick run has 300 queries of each kind, and nothing to say of
10,000. What the real transport carries is measured by `bench/delivery_transport/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from bench import report
from bench.delivery_figures import shown
from bench.delivery_figures.overlay import power_law_overlay
from bench.delivery_figures.queries import POPULARITIES, random_queries, statistics, template_queries
from bench.delivery_figures.runs import Experiment, Run
from bench.delivery_transport import measure

TEMPLATES = "templates"
_SIZES, _QUICK_SIZES = (1_000, 2_000, 5_000, 10_000), (100, 300)
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


def experiment(workload: str, count: int) -> Experiment:
    """One of the source's four popularities, or users with templates."""
    popularity = {each.name: each for each in POPULARITIES}.get(workload)
    queries = template_queries(count, _SEED) if popularity is None else random_queries(popularity, count, _SEED)
    return Experiment(queries, power_law_overlay(_OVERLAY_SEED), statistics(512), _SEED, lean=popularity is not None)


def grown_and_shrunk(workload: str, sizes: Sequence[int]) -> Run:
    """Figures 6, 8 and 9: a workload grows to its size, and loses half of it."""
    of = experiment(workload, sizes[-1])
    run = Run(workload, _OVERHEAD)
    of.shrink(run, of.grow(run, sizes))
    saved = ", ".join(f"{100 * each:.1f} %" for each in run.reductions)
    report.progress(f"{workload}: saved {saved}")
    return run


def with_overheads(workload: str, size: int) -> list[Run]:
    """Figure 7: how much the tolerated overhead matters."""
    of = experiment(workload, size)
    runs = [Run(workload, overhead) for overhead in _OVERHEADS]
    for run in runs:
        of.grow(run, (size,))
    return runs


def main() -> None:
    quick = report.quick_from_arguments("Delivery: what grouping queries saves on the network, and what it takes.")
    sizes = _QUICK_SIZES if quick else _SIZES
    # A process for each core: what is timed is the time of a process, and not the clock's.
    with ProcessPoolExecutor(report.cores()) as pool:
        grown = [pool.submit(grown_and_shrunk, name, sizes) for name in _REDUCTIONS]
        # The tolerated overhead makes no difference to speak of; a quick run looks at one workload.
        tolerated = [pool.submit(with_overheads, name, sizes[1]) for name in ([TEMPLATES] if quick else _REDUCTIONS)]
        runs = [each.result() for each in grown]
        tolerant = [run for each in tolerated for run in each.result()]
    shown.show(runs, tolerant, quick)
    ratios: dict[str, float | None] = {
        key: None if quick else next(run.reductions[-1] for run in runs if run.workload == name)
        for name, key in _REDUCTIONS.items()
    }
    ratios["insert_ms_mean_10k"] = None if quick else max(run.insert_ms_mean for run in runs)
    ratios["terminate_ms_mean_10k"] = None if quick else max(run.terminate_ms_mean for run in runs)
    ratios["reopt_migrated_share"] = max(run.migrated for run in runs)
    report.progress("real brokers and edges …")
    carried = measure(quick)
    ratios.update({key: carried.ratios.get(key) for key in TRANSPORT})
    details = {
        "runs": [asdict(run) for run in runs],
        "overheads": [asdict(run) for run in tolerant],
        "statements": shown.statements(runs, tolerant),
        "transport": carried.details,
    }
    report.finish("delivery", ratios, details, quick)


if __name__ == "__main__":
    main()
