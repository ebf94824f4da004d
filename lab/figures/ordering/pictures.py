"""Pictures of all figures."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench import charts
from lab.figures.ordering.changing import Changing
from lab.figures.ordering.doubts import Doubts
from lab.figures.ordering.simulated_runs import R_FIRST, SWAP, T_FIRST, Contest
from lab.figures.ordering.unchanging import Unchanging
from lab.ordering.tickets import Why

_COLOURS = {SWAP: "#00798c", R_FIRST: "#c9b458", T_FIRST: "#d1495b"}
_REASONS = {Why.TICKETS: "#00798c", Why.PRESSURE: "#e8963e", Why.EXPLORATION: "#9a9a9a"}


def draw(still: Unchanging, changing: Changing, doubts: Doubts) -> dict[str, Figure]:
    return {
        "adaptation_order": _unchanging(still),
        "adaptation_order_changing": _changing(changing),
        "adaptation_order_doubts": _doubts(doubts),
    }


def _unchanging(still: Unchanging) -> Figure:
    figure, (selectivity, ways, reasons, wire, swept, shares) = charts.canvas(3, 2)
    both = {"R ⋈ S 200 %": still.grows, "R ⋈ S 20 %": still.shrinks}
    _times(selectivity, both, "5.5  selectivities (S ⋈ T 100 %)")
    _stacked(
        ways,
        {name: (each.r_first_share, 1 - each.r_first_share) for name, each in both.items()},
        {R_FIRST: _COLOURS[R_FIRST], T_FIRST: _COLOURS[T_FIRST]},
    )
    charts.paper(ways, [0, 1], [0.2, 0.8], "thesis: nearly 80 % on the optimal order")
    charts.label(ways, "5.6  which way tuples took", "", "part of S tuples")
    ways.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    _stacked(
        reasons,
        {name: tuple(each.decided_by(why) for why in Why) for name, each in both.items()},
        {why.value: _REASONS[why] for why in Why},
    )
    charts.label(reasons, "5.7  what decided", "", "part of S tuples")
    reasons.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    _times(
        wire,
        {"5.8  slow wire": still.slow_wire, "5.11  busy site": still.busy},
        "5.8, 5.11  site 3 is slow (both 10 %)",
    )
    wire.set_yscale("log")
    for name in (SWAP, R_FIRST):
        seconds = [each.seconds(name) for each in still.sweep.values()]
        charts.line(swept, list(still.sweep), seconds, name, color=_COLOURS[name])
    charts.label(swept, "5.9  slow wire at site 3", "selectivity of both joins", "seconds")
    charts.legend(swept)
    via = [each.r_first_share for each in still.sweep.values()]
    charts.line(shares, list(still.sweep), via, "ours", color=_COLOURS[SWAP])
    charts.paper(shares, [0.0, 0.95], [1.0, 0.5], "thesis: nearly all at 0, half near 1")
    shares.set_ylim(0, 1.05)
    charts.label(shares, "5.10  via site 1 first", "selectivity of both joins", "part of S tuples")
    charts.legend(shares)
    return figure


def _changing(changing: Changing) -> Figure:
    figure, panels = charts.canvas(3, 2)
    titles = ("5.12  selectivities change places", "5.13  the slow wire moves", "5.14  the load moves")
    for axis, below, each, title in zip(panels[:3], panels[3:], changing.contests, titles, strict=True):
        _times(axis, {each.setting.name: each}, title)
        at, parts = each.r_first_over_time()
        charts.line(below, at, parts, "via site 1 first", color=_COLOURS[SWAP])
        for change in each.setting.changes[:1]:
            below.axvline(change.at, color="#222222", linewidth=1, linestyle=":")
        below.set_ylim(0, 1.05)
        charts.label(below, "… and where S tuples went meanwhile", "seconds", "part of S tuples via site 1 first")
    return figure


def _times(axis: charts.Axes, contests: dict[str, Contest], title: str) -> None:
    """Bars of seconds by plan; those of SwAP say what they are of the better fixed order."""
    width = 0.26
    for offset, name in zip((-width, 0.0, width), _COLOURS, strict=True):
        heights = [each.seconds(name) for each in contests.values()]
        places = [place + offset for place in range(len(contests))]
        axis.bar(places, heights, width * 0.94, color=_COLOURS[name], label=name)
    for place, each in enumerate(contests.values()):
        at = (place - width, each.seconds(SWAP))
        axis.annotate(f"{each.over_best:.2f}", at, ha="center", va="bottom", fontsize=8.5)
    axis.set_xticks(range(len(contests)), list(contests), fontsize=8.5)
    charts.label(axis, title, "", "seconds (number: over the better fixed order)")
    axis.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)


def _stacked(axis: charts.Axes, parts: dict[str, tuple[float, ...]], names: dict[str, str]) -> None:
    below = [0.0] * len(parts)
    for position, (name, colour) in enumerate(names.items()):
        heights = [each[position] for each in parts.values()]
        axis.bar(range(len(parts)), heights, 0.5, bottom=below, color=colour, label=name)
        below = [done + height for done, height in zip(below, heights, strict=True)]
    axis.set_xticks(range(len(parts)), list(parts))


def _doubts(doubts: Doubts) -> Figure:
    figure, (source, lottery) = charts.canvas(2, width=6.4)
    speeds = list(doubts.by_source)
    for position, (name, colour) in enumerate({"R ⋈ S 200 %": "#d1495b", "R ⋈ S 20 %": "#00798c"}.items()):
        pairs = [pair[position] for pair in doubts.by_source.values()]
        charts.line(
            source, speeds, [each.best_share for each in pairs], f"{name}: part on the better order", color=colour
        )
        ratios = [each.over_best for each in pairs]
        charts.line(source, speeds, ratios, f"{name}: seconds / best", color=colour, linestyle="--")
    source.set_ylim(0, 1.3)
    charts.label(source, "a quicker source of S", "speed of site 2, × usual", "part; ratio")
    charts.legend(source)
    settings = list(dict.fromkeys(setting for setting, _ in doubts.by_lottery))
    names = list(dict.fromkeys(name for _, name in doubts.by_lottery))
    height = 0.8 / len(settings)
    for position, setting in enumerate(settings):
        ratios = [doubts.by_lottery[setting, name].over_best for name in names]
        places = [place + position * height for place in range(len(names))]
        colour = ("#00798c", "#5fa8d3")[position]
        lottery.barh(places, ratios, height * 0.94, color=colour, label=setting)
    lottery.set_yticks([place + (len(settings) - 1) * height / 2 for place in range(len(names))], names)
    lottery.invert_yaxis()
    charts.label(lottery, "forgetting and trying", "seconds / those of a fixed order", "")
    lottery.legend(frameon=False, fontsize=8.5, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure
