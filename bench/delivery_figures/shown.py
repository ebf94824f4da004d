"""Tables and pictures of the runs, and which of the source's statements came out."""

from __future__ import annotations

from collections.abc import Sequence

from bench import charts, report
from bench.delivery_figures.runs import Run

_RANDOM = ("uniform", "Zipf 1.0", "Zipf 1.5", "Zipf 2.0")
_COLOURS = ("#9a9a9a", "#5fa8d3", "#00798c", "#6a0572", "#d1495b")


def statements(runs: Sequence[Run], tolerant: Sequence[Run]) -> dict[str, bool]:
    """What the source says of its figures, and whether it came out here."""
    random = [run for run in runs if run.workload in _RANDOM]
    last = [run.reductions[-1] for run in random]
    by_overhead = {(run.workload, run.overhead): run.reductions[-1] for run in tolerant}
    overheads = sorted({run.overhead for run in tolerant})
    spread = [
        abs(by_overhead[name, overheads[-1]] - by_overhead[name, overheads[0]])
        for name in _RANDOM
        if (name, overheads[0]) in by_overhead
    ]
    return {
        "6a: more queries, more is saved": all(run.reductions == sorted(run.reductions) for run in random),
        "6a: more skew, more is saved": last == sorted(last),
        "6b: fewer groups per query where more is saved": all(
            run.ratios == sorted(run.ratios, reverse=True) for run in random
        ),
        "7: the tolerated overhead makes little difference": max(spread, default=0.0) < 0.02,
        "8a: a round saves more than none": all(run.reoptimised >= run.left_alone for run in random),
        "8a: a round saves much more than none": all(run.reoptimised > run.left_alone + 0.02 for run in random),
        "8a: inserting all afresh saves more still": all(run.reinserted >= run.reoptimised for run in random),
        "8b: a round moves far fewer queries than inserting all afresh": all(
            4 * run.migrated < run.reinsertion_migrated for run in random
        ),
        "9a: to leave the most popular group is faster in a tree than in a flat list": all(
            run.popular_terminate_ms < run.flat_merge_ms for run in runs
        ),
    }


_READ_WITH = """\
Rates and windows are not in the source: a row every two seconds and ranges up to a second are ours. Faster streams
mean more joined rows, of which fewer are shared, and smaller figures throughout; slower ones larger figures. At a row
every three seconds the source's procedure by the letter comes to about what its digest measured, but for uniform
queries; at the rate here it stays below all of that. "By the letter" counts as the digest does: a link carries
the columns
of conditions, and every row has all columns that anybody behind it needs. weft's edges tell each other whose rows are,
and send the columns that those show who take them. Overlays differ more than workloads do: the deeper the tree below
the server's first links, the more is shared. Every figure is a mean over the first two seeds."""


def show(
    runs: Sequence[Run], tolerant: Sequence[Run], attained: Sequence[tuple[str, float, float]], quick: bool
) -> None:
    """Prints tables, and draws the figures."""
    report.progress(_READ_WITH)
    sizes = runs[0].sizes
    report.table(
        "Figure 6: latency × traffic saved, and groups per query",
        ["queries are", *(f"saved at {size:,}" for size in sizes), *(f"groups at {size:,}" for size in sizes)],
        [(run.workload, *run.reductions, *run.ratios) for run in runs],
    )
    report.table(
        f"Against the source's procedure by the letter, {sizes[-1]:,} queries",
        ["queries are", "weft saves", "by the letter"],
        [(run.workload, run.reductions[-1], run.plain) for run in runs if run.workload in _RANDOM],
    )
    report.table(
        "Against the best groups that can be found, a few hundred queries, first links only",
        ["queries are", "weft saves", "the best would save"],
        list(attained),
    )
    report.table(
        "Figure 7: the same with other tolerated overheads",
        ["queries are", "overhead", "queries", "saved", "groups per query"],
        [(run.workload, run.overhead, run.sizes[-1], run.reductions[-1], run.ratios[-1]) for run in tolerant],
    )
    report.table(
        "Figure 8: after half of the queries have gone",
        ["queries are", "as they are", "after a round", "inserted afresh", "moved by the round", "… by inserting"],
        [(r.workload, r.left_alone, r.reoptimised, r.reinserted, r.migrated, r.reinsertion_migrated) for r in runs],
    )
    report.table(
        "Figure 9: CPU milliseconds",
        [
            "queries are",
            "insert",
            "at most",
            "terminate",
            "at most",
            "largest group",
            "leaving it",
            "merging it as a flat list",
        ],
        [
            (
                run.workload,
                run.insert_ms_mean,
                run.insert_ms_max,
                run.terminate_ms_mean,
                run.terminate_ms_max,
                run.largest_group,
                run.popular_terminate_ms,
                run.flat_merge_ms,
            )
            for run in runs
        ],
    )
    report.table("What the source says", ["statement", "came out"], list(_yes_or_no(statements(runs, tolerant))))
    _draw(runs, tolerant, quick)


