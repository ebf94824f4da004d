"""Tables and pictures of all figures, the thesis's words beside our ratios."""

from __future__ import annotations

from typing import NamedTuple

from bench import charts, report
from lab.figures.dissemination.effort import Effort
from lab.figures.dissemination.many_objects import ManyObjects, SingleOrMany, growth, worst_ratio
from lab.figures.dissemination.schemes import DITA, GREEDY, GREEDY_ADAPTIVE, RANDOM, SA, SCHEMES, SOURCE_BASED, Loss
from lab.figures.dissemination.single_object import Dynamic, SingleObject, over_sa

_COLOURS = {
    SOURCE_BASED: "#9a9a9a", RANDOM: "#c9b458", DITA: "#d1495b", GREEDY: "#5fa8d3", GREEDY_ADAPTIVE: "#00798c",
    SA: "#222222", "SA + Adaptive": "#e8963e",
}  # fmt: skip


class Claim(NamedTuple):
    figure: str
    words: str
    ours: str


def claims(single: SingleObject, many: ManyObjects, effort: Effort) -> list[Claim]:
    """What the thesis says of each figure, and what we measured in the event simulation (or say otherwise)."""
    loads = sorted(single.by_load)
    first, last = single.by_load[loads[0]], single.by_load[loads[-1]]
    fast = [each for each in effort.times if each.name == "SA, fast"]
    grown = [each for each in effort.times if each.name == GREEDY]

    def times(found: dict[str, Loss], name: str) -> str:
        return f"{over_sa(found, name)[1]:.2f} × SA"

    period = f"{effort.shortest_period:.2g} s, at {effort.microseconds_per_decision:.3f} µs a decision and object"
    slower = f"at load {loads[-1]:g}"
    rounds = "; ".join(f"load {at.load:g}: {at.ratios[0]:.2f} to {at.after_30:.2f}" for at in single.adaptation)
    order = ", ".join(f"{name} {over_sa(many.by_load[1], name)[1]:.2f}" for name in SCHEMES[:-1])
    more = ", ".join(f"{name} {growth(many, name) - 1:+.0%}" for name in (GREEDY, SOURCE_BASED))
    spent = "; ".join(
        f"{a.objects} objects: {g.seconds:.2g} s and {a.seconds:.2g} s" for g, a in zip(grown, fast, strict=True)
    )
    return [
        Claim("4.2", "5 % of the processor for 10,000 objects: adapt every 12 s or more", period),
        Claim("4.3a", "Greedy performs as well as SA", times(first, GREEDY)),
        Claim("4.3a", "Greedy + Adaptive slightly improves", times(first, GREEDY_ADAPTIVE)),
        Claim("4.3a", "DiTA has more than two times SA at load 1", times(first, DITA)),
        Claim("4.3a", "Source-Based is worst at load 1 …", times(first, SOURCE_BASED)),
        Claim("4.3a", "… and gets better with load", f"{times(last, SOURCE_BASED)} {slower}"),
        Claim("4.3a", "DiTA becomes much worse with load", f"{times(last, DITA)} {slower}"),
        Claim("4.3a", "Random becomes much worse with load", f"{times(last, RANDOM)} {slower}"),
        Claim("4.3b", "Random + Adaptive: from > 3 (load 1), > 4 (load 5) to 1.3 × SA in 30 rounds", rounds),
        Claim("4.3c", "Source-Based deteriorates rapidly with rates; trees are insensitive", _by_rate(single)),
        Claim("4.4", "SA and DiTA jump and stay; SA + Adaptive returns", _after_change(single.dynamic)),
        Claim("4.5a", "many objects: the same order", order),
        Claim("4.5b", "Random + Adaptive reaches SA (model)", f"{many.rounds[0]:.2f} to {many.rounds[-1]:.2f} × SA"),
        Claim("4.5c", "100 to 500 objects: trees +15 %, Source-Based +200 %", more),
        Claim("4.6", "a tree per object is always better, more so with load", _settings("load ", many.trees_by_load)),
        Claim("4.7", "… and with less interest (load 8)", _settings("", many.trees_by_interest)),
        Claim("4.8", "Greedy is faster than both annealings", spent),
        Claim("4.8", "fast annealing costs more than 2 × Greedy", ", ".join(f"{each.cost:.2f} ×" for each in fast)),
        Claim("4.9", "many objects: SA stays bad, SA + Adaptive recovers", _after_change(many.dynamic)),
    ]


def _settings(word: str, listed: list[SingleOrMany]) -> str:
    return ", ".join(f"{word}{each.setting:g}: {each.ratio:.2f}" for each in listed)


def _by_rate(single: SingleObject) -> str:
    if not single.by_rate:
        return "not in a quick run"
    found = single.by_rate.items()
    return "; ".join(
        f"{name} " + ", ".join(f"{over_sa(each, name)[1]:.2f} (× {rate:g})" for rate, each in found)
        for name in (SOURCE_BASED, GREEDY)
    )


def _after_change(dynamic: Dynamic) -> str:
    return ", ".join(
        f"{name} {losses[dynamic.change]:.2f} then {losses[-1]:.2f}" for name, losses in dynamic.ratios.items()
    )


