"""A change of some nodes' streams, there and back: what each scheme makes of it, second by second."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.figures.placement.partner_bounds import settled_by
from lab.figures.placement.setting import Effort, mean, ran, there_and_back
from lab.figures.placement.shown import draw
from lab.placement.simulated.cluster import Cluster, Scheme


@dataclass(frozen=True, slots=True)
class Change:
    """A scheme, second by second: PR_max and migrations; means over seeds. `settled` is after how many seconds nine of
    ten migrations had begun that followed the first change, and the second."""

    scheme: str
    nodes: int
    worst_ratios: list[float]
    moves: list[float]
    settled: tuple[float, float]


def runs_there_and_back(effort: Effort, scheme: Scheme, nodes: int) -> list[Cluster]:
    """For each seed a run in which so many nodes' streams change and change back."""
    runs = []
    for seed in effort.seeds:
        workload = draw(effort.setting(), seed)
        changes = there_and_back(effort, workload, effort.chosen(seed, nodes))
        runs.append(ran(effort, workload, scheme, seed, until=effort.whole, changes=changes))
    return runs


def change_of(effort: Effort, scheme: str, nodes: int, runs: list[Cluster]) -> Change:
    turned = effort.calm + effort.changed
    return Change(
        scheme,
        nodes,
        np.mean([each.worst_ratios() for each in runs], axis=0).tolist(),
        np.mean([[moment.moves for moment in each.moments] for each in runs], axis=0).tolist(),
        (mean(settled_by(each, effort.calm, turned) for each in runs), mean(settled_by(each, turned) for each in runs)),
    )
