"""Figures 6.8 and 6.9: streams of one node, or of four, become faster and slower again. When does it come to rest?

The runs with four nodes are those of Figure 6.7.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.figures.placement.changed import Change, change_of, runs_there_and_back
from lab.figures.placement.setting import Effort
from lab.figures.placement.strategies import Strategies
from lab.placement.simulated.cluster import FLOW_AWARE, HOMING, STATIC

_SCHEMES = (STATIC, FLOW_AWARE, HOMING)


@dataclass(frozen=True, slots=True)
class Changes:
    found: list[Change]

    def of(self, scheme: str, nodes: int) -> Change:
        return next(each for each in self.found if (each.scheme, each.nodes) == (scheme, nodes))

    def settles(self, nodes: int, scheme: str = HOMING.name) -> float:
        return max(self.of(scheme, nodes).settled)


def measure(effort: Effort) -> list[Change]:
    """With one node."""
    return [change_of(effort, scheme.name, 1, runs_there_and_back(effort, scheme, 1)) for scheme in _SCHEMES]


def with_four(of_one: list[Change], compared: Strategies) -> Changes:
    return Changes([*of_one, *(compared.of(scheme.name).change for scheme in _SCHEMES)])
