"""What Guirguis' text says of Figures 6 and 12 to 18, beside what is so; and the pictures."""

from __future__ import annotations

from typing import NamedTuple

from bench import charts, report
from lab.figures.weaving.sharing import FULL, QUICK, RATES, Contest, Gain, Sharing
from lab.figures.weaving.woven import mean, woven
from lab.weaving.workloads import any_slides


def show(found: Sharing, quick: bool) -> None:
    for rate, contests in found.contests.items():
        names = list(contests[0].costs)
        report.table(
            f"Guirguis, Figures 12 to 15: plan cost at {rate:,} rows/s, operations per second",
            ["queries", *names, "lower bound", "trees", "LS time / WS time"],
            [
                (
                    each.queries,
                    *(each.costs.get(name) for name in names),
                    each.bound,
                    each.trees,
                    each.local_search_effort,
                )
                for each in contests
            ],
        )
    report.table(
        "Guirguis, Figures 6 and 12 to 18: what the text states",
        ["figure", "statement", "paper", "ours", "remark"],
        claims(found),
    )
    _draw_rates(found, quick)
    _draw_contests(found, quick)
    _draw_gains(found, quick)


class Claim(NamedTuple):
    """One statement of the text."""

    figure: str
    statement: str
    paper: str
    ours: str
    remark: str


def claims(found: Sharing) -> list[Claim]:
    return [*_claims_of_figure_6(found), *_claims_of_contests(found), *_claims_of_gains(found)]


def _claims_of_figure_6(found: Sharing) -> list[Claim]:
    wide = found.wide_overlap
    best = wide.costs["Weave Share"]
    over_none, over_all = wide.costs["No Share"] / best, wide.costs["Shared"] / best
    ahead = wide.costs["No Share"] < wide.costs["Shared"]
    return [
        Claim(
            "6a",
            "250 queries: Shared wins from this rate on",
            "25",
            f"{found.crossing.rate:.1f}",
            f"{found.crossing.rate_with_every_second:.1f} in the {found.crossing.sets_with_every_second} with a "
            "slide of 1 s, where E = 1; less in the others",
        ),
        Claim("6a", "… and saves this at 50 rows/s", "50 %", f"{found.crossing.saving_at_50:.0%}", ""),
        Claim(
            "6b",
            f"{wide.queries:,} queries, 50 rows/s: No Share beats Shared",
            "yes",
            "yes" if ahead else "no",
            "with overlap factors up to 150; the text does not say which, and 6a excludes 50",
        ),
        Claim("6b", "… Weave Share over No Share", "20×", f"{over_none:.1f}×", ""),
        Claim("6b", "… Weave Share over Shared", "30×", f"{over_all:.1f}×", ""),
    ]


def _claims_of_contests(found: Sharing) -> list[Claim]:
    low, middle, high = (found.contests[rate][-1] for rate in RATES)
    size = f"{low.queries:,} queries"
    return [
        Claim(
            "12",
            f"{size}, 50 rows/s: Insert-then-Weave over Weave Share",
            "1,000×",
            _over(low, "Insert-then-Weave"),
            "cannot be: the text has Insert-then-Weave below Shared, and " + _at_most(low),
        ),
        Claim("12", f"{size}, 50 rows/s: Shared over Weave Share", "–", _over(low, "Shared"), _at_most(low)),
        Claim(
            "13",
            f"{size}, 300 rows/s: Shared over Weave Share",
            "10,000×",
            _over(middle, "Shared"),
            "cannot be: " + _at_most(middle),
        ),
        Claim(
            "13",
            "… Shared beats Insert-then-Weave",
            "yes",
            _who_wins(middle, "Shared", "Insert-then-Weave"),
            "the text does not define Insert-then-Weave: this one is reconstructed",
        ),
        Claim("14", f"{size}, 10,000 rows/s: gain over Shared", "62 %", f"{_gain_of(high):.0%}", _two_trees(high)),
        Claim(
            "16",
            "10,000 rows/s: over the best of No Share, LS, Random",
            "> 100×",
            _over_the_best(found),
            "at the most queries that LS ran on",
        ),
    ]


