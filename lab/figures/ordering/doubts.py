"""What the thesis leaves open, varied: how quick the source of S is, what steps cost, how often sites report, how
lotteries forget.

If the source of S is quicker than the sites that join, their queues are full most of the time and room alone decides:
S goes to whoever takes something out of its queue. With R ⋈ S 200 %, S ⋈ T 100 % that has a limit which no cost of a
step can move. Let a tuple take `one` second at a site where it finds one partner, and `two` where it finds two.

    site 1    every S passes it, first or last: busy `two` seconds for each
    site 3    gets an S of the better order once, and two results of site 1 for any other: `one`, or twice that

If both are busy all the time, 2 - two/one of S take the better order. If only site 3 is, it takes turns between S and
results of site 1; these come in twos, so that two S go there first for one that goes to site 1: 2/3, and never more. If
only site 1 is, it takes turns between S and results of site 3: 1/2, and never less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lab.figures.ordering.simulated_runs import MACHINES, R_FIRST, SWAP, Asked, Contest, Scale, Setting, contests
from lab.figures.ordering.unchanging import GROWS, SHRINKS, streams
from lab.ordering.setting import Costs, Machine
from lab.ordering.tickets import Lottery


@dataclass(frozen=True, slots=True)
class Doubts:
    by_source: dict[float, tuple[Contest, Contest]]
    """By the speed of site 2, as a multiple of the usual one: the two settings of Figure 5.5."""
    by_match: dict[float, Contest]
    """By what a match costs, in seconds: R ⋈ S 200 %, S ⋈ T 100 %."""
    by_threshold: dict[int, Contest]
    """By the number of results in a report: R ⋈ S 20 %, S ⋈ T 100 %."""
    by_lottery: dict[tuple[str, str], Contest]
    """By selectivities that change half-way, and kind of lottery; against one fixed order, the other is alike."""

    def facts(self) -> dict[str, Any]:
        return {
            "by_source": {str(speed): [each.facts() for each in pair] for speed, pair in self.by_source.items()},
            "by_match": {
                str(match): {**each.facts(), "expected_share": expected_share(each.setting.costs)}
                for match, each in self.by_match.items()
            },
            "by_threshold": {str(number): each.facts() for number, each in self.by_threshold.items()},
            "by_lottery": {"; ".join(names): each.facts() for names, each in self.by_lottery.items()},
        }


def expected_share(costs: Costs) -> float:
    """The part of S on the better order with R ⋈ S 200 %, S ⋈ T 100 %, if the source keeps all queues full."""
    taken, given = costs.receive + costs.build + costs.probe, costs.match + costs.send
    return min(max(2 - (taken + 2 * given) / (taken + given), 1 / 2), 2 / 3)


LOTTERIES = {
    "as it is": Lottery(),
    "halved after 10,000": Lottery(window=10_000),
    "never halved": Lottery(window=10**9),
    "nothing tried": Lottery(exploration=0.0),
    "never halved, nothing tried": Lottery(window=10**9, exploration=0.0),
    "10 % tried": Lottery(exploration=0.1),
}

_CHANGES = (
    Setting("5.12", "20 % and 200 %, then 200 % and 20 %", streams(0.2, 2.0, swapped=True), {}),
    Setting("–", "20 % and 90 %, then 90 % and 20 %", streams(0.2, 0.9, swapped=True), {}),
)


def measure(scale: Scale, everything: bool) -> Doubts:
    speed = MACHINES["2"].speed
    factors = (0.75, 1.0, 1.25, 1.5, 2.4) if everything else (1.5,)
    grows, shrinks = (
        contests({factor: Asked(_quicker(setting, factor * speed), scale) for factor in factors})
        for setting in (GROWS, SHRINKS)
    )
    matches = (0.0, 60e-6, 120e-6, 250e-6, 500e-6, 1e-3) if everything else (1e-3,)
    by_match = {cost: Asked(replace(GROWS, costs=Costs(match=cost)), scale) for cost in matches}
    thresholds = (5, 100, 1_000) if everything else (1_000,)
    by_threshold = {number: Asked(replace(SHRINKS, threshold=number), scale) for number in thresholds}
    by_lottery = {
        (setting.name, name): Asked(replace(setting, lottery=lottery), scale, (SWAP, R_FIRST))
        for setting in (_CHANGES if everything else _CHANGES[1:])
        for name, lottery in LOTTERIES.items()
        if everything or name in ("as it is", "never halved, nothing tried")
    }
    by_source = {factor: (grows[factor], shrinks[factor]) for factor in factors}
    return Doubts(by_source, contests(by_match), contests(by_threshold), contests(by_lottery))


def _quicker(setting: Setting, speed: float) -> Setting:
    return replace(setting, machines={"2": Machine(speed=speed)})
