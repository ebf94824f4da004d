"""What the thesis leaves open, varied: how quick the source of S is, how often sites report, how lotteries forget.

If the source of S is quicker than the sites that join, their queues are full most of the time and room alone decides.
Then a site takes turns between what comes from the source and what comes from the other site, and tuples go both ways.
That is so with R ⋈ S 200 %, S ⋈ T 100 % at any speed of the source: site 3 has two results of site 1 to take for each
S that went there first, so about a third of S goes there. It costs little: site 1, which every S has to pass, is busy
all the time anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bench.ordering_figures.contest import MACHINES, R_FIRST, SWAP, Contest, Scale, Setting, contest
from bench.ordering_figures.unchanging import GROWS, SHRINKS, streams
from weft.federation.ordering.setting import Machine
from weft.federation.ordering.tickets import Lottery


@dataclass(frozen=True, slots=True)
class Doubts:
    by_source: dict[float, tuple[Contest, Contest]]
    """By the speed of site 2, as a multiple of the usual one: the two settings of Figure 5.5."""
    by_threshold: dict[int, Contest]
    """By the number of results in a report: R ⋈ S 20 %, S ⋈ T 100 %."""
    by_lottery: dict[tuple[str, str], Contest]
    """By selectivities that change half-way, and kind of lottery; against one fixed order, the other is alike."""

    def facts(self) -> dict[str, Any]:
        return {
            "by_source": {str(speed): [each.facts() for each in pair] for speed, pair in self.by_source.items()},
            "by_threshold": {str(number): each.facts() for number, each in self.by_threshold.items()},
            "by_lottery": {"; ".join(names): each.facts() for names, each in self.by_lottery.items()},
        }


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
    by_source = {
        factor: (contest(_quicker(GROWS, factor * speed), scale), contest(_quicker(SHRINKS, factor * speed), scale))
        for factor in ((0.75, 1.0, 1.25, 1.5, 2.4) if everything else (1.5,))
    }
    by_threshold = {
        number: contest(replace(SHRINKS, threshold=number), scale)
        for number in ((5, 100, 1_000) if everything else (1_000,))
    }
    by_lottery = {
        (setting.name, name): contest(replace(setting, lottery=lottery), scale, (SWAP, R_FIRST))
        for setting in (_CHANGES if everything else _CHANGES[1:])
        for name, lottery in LOTTERIES.items()
        if everything or name in ("as it is", "never halved, nothing tried")
    }
    return Doubts(by_source, by_threshold, by_lottery)


def _quicker(setting: Setting, speed: float) -> Setting:
    return replace(setting, machines={"2": Machine(speed=speed)})