def _yes_or_no(found: dict[str, bool]) -> list[tuple[str, str]]:
    return [(statement, "yes" if holds else "no") for statement, holds in found.items()]


def _draw(runs: Sequence[Run], tolerant: Sequence[Run], quick: bool) -> None:
    figure, panels = charts.canvas(2)
    for run, colour in zip(runs, _COLOURS, strict=True):
        panels[0].plot(run.sizes, [100 * each for each in run.reductions], marker="o", color=colour, label=run.workload)
        panels[1].plot(run.sizes, run.ratios, marker="o", color=colour, label=run.workload)
    charts.label(panels[0], "Saved", "queries", "% of latency × traffic")
    charts.label(panels[1], "Groups", "queries", "groups per query")
    panels[0].legend(frameon=False)
    report.save_chart(figure, "delivery_growth", quick)

    figure, panels = charts.canvas(2)
    names = list(dict.fromkeys(run.workload for run in tolerant))
    for name, colour in zip(names, _COLOURS[-len(names) :], strict=True):
        of = [run for run in tolerant if run.workload == name]
        panels[0].plot(
            [run.overhead for run in of],
            [100 * run.reductions[-1] for run in of],
            marker="o",
            color=colour,
            label=name,
        )
    charts.label(panels[0], "Tolerated overhead", "overhead α", "% of latency × traffic saved")
    panels[0].legend(frameon=False)
    kinds = (("as they are", "left_alone"), ("after a round", "reoptimised"), ("inserted afresh", "reinserted"))
    for place, (label, attribute) in enumerate(kinds):
        across = [number + 0.27 * (place - 1) for number in range(len(runs))]
        panels[1].bar(across, [100 * getattr(r, attribute) for r in runs], 0.25, color=_COLOURS[place + 1], label=label)
    panels[1].set_xticks(range(len(runs)), [run.workload for run in runs])
    charts.label(panels[1], "After half of the queries have gone", "", "% of latency × traffic saved")
    panels[1].legend(frameon=False)
    report.save_chart(figure, "delivery_reoptimisation", quick)

    figure, panels = charts.canvas(2)
    names = [run.workload for run in runs]
    for panel, title, figures in (
        (
            panels[0],
            "Leaving the most popular group",
            [("tree", "popular_terminate_ms"), ("flat list", "flat_merge_ms")],
        ),
        (panels[1], "Insertion", [("mean", "insert_ms_mean"), ("slowest", "insert_ms_max")]),
    ):
        for place, (label, attribute) in enumerate(figures):
            across = [number + 0.36 * (place - 0.5) for number in range(len(runs))]
            panel.bar(across, [getattr(r, attribute) for r in runs], 0.34, color=_COLOURS[2 + 2 * place], label=label)
        panel.set_yscale("log")
        panel.set_xticks(range(len(runs)), names)
        charts.label(panel, title, "", "CPU milliseconds")
        panel.legend(frameon=False)
    report.save_chart(figure, "delivery_times", quick)
