"""Tables and pictures of all figures, the thesis's words beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench import report
from bench.charts import canvas, label, legend

if TYPE_CHECKING:
    from lab.figures.placement import Found

_COLOURS = {
    "Static": "#9a9a9a", "Elementary": "#d1495b", "Intermediate": "#e8963e", "flow-aware": "#5fa8d3",
    "homing": "#00798c", "OP-based": "#d1495b",
}  # fmt: skip


class Claim(NamedTuple):
    figure: str
    words: str
    ours: str


def claims(found: Found) -> list[Claim]:
    """What the thesis says of each figure, and what we found."""
    return [*_balancing_claims(found), *_change_claims(found)]


def _balancing_claims(found: Found) -> list[Claim]:
    said = []
    for name in dict.fromkeys(each.scheme for each in found.bounds):
        rows = {each.most_asked: each for each in found.bounds if each.scheme == name}
        four, most = rows[4], rows[max(rows)]
        said.append(
            Claim(
                "6.5",
                "balanced, and PR_max alike, from max₁ = 4 on",
                f"{name}: imbalance {rows[0].imbalance:.3f} at 0, {four.imbalance:.3f} at 4, {most.imbalance:.3f} at "
                f"{max(rows)}; PR_max {rows[0].worst_ratio:,.0f}, {four.worst_ratio:.1f}, {most.worst_ratio:.1f}",
            )
        )
    for shared in sorted({each.shared for each in found.operators.found}, reverse=True):
        numbers = sorted({each.operators for each in found.operators.found})
        ratios = ", ".join(f"{found.operators.ratio(number, shared):,.2g} at {number:g}" for number in numbers)
        said.append(
            Claim(
                "6.6",
                "operators as good as fragments up to 2 per fragment; far worse from 3 on",
                f"{'one medium' if shared else 'a switch'}: PR_max OP-based over fragments {ratios}",
            )
        )
    return said


def _change_claims(found: Found) -> list[Claim]:
    courses = found.strategies.courses
    dynamic = [each for each in courses if each.scheme != "Static"]
    extra = ", ".join(f"{each.scheme} {each.extra_changed:.0f}" for each in dynamic)
    returns = ", ".join(f"{each.scheme} {each.returns:.2f}" for each in dynamic)
    ratios = ", ".join(f"{each.scheme} {each.mean_worst_ratio:.1f}" for each in courses)
    said = [
        Claim("6.7a", "extra traffic: flow-aware < Intermediate < Elementary", f"Mbit/s: {extra}"),
        Claim("6.7a", "only flow-aware returns to its former traffic", f"after over before: {returns}"),
        Claim("6.7b", "PR_max: Static worst, the others alike", ratios),
    ]
    for figure, nodes in (("6.8", 1), ("6.9", 4)):
        for scheme in ("flow-aware", "homing"):
            up, down = found.changes.of(scheme, nodes).settled
            words = "migrations within 5 s after the first change, 5 to 6 s after the second"
            said.append(Claim(figure, words, f"{scheme}: {up:.1f} s and {down:.1f} s"))
    work = found.other_work
    most = max(each.nodes for each in work.perturbed)
    rise = ", ".join(
        f"{each.scheme} {each.normalised:.1f} ({each.normalised_at_end:.1f} at the end)"
        for each in work.perturbed
        if each.nodes == most
    )
    said.append(Claim("6.10", "Static degrades much faster", f"PR_max with {most} busy nodes over none: {rise}"))
    react = ", ".join(
        f"{each.weight}: trembles {each.trembling:.2f}, half moved after {each.reacts:.1f} s" for each in work.weights
    )
    said.append(Claim("6.11", "a small α trembles, a large one reacts slowly", react))
    return said


def show(found: Found) -> None:
    report.table(
        "Figure 6.5: partners, from an unbalanced start",
        ["scheme", "max₁", "partners", "imbalance", "mean load", "PR_max", "settled by s", "migrations"],
        [
            [each.scheme, each.most_asked, each.partners, each.imbalance, each.mean_load, each.worst_ratio,
             each.settled, each.moves]
            for each in found.bounds
        ],
    )  # fmt: skip
    report.table(
        "Figure 6.6: fragments against single operators",
        ["network", "operators", "scheme", "PR_max, last 10 s", "… whole run", "Mbit/s", "migrations", "given up"],
        [
            ["one medium" if each.shared else "switch", each.operators, each.scheme, each.worst_ratio,
             each.worst_ratio_whole, each.megabits, each.moves, each.congested]
            for each in found.operators.found
        ],
    )  # fmt: skip
    report.table(
        "Figure 6.7: strategies, while four nodes' streams are three times as fast, and after",
        ["scheme", "extra Mbit/s", "… after", "traffic after over before", "PR_max", "migrations", "not at home"],
        [
            [
                each.scheme,
                each.extra_changed,
                each.extra_after,
                each.returns,
                each.mean_worst_ratio,
                each.moves,
                each.away,
            ]
            for each in found.strategies.courses
        ],
    )
    report.table(
        "Figures 6.8 to 6.11, and what the thesis says of all",
        ["figure", "the thesis", "here"],
        claims(found),
    )


def draw(found: Found) -> dict[str, Figure]:
    return {"placement_balance": _balance(found), "placement_changes": _changes(found)}


def _balance(found: Found) -> Figure:
    figure, (spread, ratio, split, traffic, busy, weight) = canvas(3, rows=2)
    for scheme in dict.fromkeys(each.scheme for each in found.bounds):
        rows = [each for each in found.bounds if each.scheme == scheme]
        numbers = [each.most_asked for each in rows]
        _line(spread, numbers, [each.imbalance for each in rows], scheme)
        _line(ratio, numbers, [each.worst_ratio for each in rows], scheme)
    for scheme in ("flow-aware", "OP-based"):
        for shared, style in ((True, "-"), (False, "--")):
            rows = [each for each in found.operators.found if (each.scheme, each.shared) == (scheme, shared)]
            if not rows:
                continue
            name = f"{'fragments' if scheme == 'flow-aware' else scheme}, {'one medium' if shared else 'switch'}"
            numbers = [each.operators for each in rows]
            _line(split, numbers, [each.worst_ratio for each in rows], scheme, name, style)
            _line(traffic, numbers, [each.megabits for each in rows], scheme, name, style)
    for scheme in dict.fromkeys(each.scheme for each in found.other_work.perturbed):
        rows = [each for each in found.other_work.perturbed if each.scheme == scheme]
        _line(busy, [each.nodes for each in rows], [each.normalised for each in rows], scheme)
        at_end = [each.normalised_at_end for each in rows]
        _line(busy, [each.nodes for each in rows], at_end, scheme, f"{scheme}, at the end", "--")
    for each in found.other_work.weights:
        weight.plot(each.worst_ratios, linewidth=1.4, label=f"α = {each.weight}")
    label(spread, "6.5a: imbalance of loads", "max₁", "standard deviation")
    label(ratio, "6.5b: PR_max when stable", "max₁", "PR_max")
    label(split, "6.6a: fragments or operators", "operators per fragment", "PR_max")
    label(traffic, "6.6b: traffic", "operators per fragment", "Mbit/s")
    label(busy, "6.10: nodes with other work", "nodes", "PR_max over none")
    label(weight, "6.11: weight of the filter", "seconds", "PR_max")
    for axis in (ratio, split, busy, weight):
        axis.set_yscale("log")
    for axis in (spread, split, busy, weight):
        legend(axis)
    return figure


def _changes(found: Found) -> Figure:
    figure, (traffic, ratio, small, large, few, many) = canvas(2, rows=3, width=7.2, height=3.4)
    static = found.strategies.of("Static").megabits
    for each in found.strategies.courses:
        if each.scheme != "Static":
            extra = [bits - still for bits, still in zip(each.megabits, static, strict=True)]
            _line(traffic, range(len(extra)), extra, each.scheme, marker="")
        _line(ratio, range(len(each.worst_ratios)), each.worst_ratios, each.scheme, marker="")
    for axis, moves, nodes in ((small, few, 1), (large, many, 4)):
        for scheme in ("Static", "flow-aware", "homing"):
            change = found.changes.of(scheme, nodes)
            _line(axis, range(len(change.worst_ratios)), change.worst_ratios, scheme, marker="")
            if scheme != "Static":
                _line(moves, range(len(change.moves)), change.moves, scheme, marker="")
    label(traffic, "6.7a: traffic that Static does not have", "seconds", "Mbit/s")
    label(ratio, "6.7b: PR_max", "seconds", "PR_max")
    for axis, moves, figure_number, what in (
        (small, few, "6.8", "one node's streams"),
        (large, many, "6.9", "four nodes' streams"),
    ):
        label(axis, f"{figure_number}a: {what}, PR_max", "seconds", "PR_max")
        label(moves, f"{figure_number}b: {what}, migrations", "seconds", "per second")
        axis.set_yscale("log")
    ratio.set_yscale("log")
    for axis in (traffic, ratio, small, few):
        legend(axis)
    return figure


def _line(
    axis: Axes, across: object, up: object, scheme: str, name: str | None = None, style: str = "-", marker: str = "o"
) -> None:
    axis.plot(
        list(across), list(up), style, marker=marker, markersize=4, linewidth=1.6, color=_COLOURS[scheme],
        label=name or scheme,
    )  # fmt: skip
