"""Figures 3.8 to 3.12 as pictures."""

from __future__ import annotations

from matplotlib.axes import Axes

from bench import report
from bench.charts import canvas, label
from lab.figures.providers.arrivals import Course
from lab.figures.providers.initial import Initial
from lab.figures.providers.rates import Change
from lab.figures.providers.repair import Round
from lab.figures.providers.throughput import Throughput

COLOURS = {
    "Naive": "#9a9a9a",
    "Greedy": "#e8963e",
    "Centralised": "#8f6bb3",
    "Hierarchical": "#00798c",
    "METIS": "#1b4332",
    "Random": "#9a9a9a",
    "Online": "#e8963e",
    "Online-Adaptive": "#00798c",
    "NA-Inaccurate": "#9a9a9a",
    "A-Inaccurate": "#d1495b",
    "A-Accurate": "#00798c",
    "Adaptive": "#00798c",
    "Re-mapping": "#8f6bb3",
    "Non-Adaptive": "#9a9a9a",
}


def _line(axis: Axes, across: list[float], up: list[float], name: str) -> None:
    axis.plot(across, up, marker="o", markersize=4, linewidth=1.6, label=name, color=COLOURS.get(name))


def _names(listed: list[str]) -> list[str]:
    return list(dict.fromkeys(listed))


def draw_initial(found: Initial, quick: bool) -> None:
    figure, (cost, cut, time) = canvas(3)
    for name in _names([each.name for each in found.placements]):
        points = [each for each in found.placements if each.name == name]
        sizes = [each.queries for each in points]
        _line(cost, sizes, [each.true_cost for each in points], name)
        _line(cut, sizes, [each.edge_cut for each in points], name)
        if name in ("Centralised", "Hierarchical"):
            _line(time, sizes, [each.cpu_seconds for each in points], name)
    time.plot(
        list(found.response), list(found.response.values()), "o--", color=COLOURS["Hierarchical"], markersize=4,
        label="Hierarchical, response",
    )  # fmt: skip
    label(cost, "Figure 3.8a: true cost", "queries", "against Naive")
    label(cut, "… and weighted edge cut", "queries", "against Naive")
    label(time, "Figure 3.8b: time", "queries", "processor seconds")
    time.set_yscale("log")
    for axis in (cost, time):
        axis.legend(fontsize=8)
    report.save_chart(figure, "providers_initial", quick)


def draw_repair(found: list[Round], quick: bool) -> None:
    figure, (cost, balance) = canvas(2)
    last = max(each.number for each in found)
    for name in ("NA-Inaccurate", "A-Inaccurate", "A-Accurate"):
        points = [each for each in found if each.judged.name == name]
        rounds = [each.number for each in points]
        costs, spreads = [each.judged.true_cost for each in points], [each.judged.imbalance for each in points]
        if len(points) == 1:
            rounds, costs, spreads = [0, last], costs * 2, spreads * 2
        _line(cost, rounds, costs, name)
        _line(balance, rounds, spreads, name)
    label(cost, "Figure 3.9: true cost after a bad start", "round", "against Naive")
    label(balance, "… and imbalance", "round", "standard deviation of load / mean")
    cost.legend(fontsize=8)
    report.save_chart(figure, "providers_repair", quick)


def draw_arrivals(found: list[Course], quick: bool) -> None:
    figure, (cost, balance, stay) = canvas(3)
    for each in found:
        times = [moment.seconds for moment in each.moments]
        _line(cost, times, [moment.edge_cut for moment in each.moments], each.scheme)
        _line(balance, times, [moment.imbalance for moment in each.moments], each.scheme)
        _line(stay, times[1:], [moment.stay for moment in each.moments[1:]], each.scheme)
    label(cost, "Figure 3.10: edge cut as queries come", "seconds", "bytes/s × ms")
    label(balance, "… and imbalance", "seconds", "standard deviation of load / mean")
    label(stay, "… and how long work stays (simulated)", "seconds", "seconds at a provider")
    stay.set_yscale("log")
    cost.legend(fontsize=8)
    report.save_chart(figure, "providers_arrivals", quick)


def draw_throughput(found: list[Throughput], quick: bool) -> None:
    figure, (speed, cost) = canvas(2)
    sizes = [each.k for each in found]
    speed.plot(sizes, [each.per_second for each in found], "o-", color="#00798c")
    speed.axhline(800_000, color="#222222", linestyle=":", label="the source: > 800,000")
    speed.set_ylim(bottom=0)
    speed.legend(fontsize=8)
    cost.plot(sizes, [each.true_cost for each in found], "o-", color="#00798c", label="true cost")
    cost.plot(sizes, [each.edge_cut for each in found], "s--", color="#8f6bb3", label="edge cut")
    cost.legend(fontsize=8)
    label(speed, "Figure 3.11: routing at the root", "k", "queries per second")
    label(cost, "… and its quality", "k", "against Naive")
    report.save_chart(figure, "providers_throughput", quick)


def draw_rates(found: list[Change], quick: bool) -> None:
    figure, (cost, balance, moves) = canvas(3)
    for name in _names([each.scheme for each in found]):
        points = [each for each in found if each.scheme == name]
        steps = [each.step for each in points]
        _line(cost, steps, [each.true_cost for each in points], name)
        _line(balance, steps, [each.imbalance for each in points], name)
        _line(moves, steps, [each.moves for each in points], name)
    label(cost, "Figure 3.12: true cost as rates change", "change", "against Naive")
    label(balance, "… and imbalance", "change", "standard deviation of load / mean")
    label(moves, "… and migrations", "change", "queries moved")
    cost.legend(fontsize=8)
    report.save_chart(figure, "providers_rates", quick)
