"""Figures 5.5–5.11: how well SwAP learns selectivities, slow wires and busy sites that stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import mean

from lab.figures.ordering.simulated_runs import R_FIRST, SWAP, Asked, Contest, Scale, Setting, contests
from lab.ordering.setting import Feed, Machine
from lab.ordering.workload import three_streams

#: Seconds for each tuple over a slow connection.
SLOW = 0.01


@dataclass(frozen=True, slots=True)
class Unchanging:
    grows: Contest
    """R ⋈ S makes two of each S: S ⋈ T should come first."""
    shrinks: Contest
    """R ⋈ S lets a fifth of them pass: it should come first."""
    slow_wire: Contest
    sweep: dict[float, Contest]
    """A slow wire, by the selectivity of both joins; against the better order only."""
    busy: Contest

    @property
    def contests(self) -> list[Contest]:
        return [self.grows, self.shrinks, self.slow_wire, *self.sweep.values(), self.busy]

    @property
    def optimal_share(self) -> float:
        return mean((self.grows.best_share, self.shrinks.best_share))


def streams(r: float, t: float, swapped: bool = False, stored: bool = False) -> partial[dict[str, Feed]]:
    """R, S and T with these selectivities with respect to S."""
    return partial(_streams, r=r, t=t, swapped=swapped, stored=stored)


def _streams(random: Random, tuples: int, r: float, t: float, swapped: bool, stored: bool) -> dict[str, Feed]:
    return three_streams(random, tuples, r, t, swapped, stored)


_SLOW_AT_3 = {"3": Machine(wire=SLOW)}

GROWS = Setting("5.5a", "R ⋈ S 200 %, S ⋈ T 100 %", streams(2.0, 1.0), {})
SHRINKS = Setting("5.5b", "R ⋈ S 20 %, S ⋈ T 100 %", streams(0.2, 1.0), {})
SLOW_WIRE = Setting("5.8", "slow wire at site 3, both 10 %", streams(0.1, 0.1, stored=True), _SLOW_AT_3)
BUSY = Setting("5.11", "busy site 3, both 10 %", streams(0.1, 0.1), {"3": Machine(others=1)})
SETTINGS = {"grows": GROWS, "shrinks": SHRINKS, "slow_wire": SLOW_WIRE, "busy": BUSY}


def swept(selectivities: Sequence[float]) -> dict[float, Setting]:
    """Figures 5.9 and 5.10, by the selectivity of both joins."""
    return {
        each: Setting("5.9", f"slow wire at site 3, both {each:.0%}", streams(each, each, stored=True), _SLOW_AT_3)
        for each in selectivities
    }


def measure(scale: Scale, selectivities: Sequence[float]) -> Unchanging:
    once = Scale(min(scale.tuples, 50_000), seeds=1)
    found = contests(
        {name: Asked(setting, scale) for name, setting in SETTINGS.items()}
        | {str(each): Asked(setting, once, (SWAP, R_FIRST)) for each, setting in swept(selectivities).items()}
    )
    return Unchanging(
        **{name: found[name] for name in SETTINGS}, sweep={each: found[str(each)] for each in selectivities}
    )