def show(single: SingleObject, many: ManyObjects, effort: Effort, quick: bool) -> None:
    report.table(
        "Dissemination: the thesis's figures 4.2–4.9 and ours (event simulation)",
        ("figure", "thesis", "ours"),
        claims(single, many, effort),
        note="AvgLF, the average loss of fidelity, as multiples of annealing's; model in the next table.",
    )
    report.table(
        "AvgLF of one object by load: model and event simulation, as multiples of SA's",
        ("load", *(f"{name} {kind}" for name in SCHEMES[:-1] for kind in ("m", "s"))),
        [
            (load, *(ratio for name in SCHEMES[:-1] for ratio in over_sa(found, name)))
            for load, found in single.by_load.items()
        ],
    )
    report.table(
        "Trees for each object over a single tree",
        ("varied", "at", "model", "simulated"),
        [
            (name, each.setting, each.many.model / each.single.model, each.ratio)
            for name, listed in (("load", many.trees_by_load), ("interest", many.trees_by_interest))
            for each in listed
        ],
        note=f"worst: {worst_ratio(many):.3f}",
    )
    _draw_static(single, quick)
    _draw_dynamic(single, many, quick)
    _draw_many(many, effort, quick)


def _draw_static(single: SingleObject, quick: bool) -> None:
    figure, (by_load, adapting, by_rate) = charts.canvas(3)
    _draw_schemes(by_load, single.by_load, "4.3a  one object, slower nodes", "load (× filter and send time)")
    for each in single.adaptation:
        charts.line(adapting, range(len(each.ratios)), each.ratios, f"Random + Adaptive, load {each.load:g}")
    charts.paper(adapting, [0, 0, 30], [3, 4, 1.3], "thesis: > 3, > 4; 1.3 after 30")
    adapting.axhline(1.0, color="#222222", linewidth=1)
    charts.label(adapting, "4.3b  a random tree adapts", "token rounds", "AvgLF / SA's, event simulation")
    charts.legend(adapting)
    _draw_schemes(by_rate, single.by_rate, "4.3c  one object, more messages", "message rate (× basic)")
    report.save_chart(figure, "dissemination_one_object", quick)


def _draw_schemes(axis: charts.Axes, found: dict[float, dict[str, Loss]], title: str, across: str) -> None:
    for name in SCHEMES[:-1]:
        ratios = [over_sa(each, name)[1] for each in found.values() if name in each]
        charts.line(axis, list(found), ratios, name, color=_COLOURS[name])
    axis.axhline(1.0, color=_COLOURS[SA], linewidth=1)
    axis.set_yscale("log")
    axis.set_yticks([1, 2, 3, 5, 8], labels=["1", "2", "3", "5", "8"])
    axis.minorticks_off()
    charts.label(axis, title, across, "AvgLF / SA's, event simulation")
    axis.set_visible(bool(found))
    charts.legend(axis)


def _draw_dynamic(single: SingleObject, many: ManyObjects, quick: bool) -> None:
    figure, panels = charts.canvas(2)
    for axis, dynamic, title in zip(
        panels, (single.dynamic, many.dynamic), ("4.4  one object", "4.9  many objects"), strict=True
    ):
        for name, losses in dynamic.ratios.items():
            at = [(place + 0.5) * dynamic.window for place in range(len(losses))]
            charts.line(axis, at, losses, name, color=_COLOURS[name])
        axis.axvline(dynamic.change * dynamic.window, color="#222222", linewidth=1, linestyle=":")
        axis.set_ylim(bottom=0)
        charts.label(
            axis, f"{title}: ten nodes become ten times slower", "seconds", "AvgLF / that of SA for the times then"
        )
        charts.legend(axis)
    report.save_chart(figure, "dissemination_change", quick)


def _draw_many(many: ManyObjects, effort: Effort, quick: bool) -> None:
    figure, (by_load, by_objects, trees, times) = charts.canvas(2, 2)
    _draw_schemes(by_load, many.by_load, "4.5a  many objects, slower nodes", "load")
    for name in SCHEMES[:-1]:
        losses = [found[name].simulated for found in many.by_objects.values() if name in found]
        if losses:
            growths = [loss / losses[0] for loss in losses]
            charts.line(by_objects, list(many.by_objects), growths, name, color=_COLOURS[name])
    charts.paper(by_objects, [500, 500], [1.15, 3.0], "thesis: trees +15 %, Source-Based +200 %")
    charts.label(by_objects, "4.5c  more objects", "objects", "AvgLF / that with the fewest objects")
    charts.legend(by_objects)
    _draw_trees(trees, "by load", many.trees_by_load, 1.0)
    _draw_trees(trees, "by interest × 10, load 8", many.trees_by_interest, 10.0)
    trees.axhline(1.0, color="#222222", linewidth=1)
    charts.label(trees, "4.6, 4.7  a tree for each object", "load; interest × 10", "AvgLF / that of a single tree")
    charts.legend(trees)
    for name in dict.fromkeys(each.name for each in effort.times):
        listed = [each for each in effort.times if each.name == name]
        charts.line(times, [each.objects for each in listed], [each.seconds for each in listed], name)
    times.set_yscale("log")
    charts.label(times, "4.8  time to build a tree", "objects", "processor seconds")
    charts.legend(times)
    report.save_chart(figure, "dissemination_many_objects", quick)


def _draw_trees(axis: charts.Axes, name: str, listed: list[SingleOrMany], scale: float) -> None:
    charts.line(axis, [each.setting * scale for each in listed], [each.ratio for each in listed], name)
