"""R at site 1, S at site 2, T at site 3; R ⋈ S is evaluated at site 1, S ⋈ T at site 3. SwAP against both fixed orders.

With fewer tuples everything that is counted in tuples or seconds is as much smaller (queues, windows of tickets, the
instants of changes), and seconds are given as those of the whole size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from statistics import mean
from typing import Any, TypeVar

from bench import report
from lab.ordering.join_graph import Join, JoinGraph
from lab.ordering.query import Query, plan
from lab.ordering.setting import Change, Costs, Feed, Machine, Settings
from lab.ordering.simulator import Run, simulate
from lab.ordering.tickets import Lottery, Why

_WHOLE = 100_000
_CAPACITY = 100

SWAP, R_FIRST, T_FIRST = "SwAP", "R ⋈ S first", "S ⋈ T first"

_QUERY = plan(JoinGraph({"R": "1", "S": "2", "T": "3"}, (Join("R.a", "S.a", "1"), Join("S.a", "T.a", "3"))))
PLANS: dict[str, Query] = {
    SWAP: _QUERY,
    R_FIRST: _QUERY.fixed(("2", "1"), ("1", "3")),
    T_FIRST: _QUERY.fixed(("2", "3"), ("3", "1")),
}

#: The thesis's sites: two of 2.4 GHz, and one of 1 GHz that reads S.
MACHINES = {"1": Machine(), "2": Machine(speed=1 / 2.4), "3": Machine()}


@dataclass(frozen=True, slots=True)
class Scale:
    tuples: int
    seeds: int

    @property
    def part(self) -> float:
        return self.tuples / _WHOLE


@dataclass(frozen=True, slots=True)
class Setting:
    """One experiment: its tuples by seed, what differs from the usual machines, and what changes when."""

    figure: str
    name: str
    feeds: Callable[[Random, int], dict[str, Feed]]
    machines: Mapping[str, Machine]
    changes: Sequence[Change] = ()
    lottery: Lottery = field(default_factory=Lottery)
    threshold: int = 100
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True, slots=True)
class Contest:
    setting: Setting
    runs: dict[str, list[Run]]
    """By plan, one for each seed."""
    part: float

    def seconds(self, name: str) -> float:
        """Mean over all seeds, as of the whole size."""
        return mean(run.seconds for run in self.runs[name]) / self.part

    @property
    def best(self) -> str:
        return min((name for name in self.runs if name != SWAP), key=self.seconds)

    @property
    def over_best(self) -> float:
        return self.seconds(SWAP) / self.seconds(self.best)

    @property
    def spread(self) -> tuple[float, float]:
        """The ratio by seed: the least and the greatest."""
        pairs = zip(self.runs[SWAP], self.runs[self.best], strict=True)
        ratios = [ours.seconds / theirs.seconds for ours, theirs in pairs]
        return min(ratios), max(ratios)

    @property
    def r_first_share(self) -> float:
        """The part of S tuples that go to site 1 first."""
        return mean(run.share("2", "1") for run in self.runs[SWAP])

    def r_first_over_time(self, steps: int = 40) -> tuple[list[float], list[float]]:
        """Seconds, and the part of S tuples of the first seed that went to site 1 first around then."""
        run = self.runs[SWAP][0]
        to_1, to_3 = run.by_tick["2", "1"], run.by_tick["2", "3"]
        last = max(*to_1, *to_3)
        at, parts = [], []
        for step in range(steps):
            ticks = range(step * (last + 1) // steps, (step + 1) * (last + 1) // steps)
            there, elsewhere = sum(to_1[tick] for tick in ticks), sum(to_3[tick] for tick in ticks)
            if there + elsewhere:
                at.append((step + 0.5) * (last + 1) / steps / 10 / self.part)
                parts.append(there / (there + elsewhere))
        return at, parts

    @property
    def best_share(self) -> float:
        """The part that goes the way of the better fixed order."""
        return self.r_first_share if self.best == R_FIRST else 1 - self.r_first_share

    def decided_by(self, why: Why) -> float:
        """The part of S tuples whose way this decided."""
        decided = sum((run.decided["2"] for run in self.runs[SWAP]), Counter[Why]())
        return decided[why] / decided.total()

    @property
    def feedback(self) -> float:
        """Bytes of reports for each S tuple."""
        return mean(run.report_bytes / (run.routed["2", "1"] + run.routed["2", "3"]) for run in self.runs[SWAP])

    def facts(self) -> dict[str, Any]:
        return {
            "figure": self.setting.figure,
            "setting": self.setting.name,
            "seconds": {name: self.seconds(name) for name in self.runs},
            "over_best": self.over_best,
            "over_best_by_seed": self.spread,
            "r_first_share": self.r_first_share,
            "decided": {why.value: self.decided_by(why) for why in Why},
            "busy": {name: self.runs[SWAP][0].busy[name] for name in self.runs[SWAP][0].busy},
            "report_bytes_per_tuple": self.feedback,
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """A contest to be held."""

    setting: Setting
    scale: Scale
    plans: Sequence[str] = (SWAP, R_FIRST, T_FIRST)


_Name = TypeVar("_Name", bound=Hashable)


def contests(asked: Mapping[_Name, Asked]) -> dict[_Name, Contest]:
    """Contests by name. They have nothing to do with each other, so that each core can hold one at a time."""
    found: dict[_Name, Contest] = {}
    with ProcessPoolExecutor(report.cores(), get_context("spawn")) as pool:
        running = {pool.submit(contest, each.setting, each.scale, each.plans): name for name, each in asked.items()}
        for each in as_completed(running):
            held = found[running[each]] = each.result()
            setting = held.setting
            report.progress(f"ordering: {len(found)} of {len(asked)}: {setting.figure}, {setting.name}")
    return {name: found[name] for name in asked}


def contest(setting: Setting, scale: Scale, plans: Sequence[str] = (SWAP, R_FIRST, T_FIRST)) -> Contest:
    runs: dict[str, list[Run]] = {name: [] for name in plans}
    for seed in range(scale.seeds):
        feeds = setting.feeds(Random(f"{setting.figure} {seed}"), scale.tuples)
        for name in plans:
            runs[name].append(_run(setting, scale, PLANS[name], feeds, seed))
        answers = {each[-1].answers for each in runs.values()}
        if len(answers) != 1:
            raise AssertionError(f"plans give different numbers of answers in {setting.name}: {answers}")
    return Contest(setting, runs, scale.part)


def _run(setting: Setting, scale: Scale, query: Query, feeds: dict[str, Feed], seed: int) -> Run:
    lottery = Lottery(max(1, round(setting.lottery.window * scale.part)), setting.lottery.exploration)
    settings = Settings(
        costs=setting.costs,
        lottery=lottery,
        capacity=max(2, round(_CAPACITY * scale.part)),
        threshold=max(1, round(setting.threshold * scale.part)),
    )
    changes = [Change(change.at * scale.part, change.site, change.wire, change.others) for change in setting.changes]
    return simulate(query, feeds, {**MACHINES, **setting.machines}, seed, settings, changes)
