"""Figures 5.12–5.14: selectivities, slow wires and loads that change places half-way."""

from __future__ import annotations

from dataclasses import dataclass

from lab.figures.ordering.simulated_runs import Asked, Contest, Scale, Setting, contests
from lab.figures.ordering.unchanging import SLOW, streams
from lab.ordering.setting import Change, Machine

_THREADS = 5
_USUAL = Machine()


@dataclass(frozen=True, slots=True)
class Changing:
    selectivity: Contest
    wire: Contest
    load: Contest

    @property
    def contests(self) -> list[Contest]:
        return [self.selectivity, self.wire, self.load]


SETTINGS = {
    "selectivity": Setting("5.12", "20 % and 200 %, then 200 % and 20 %", streams(0.2, 2.0, swapped=True), {}),
    "wire": Setting(
        "5.13",
        "both 50 %, slow wire at site 3, at site 1 after 250 s",
        streams(0.5, 0.5, stored=True),
        {"3": Machine(wire=SLOW)},
        (Change(250, "3", wire=_USUAL.wire), Change(250, "1", wire=SLOW)),
    ),
    "load": Setting(
        "5.14",
        "both 10 %, busy site 3, busy site 1 after 70 s",
        streams(0.1, 0.1),
        {"3": Machine(others=_THREADS)},
        (Change(70, "3", others=0), Change(70, "1", others=_THREADS)),
    ),
}


def measure(scale: Scale) -> Changing:
    return Changing(**contests({name: Asked(setting, scale) for name, setting in SETTINGS.items()}))