def _over(contest: Contest, rival: str) -> str:
    return f"{contest.costs[rival] / contest.costs['Weave Share']:.1f}×"


def _who_wins(contest: Contest, one: str, other: str) -> str:
    costs = contest.costs[one], contest.costs[other]
    return f"{'yes' if costs[0] < costs[1] else 'no'}: {costs[0]:,.0f} and {costs[1]:,.0f}"


def _over_the_best(found: Sharing) -> str:
    contest = [each for each in found.contests[10_000] if "Local Search" in each.costs][-1]
    best = min(contest.costs[name] for name in ("No Share", "Local Search", "Random"))
    return f"{best / contest.costs['Weave Share']:.0f}×"


def _gain_of(contest: Contest) -> float:
    return 1 - contest.costs["Weave Share"] / contest.costs["Shared"]


def _at_most(contest: Contest) -> str:
    """No plan is cheaper than the bound, so no ratio to Shared exceeds Shared/bound."""
    cost, bound = contest.costs["Shared"], contest.bound
    return f"no plan costs less than λ + Σ Eᵢωᵢ = {bound:,.0f}: at most {cost:,.0f}/{bound:,.0f} = {cost / bound:.0f}×"


def _two_trees(contest: Contest) -> str:
    """One tree gains nothing, and two read all rows twice."""
    twice, shared = 2 * contest.rate, contest.costs["Shared"]
    most = max(0.0, 1 - twice / shared)
    return f"cannot be: one tree gains 0 %, two read rows for 2λ = {twice:,}: at most {most:.0%} of {shared:,.0f}"


_STATED_GAINS = {50: "80 %", 2_000: "24 %", 3_000: "6 %", 4_000: "0 % (one tree)"}


def _claims_of_gains(found: Sharing) -> list[Claim]:
    rows: list[Claim] = []
    for each in found.by_rate:
        if each.rate in _STATED_GAINS:
            said, remark = _STATED_GAINS[int(each.rate)], f"{each.trees:.1f} trees"
            rows.append(
                Claim("16", f"250 queries, {each.rate:,} rows/s: gain over Shared", said, f"{each.gain:.0%}", remark)
            )
    for each in found.many_queries:
        if each.across in {1_000, 2_000}:
            said = "12 %" if each.across == 1_000 else "24 %"
            remark = "62 % in Figure 14 at the same point" if each.across == 1_000 else ""
            rows.append(Claim("16", f"{each.across:,} queries, 10,000 rows/s: gain", said, f"{each.gain:.0%}", remark))
    for each in found.by_overlap:
        if each.across == 2_000 and each.rate in {100, 1_000_000}:
            said = "98 %" if each.rate == 100 else "23 %"
            rows.append(
                Claim(
                    "17",
                    f"overlap ≤ 2,000, {each.rate:,} rows/s: gain",
                    said,
                    f"{each.gain:.1%}",
                    f"{each.trees:.0f} trees",
                )
            )
    for size, gains in found.by_skew.items():
        peak = max(gains, key=lambda each: each.gain)
        rows.append(
            Claim(
                "18",
                f"{size} queries by skew: rises to a maximum, falls to 0",
                "yes",
                f"{gains[0].gain:.0%} → {peak.gain:.0%} → {gains[-1].gain:.0%}",
                f"maximum at θ = {peak.across}",
            )
        )
    return rows


