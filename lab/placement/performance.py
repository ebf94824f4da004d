"""How long a row stays in a query over how long it takes to evaluate: the performance ratio, and the model of it.

A row that leads to answers stays `d` seconds, waiting included; evaluating it alone would take `p`. The ratio d / p is
comparable between cheap and dear queries. A query's ratio is the worst over its streams, a provider's the worst over
its queries, and that one is to be small.

The model says what the ratio depends on: every node stretches the work done there by a factor that grows with its load,
and every transfer adds its time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt


@dataclass(frozen=True, slots=True)
class Step:
    """An operator on the way of a row: seconds for each input row, rows out for each row in, and where it runs."""

    seconds: float
    selectivity: float
    node: Hashable


@dataclass(frozen=True, slots=True)
class Ratio:
    """A performance ratio: the part that loaded nodes make, and the part that transfers make."""

    processing: float
    communication: float

    @property
    def total(self) -> float:
        return self.processing + self.communication


def evaluation_seconds(path: Sequence[Step]) -> tuple[float, ...]:
    """What a row that leads to answers takes at each step. It survives, so no step makes less than one row of it."""
    found, rows = [], 1.0
    for step in path:
        found.append(step.seconds * rows)
        rows *= max(step.selectivity, 1.0)
    return tuple(found)


def transfers(path: Sequence[Step]) -> int:
    """How often a row changes nodes on its way."""
    return sum(one.node != other.node for one, other in pairwise(path))


def single_server(load: float) -> float:
    """The stretch of an M/M/1 queue."""
    return 1.0 / (1.0 - load)


def predicted(
    path: Sequence[Step],
    loads: Mapping[Hashable, float],
    transfer_seconds: float,
    stretch: Callable[[float], float] = single_server,
) -> Ratio:
    """The performance ratio by the model. `loads` are the parts of their time that nodes are busy."""
    spent = evaluation_seconds(path)
    total = sum(spent)
    stayed = sum(stretch(loads[step.node]) * seconds for step, seconds in zip(path, spent, strict=True))
    return Ratio(stayed / total, transfer_seconds * transfers(path) / total)


def imbalance(loads: Sequence[float]) -> float:
    """The standard deviation of nodes' loads."""
    mean = sum(loads) / len(loads)
    return sqrt(sum((load - mean) ** 2 for load in loads) / (len(loads) - 1))
