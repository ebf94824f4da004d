"""Tables of all figures, the thesis's words beside what we measured."""

from __future__ import annotations

from typing import NamedTuple

from bench import report
from lab.figures.ordering.changing import Changing
from lab.figures.ordering.doubts import Doubts, expected_share
from lab.figures.ordering.simulated_runs import R_FIRST, SWAP, T_FIRST, Contest, Scale
from lab.figures.ordering.unchanging import Unchanging
from lab.ordering.tickets import Why


class Claim(NamedTuple):
    figure: str
    words: str
    ours: str


def claims(still: Unchanging, changing: Changing) -> list[Claim]:
    """What the thesis says of each figure, and what came out."""
    grows, shrinks = still.grows, still.shrinks
    first, last = (still.sweep[each] for each in (min(still.sweep), max(still.sweep)))
    return [
        Claim("5.5", "SwAP is very close to the best static plan", f"{_ratio(grows)}; {_ratio(shrinks)}"),
        Claim("5.5", "the worst static plan takes much more time", f"{_worst(grows)}; {_worst(shrinks)}"),
        Claim(
            "5.6",
            "nearly 80 % of tuples take the optimal order in both cases",
            f"{grows.best_share:.0%}; {shrinks.best_share:.0%}",
        ),
        Claim(
            "5.7",
            "both at least 1: nearly 90 % by back-pressure; otherwise mainly by tickets",
            f"{grows.decided_by(Why.PRESSURE):.0%} by back-pressure; {shrinks.decided_by(Why.TICKETS):.0%} by tickets",
        ),
        Claim("5.8", "SwAP is slightly better than the best static plan", _ratio(still.slow_wire)),
        Claim("5.9", "both grow linearly, SwAP more slowly", _growth(still)),
        Claim(
            "5.10",
            "via site 1 first: nearly all at 0, about half near 1",
            f"{first.r_first_share:.0%} at {min(still.sweep):g}, {last.r_first_share:.0%} at {max(still.sweep):g}",
        ),
        Claim("5.11", "SwAP approaches the best static plan", _ratio(still.busy)),
        Claim("5.12", "SwAP is better than both, not dramatically", _ratio(changing.selectivity)),
        Claim("5.13", "SwAP is much better than both", _ratio(changing.wire)),
        Claim("5.14", "SwAP is better than both", _ratio(changing.load)),
    ]


def _ratio(each: Contest) -> str:
    return f"{each.over_best:.3f} × the best"


def _worst(each: Contest) -> str:
    return f"{max(map(each.seconds, (R_FIRST, T_FIRST))) / each.seconds(each.best):.2f} × the best"


def _growth(still: Unchanging) -> str:
    """Seconds for each percent of selectivity, between the least and the greatest that were tried."""
    low, high = min(still.sweep), max(still.sweep)
    slopes = (
        f"{name} {(still.sweep[high].seconds(name) - still.sweep[low].seconds(name)) / (high - low) / 100:.1f}"
        for name in (SWAP, R_FIRST)
    )
    return f"seconds per percent: {', '.join(slopes)}"


def show(scale: Scale, still: Unchanging, changing: Changing, doubts: Doubts) -> None:
    report.table(
        "Operator ordering: the thesis's figures 5.5–5.14 and ours",
        ("figure", "thesis", "ours"),
        claims(still, changing),
        note=f"simulated, {scale.tuples:,} S tuples, {scale.seeds} seeds; what the thesis leaves open is in "
        "lab/figures/ordering/__init__.py",
    )
    report.table(
        "Seconds until all tuples are joined, as of 100,000 S tuples",
        ("figure", "setting", SWAP, R_FIRST, T_FIRST, "over best", "least", "most", "R ⋈ S first", "tickets", "room"),
        [_row(each) for each in (*still.contests, *changing.contests)],
        note="over best: SwAP over the better fixed order, then its least and greatest by seed; R ⋈ S first: part of S "
        "tuples; tickets, room: what decided where they went (the rest tried any way)",
    )
    _show_doubts(doubts)


def _row(each: Contest) -> list[object]:
    return [
        each.setting.figure,
        each.setting.name,
        *(each.seconds(name) if name in each.runs else None for name in (SWAP, R_FIRST, T_FIRST)),
        each.over_best,
        *each.spread,
        each.r_first_share,
        each.decided_by(Why.TICKETS),
        each.decided_by(Why.PRESSURE),
    ]


def _show_doubts(doubts: Doubts) -> None:
    report.table(
        "Doubts: Figure 5.5 by the speed of site 2, which reads S",
        ("speed × usual", *(f"{name}: {what}" for name in ("200 %", "20 %") for what in ("over best", "better order"))),
        [
            [speed, *(figure for each in pair for figure in (each.over_best, each.best_share))]
            for speed, pair in doubts.by_source.items()
        ],
        note="better order: part of S tuples. A quicker source keeps queues full, so that room decides, not tickets",
    )
    report.table(
        "Doubts: R ⋈ S 200 %, S ⋈ T 100 % by what a match costs",
        ("µs", "over best", "better order", "expected"),
        [
            [round(cost * 1e6), each.over_best, each.best_share, expected_share(each.setting.costs)]
            for cost, each in doubts.by_match.items()
        ],
        note="expected: from what sites can do, if all queues are full; between 1/2 and 2/3 whatever steps cost",
    )
    report.table(
        "Doubts: R ⋈ S 20 %, S ⋈ T 100 % by the number of results in a report",
        ("results", "over best", "better order", "bytes of reports per S tuple"),
        [[number, each.over_best, each.best_share, each.feedback] for number, each in doubts.by_threshold.items()],
    )
    report.table(
        "Doubts: forgetting and trying, with selectivities that change half-way",
        ("selectivities", "lottery", "SwAP over a fixed order"),
        [[*names, each.over_best] for names, each in doubts.by_lottery.items()],
    )
