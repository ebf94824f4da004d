"""What steps cost is not in the thesis. Which costs fit all that it says of Figures 5.5–5.14 best?

    python -m lab.figures.ordering.calibration

This is a fit, not a measurement: the costs are free, the thesis's statements are the data. Each statement is a figure
and the range in which it has to lie; how words became ranges is in `statements`, and was not touched after the first
fit. Costs are as bad as the sum of (distance from the range / 0.05)² over all statements, so that none weighs more than
the others, and none is met unseen at the cost of another one.

How long queues are, and after how many results their number is sent, is not free: with fewer tuples both are smaller,
and what a report costs is not. A first fit that had them free, with 4,000 tuples, was no good with 20,000.

Costs are drawn at random first, each between a tenth and four times of what had been chosen by hand. Then those that
are best are changed, by less and less: first with few tuples, and the best of these with more of them. Every random
number comes from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, astuple, dataclass, fields, replace
from math import exp, log
from multiprocessing import get_context
from random import Random
from typing import Any, NamedTuple

from bench import report
from lab.figures.ordering import changing, unchanging
from lab.figures.ordering.changing import Changing
from lab.figures.ordering.simulated_runs import R_FIRST, SWAP, T_FIRST, Contest, Scale, Setting, contest
from lab.figures.ordering.unchanging import Unchanging
from lab.ordering.setting import Costs
from lab.ordering.tickets import Why

#: As far as this from its range, a statement is one unit wrong.
UNIT = 0.05

_SELECTIVITIES = (0.0, 0.3, 0.6, 0.9)
_COSTS = tuple(each.name for each in fields(Costs))

#: What we had chosen before there was a fit.
BY_HAND = Costs(read=190e-6, receive=190e-6, send=190e-6, build=250e-6, probe=300e-6, match=250e-6)

#: Times the costs that were chosen by hand.
_LEAST, _MOST = 0.1, 4.0

#: How much less costs are changed in each further round.
_SMALLER = 0.75


class Statement(NamedTuple):
    """What the thesis says, as a range, and what came out."""

    figure: str
    words: str
    low: float
    high: float | None
    found: float

    @property
    def badness(self) -> float:
        above = 0.0 if self.high is None else self.found - self.high
        return (max(self.low - self.found, above, 0.0) / UNIT) ** 2


def statements(still: Unchanging, changed: Changing) -> Iterator[Statement]:
    """All that the thesis says of Figures 5.5–5.14 that a run can be held to."""
    for each, case in ((still.grows, "200 %"), (still.shrinks, "20 %")):
        yield Statement("5.5", f"{case}: very close to the best static plan", 0.95, 1.05, each.over_best)
        yield Statement("5.5", f"{case}: the worst static plan takes much more time", 1.3, None, _worst_over_best(each))
    # The better order is named by the thesis; it need not be the quicker one with every set of constants.
    yield Statement("5.6", "200 %: nearly 80 % take the optimal order", 0.75, 0.8, 1 - still.grows.r_first_share)
    yield Statement("5.6", "20 %: nearly 80 % take the optimal order", 0.75, 0.8, still.shrinks.r_first_share)
    yield Statement("5.7", "200 %: nearly 90 % by back-pressure", 0.85, 0.9, still.grows.decided_by(Why.PRESSURE))
    yield Statement("5.7", "20 %: mainly by tickets", 0.5, 1, still.shrinks.decided_by(Why.TICKETS))
    yield Statement("5.8", "slightly better than the best static plan", 0.85, 0.99, still.slow_wire.over_best)
    low, high = min(_SELECTIVITIES), max(_SELECTIVITIES)
    for name in (SWAP, R_FIRST):
        yield Statement("5.9", f"{name} grows linearly: bend", 0, 0.05, _bend(still.sweep, name))
    slopes = [still.sweep[high].seconds(name) - still.sweep[low].seconds(name) for name in (SWAP, R_FIRST)]
    yield Statement("5.9", "SwAP grows more slowly: slope over slope", 0, 0.95, slopes[0] / slopes[1])
    yield Statement("5.10", "nearly all via site 1 first at 0", 0.95, 1, still.sweep[low].r_first_share)
    yield Statement("5.10", "about half near 1", 0.45, 0.55, still.sweep[high].r_first_share)
    yield Statement("5.11", "approaches the best static plan", 0.95, 1.05, still.busy.over_best)
    yield Statement("5.12", "better than both, not very dramatically", 0.8, 0.98, changed.selectivity.over_best)
    yield Statement("5.13", "much more efficient than both", 0, 0.7, changed.wire.over_best)
    yield Statement("5.14", "superior to both", 0, 0.95, changed.load.over_best)
    for each in (changed.wire, changed.load):
        at = each.setting.changes[0].at
        yield Statement(each.setting.figure, f"{at:g} s are amidst the run", 0.1, 0.9, at / each.seconds(SWAP))


def _worst_over_best(each: Contest) -> float:
    return max(map(each.seconds, (R_FIRST, T_FIRST))) / each.seconds(each.best)


def _bend(sweep: Mapping[float, Contest], name: str) -> float:
    """How far seconds are from a straight line between the ends, at most, as a part of what they grow by."""
    low, high = min(sweep), max(sweep)
    first, last = sweep[low].seconds(name), sweep[high].seconds(name)
    expected = {at: first + (last - first) * (at - low) / (high - low) for at in sweep}
    return max(abs(sweep[at].seconds(name) - expected[at]) for at in sweep) / abs(last - first)


@dataclass(frozen=True, slots=True)
class Tried:
    costs: Costs
    statements: tuple[Statement, ...]

    @property
    def badness(self) -> float:
        return sum(each.badness for each in self.statements)

    @property
    def optimal_share(self) -> float:
        shares = [each.found for each in self.statements if each.figure == "5.6"]
        return sum(shares) / len(shares)

    def facts(self) -> dict[str, Any]:
        said = [each._asdict() | {"badness": each.badness} for each in self.statements]
        return {"costs": asdict(self.costs), "optimal_share": self.optimal_share, "statements": said}


def tried(costs: Costs, tuples: int) -> Tried:
    """All figures with some costs."""

    def held(setting: Setting, plans: Sequence[str] = (SWAP, R_FIRST, T_FIRST)) -> Contest:
        return contest(replace(setting, costs=costs), scale, plans)

    scale = Scale(tuples, seeds=1)
    swept = unchanging.swept(_SELECTIVITIES)
    still = Unchanging(
        **{name: held(each) for name, each in unchanging.SETTINGS.items()},
        sweep={at: held(each, (SWAP, R_FIRST)) for at, each in swept.items()},
    )
    changed = Changing(**{name: held(each) for name, each in changing.SETTINGS.items()})
    return Tried(costs, tuple(statements(still, changed)))


@dataclass(frozen=True, slots=True)
class Stage:
    """Rounds of changing the best costs, all with as many tuples."""

    tuples: int
    rounds: int
    children: int
    parents: int
    step: float
    """How far costs are changed in the first round: the deviation of their logarithm."""


@dataclass(frozen=True, slots=True)
class Search:
    drawn: int
    coarse: Stage
    carried: int
    """The best of the coarse stage, which are tried again with more tuples."""
    fine: Stage


FULL = Search(30, Stage(10_000, rounds=6, children=14, parents=4, step=0.5), 6, Stage(30_000, 2, 8, 2, step=0.15))
QUICK = Search(3, Stage(2_000, rounds=1, children=2, parents=1, step=0.5), 1, Stage(4_000, 1, 2, 1, step=0.15))


def search(effort: Search) -> tuple[Tried, Tried]:
    """The costs by hand, and the best that were found, with the tuples of the fine stage."""
    random = Random(10)
    with ProcessPoolExecutor(report.cores(), get_context("spawn")) as pool:

        def refined(begun: list[Costs], stage: Stage) -> list[Tried]:
            """All that were tried, the best first."""
            known = list(pool.map(tried, begun, [stage.tuples] * len(begun)))
            for number in range(stage.rounds):
                known.sort(key=lambda each: each.badness)
                parents = [each.costs for each in known[: stage.parents]]
                step = stage.step * _SMALLER**number
                children = [_changed(random.choice(parents), random, step) for _ in range(stage.children)]
                known += pool.map(tried, children, [stage.tuples] * len(children))
                best = min(known, key=lambda each: each.badness)
                report.progress(
                    f"{stage.tuples:,} tuples, round {number}: {best.badness:.1f}, {_microseconds(best.costs)}"
                )
            return sorted(known, key=lambda each: each.badness)

        coarse = refined([BY_HAND, *(_drawn(random) for _ in range(effort.drawn))], effort.coarse)
        carried = [each.costs for each in coarse if each.costs != BY_HAND][: effort.carried]
        fine = refined([BY_HAND, *carried], effort.fine)
    return next(each for each in fine if each.costs == BY_HAND), fine[0]


def _drawn(random: Random) -> Costs:
    factors = [exp(random.uniform(log(_LEAST), log(_MOST))) for _ in _COSTS]
    return Costs(*(usual * factor for usual, factor in zip(astuple(BY_HAND), factors, strict=True)))


def _changed(known: Costs, random: Random, step: float) -> Costs:
    """Every cost times some factor near 1, within the range that is drawn from."""
    moved = (cost * exp(random.gauss(0, step)) for cost in astuple(known))
    return Costs(
        *(min(max(cost, usual * _LEAST), usual * _MOST) for cost, usual in zip(moved, astuple(BY_HAND), strict=True))
    )


def _microseconds(costs: Costs) -> list[int]:
    return [round(each * 1e6) for each in astuple(costs)]


def main() -> None:
    effort = QUICK if report.quick_from_arguments("Which costs of steps fit Figures 5.5–5.14 best.") else FULL
    by_hand, fitted = search(effort)
    report.table(
        "Costs, and how badly they fit",
        ("", *_COSTS, "badness", "Figure 5.6"),
        [
            [name, *_microseconds(each.costs), each.badness, each.optimal_share]
            for name, each in (("by hand", by_hand), ("fitted", fitted))
        ],
        note="µs at a site of speed 1; Figure 5.6: mean of both settings",
    )
    report.table(
        "The thesis's statements",
        ("figure", "statement", "at least", "at most", "by hand", "badness", "fitted", "badness"),
        [
            [old.figure, old.words, old.low, old.high, old.found, old.badness, new.found, new.badness]
            for old, new in zip(by_hand.statements, fitted.statements, strict=True)
        ],
        note=f"{effort.fine.tuples:,} S tuples; badness: (distance from the range / {UNIT})²",
    )
    ratios = {"badness_by_hand": by_hand.badness, "badness_fitted": fitted.badness}
    details = {"by_hand": by_hand.facts(), "fitted": fitted.facts(), "s_tuples": effort.fine.tuples}
    report.finish("adaptation_calibration", ratios, details, effort == QUICK)


if __name__ == "__main__":
    main()
