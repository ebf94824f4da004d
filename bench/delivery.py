"""Delivery: what grouping queries saves on the network, and what it takes; the source's Figures 6 to 9.

    python -m bench.delivery [--quick]

The experiments are in `bench/delivery_figures/`; what is said there of queries, rates and links is the source's or the
digest's where these say anything. Figures are means over several overlays with servers, users and queries of their own.
A quick run has one overlay and 300 queries of each kind, and nothing to say of 10,000. What the real transport carries
is measured by `bench/delivery_transport/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass

from bench import report
from bench.delivery_figures import shown
from bench.delivery_figures.overlay import power_law_overlay
from bench.delivery_figures.queries import POPULARITIES, random_queries, statistics, template_queries
from bench.delivery_figures.reference import plain_reduction, saved_on_first_links
from bench.delivery_figures.runs import Experiment, Run, averaged
from bench.delivery_transport import Measured, measure

TEMPLATES = "templates"
_SIZES, _QUICK_SIZES = (1_000, 2_000, 5_000, 10_000), (100, 300)
_OVERHEADS = (0.0, 0.1, 0.5)
_OVERHEAD = 0.5

#: The first seeds that there are, for overlays as well as for queries and users; the digest had two, too.
_SEEDS, _QUICK_SEEDS = (1, 2), (1,)
#: So many queries are held against the best grouping of them.
_HELD = 400

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


def experiment(workload: str, count: int, seed: int) -> Experiment:
    """One of the source's four popularities, or users with templates."""
    popularity = {each.name: each for each in POPULARITIES}.get(workload)
    queries = template_queries(count, seed) if popularity is None else random_queries(popularity, count, seed)
    return Experiment(queries, power_law_overlay(seed), statistics(512), seed)


def grown_and_shrunk(workload: str, sizes: Sequence[int], seed: int) -> Run:
    """Figures 6, 8 and 9: a workload grows to its size, and loses half of it."""
    of = experiment(workload, sizes[-1], seed)
    run = Run(workload, _OVERHEAD)
    groups = of.grow(run, sizes)
    if workload != TEMPLATES:
        run.plain = plain_reduction(groups, of.overlay, of.where, list(of.queries))
    of.shrink(run, groups)
    saved = ", ".join(f"{100 * each:.1f} %" for each in run.reductions)
    report.progress(f"{workload}, overlay {seed}: saved {saved}")
    return run


def with_overheads(workload: str, size: int) -> list[Run]:
    """Figure 7: how much the tolerated overhead matters."""
    of = experiment(workload, size, 1)
    runs = [Run(workload, overhead) for overhead in _OVERHEADS]
    for run in runs:
        of.grow(run, (size,))
    return runs


def held_against_best(workload: str) -> tuple[str, float, float]:
    """What the groups of some hundred queries save on the first links, and what the best ones would."""
    groups = experiment(workload, _HELD, 1).grown(_OVERHEAD)
    return (workload, *saved_on_first_links(groups))


@dataclass(frozen=True)
class Figures:
    """What the experiments came to: runs by workload and overlay, with other overheads, and against the best groups."""

    drawn: list[list[Run]]
    tolerant: list[Run]
    attained: list[tuple[str, float, float]]


def figures(quick: bool) -> Figures:
    """All experiments on groups."""
    sizes, seeds = (_QUICK_SIZES, _QUICK_SEEDS) if quick else (_SIZES, _SEEDS)
    # A process for each core: what is timed is the time of a process, and not the clock's.
    with ProcessPoolExecutor(report.cores()) as pool:
        grown = [[pool.submit(grown_and_shrunk, name, sizes, seed) for seed in seeds] for name in _REDUCTIONS]
        # The tolerated overhead makes no difference to speak of; a quick run looks at one workload.
        tolerated = [pool.submit(with_overheads, name, sizes[1]) for name in ([TEMPLATES] if quick else _REDUCTIONS)]
        held = [pool.submit(held_against_best, name) for name in _REDUCTIONS if name != TEMPLATES]
        drawn = [[each.result() for each in several] for several in grown]
        tolerant = [run for each in tolerated for run in each.result()]
        return Figures(drawn, tolerant, [each.result() for each in held])


def conclude(found: Figures, carried: Measured, quick: bool) -> None:
    """Shows and keeps what was measured."""
    runs = [averaged(several) for several in found.drawn]
    shown.show(runs, found.tolerant, found.attained, quick)
    ratios: dict[str, float | None] = {
        key: None if quick else next(run.reductions[-1] for run in runs if run.workload == name)
        for name, key in _REDUCTIONS.items()
    }
    ratios["insert_ms_mean_10k"] = None if quick else max(run.insert_ms_mean for run in runs)
    ratios["terminate_ms_mean_10k"] = None if quick else max(run.terminate_ms_mean for run in runs)
    ratios["reopt_migrated_share"] = max(run.migrated for several in found.drawn for run in several)
    ratios.update({key: carried.ratios.get(key) for key in TRANSPORT})
    details = {
        "runs": [asdict(run) for run in runs],
        "runs_by_overlay": [asdict(run) for several in found.drawn for run in several],
        "saved_on_first_links_and_at_best": {name: [saved, best] for name, saved, best in found.attained},
        "overheads": [asdict(run) for run in found.tolerant],
        "statements": shown.statements(runs, found.tolerant),
        "transport": carried.details,
    }
    report.finish("delivery", ratios, details, quick)


def main() -> None:
    quick = report.quick_from_arguments("Delivery: what grouping queries saves on the network, and what it takes.")
    found = figures(quick)
    report.progress("real brokers and edges …")
    conclude(found, measure(quick), quick)


if __name__ == "__main__":
    main()