def _draw_rates(found: Sharing, quick: bool) -> None:
    """The picture that explains weaving: three ways to run 250 queries, at all rates."""
    sets = [woven(any_slides(250, 0), seed) for seed in range((QUICK if quick else FULL).crossover_seeds)]
    rates = [10 ** (step / 8) for step in range(40)]
    figure, axes = charts.canvas(2, width=6.0, height=4.6)
    curves = {
        "No Share": [mean([each.no_share(rate) for each in sets]) for rate in rates],
        "Shared": [mean([each.shared(rate) for each in sets]) for rate in rates],
        "Weave Share": [mean([each.woven(rate).cost for each in sets]) for rate in rates],
        "bound": [mean([each.bound(rate) for each in sets]) for rate in rates],
    }
    labels = {
        "No Share": "a tree for each query",
        "Shared": "one tree for all",
        "Weave Share": "woven",
        "bound": "no plan is cheaper",
    }
    for name, costs in curves.items():
        style = {"bound": {"linestyle": ":"}, "Weave Share": {"linewidth": 2.6}}.get(name, {})
        charts.line(axes[0], rates, costs, name, label=labels[name], marker="", **style)
    crossing = found.crossing.rate
    axes[0].axvline(crossing, color="#bbbbbb", linewidth=0.9)
    at = mean([each.shared(crossing) for each in sets])
    charts.paper(axes[0], [25], [at], f"crossing in the paper (25/s; ours {crossing:.0f}/s)")
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    charts.label(axes[0], "250 queries over one stream", "rows per second", "operations per second")
    charts.legend(axes[0], loc="upper left")
    charts.line(axes[1], rates, [mean([each.woven(rate).trees for each in sets]) for rate in rates], "Weave Share",
                label="trees of the woven plan", marker="")  # fmt: skip
    axes[1].set_xscale("log")
    axes[1].set_ylim(0)
    charts.label(axes[1], "The faster the rows, the fewer trees", "rows per second", "trees")
    charts.legend(axes[1])
    report.save_chart(figure, "weave_rates", quick)


def _draw_contests(found: Sharing, quick: bool) -> None:
    figure, axes = charts.canvas(3, width=4.9)
    for axis, (rate, contests) in zip(axes, found.contests.items(), strict=True):
        sizes = [each.queries for each in contests]
        for name in contests[0].costs:
            shown = [(each.queries, each.costs[name]) for each in contests if name in each.costs]
            # Others end where Shared is: it is drawn broad, to be seen behind them.
            style = {"linewidth": 5, "alpha": 0.4} if name == "Shared" else {}
            charts.line(axis, [size for size, _ in shown], [cost for _, cost in shown], name, **style)
        charts.line(
            axis, sizes, [each.bound for each in contests], "bound", marker="", linestyle=":", label="lower bound"
        )
        axis.set_yscale("log")
        charts.label(axis, f"{rate:,} rows per second", "queries", "operations per second")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=7, frameon=False)
    report.save_chart(figure, "weave_rivals", quick)


def _draw_gains(found: Sharing, quick: bool) -> None:
    figure, axes = charts.canvas(3 if found.by_overlap else 2, width=4.9)
    charts.line(
        axes[0], [each.rate for each in found.by_rate], [100 * each.gain for each in found.by_rate], "Weave Share"
    )
    charts.paper(axes[0], [50, 2_000, 3_000, 4_000], [80, 24, 6, 0])
    axes[0].set_xscale("log")
    charts.label(axes[0], "Figure 16: 250 queries", "rows per second", "saved, % of one tree for all")
    if found.by_overlap:
        for rate, colour in ((100, "#00798c"), (10_000, "#e8963e"), (1_000_000, "#d1495b")):
            gains = [each for each in found.by_overlap if each.rate == rate]
            charts.line(axes[1], *_across_and_up(gains), f"{rate:,} rows/s", color=colour)
        charts.paper(axes[1], [2_000, 2_000], [98, 23], "paper: 100 and 1,000,000 rows/s")
        axes[1].set_xscale("log")
        charts.label(axes[1], "Figure 17: 2,000 queries", "largest overlap factor", "saved, %")
    for (size, gains), colour in zip(found.by_skew.items(), ("#5fa8d3", "#00798c"), strict=False):
        charts.line(axes[-1], *_across_and_up(gains), f"{size} queries", color=colour)
    charts.label(axes[-1], "Figure 18: 100 rows/s, overlap ≤ 10", "skew θ of the slides", "saved, %")
    for axis in axes:
        axis.set_ylim(-5, 105)
        charts.legend(axis)
    report.save_chart(figure, "weave_gains", quick)


def _across_and_up(gains: list[Gain]) -> tuple[list[float], list[float]]:
    return [each.across for each in gains], [100 * each.gain for each in gains]
