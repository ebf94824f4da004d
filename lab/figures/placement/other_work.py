"""Figures 6.10 and 6.11: other work comes to some nodes and stays, so that they are busy for about 0.9 of their time;
and how the weight of the load filter changes what nodes make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from lab.figures.placement.partner_bounds import settled_by
from lab.figures.placement.setting import Effort, mean, ran
from lab.figures.placement.shown import draw
from lab.placement.simulated.cluster import FLOW_AWARE, HOMING, STATIC, Cluster, Control, Scheme

_BUSY = 0.9
_BEGINS = 0.25
_NODES = 8
_STABLE = 10


@dataclass(frozen=True, slots=True)
class Perturbed:
    """PR_max over the whole run, and over its last ten seconds, against those of the same scheme without other work;
    means over seeds."""

    scheme: str
    nodes: int
    normalised: float
    normalised_at_end: float


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight of the filter: what PR_max is second by second with other work; how much it trembles, and how many
    migrations there are, without any; and after how many seconds half of those because of it have begun."""

    weight: float
    worst_ratios: list[float]
    trembling: float
    moves_undisturbed: float
    reacts: float


@dataclass(frozen=True, slots=True)
class OtherWork:
    perturbed: list[Perturbed]
    weights: list[Weight]


def measure(effort: Effort) -> OtherWork:
    found: list[Perturbed] = []
    for scheme in (STATIC, HOMING) if effort.quick else (STATIC, FLOW_AWARE, HOMING):
        still: tuple[float, float] | None = None
        for nodes in effort.perturbed:
            ratios = [_run(effort, scheme, seed, nodes).worst_ratios() for seed in effort.seeds]
            whole, end = mean(map(mean, ratios)), mean(mean(each[-_STABLE:]) for each in ratios)
            still = still or (whole, end)
            found.append(Perturbed(scheme.name, nodes, whole / still[0], end / still[1]))
    return OtherWork(found, [_weight(effort, weight) for weight in effort.weights])


def _run(effort: Effort, scheme: Scheme, seed: int, nodes: int, control: Control | None = None) -> Cluster:
    changes = ((_BEGINS * effort.seconds, _added(effort.chosen(seed, nodes))),) if nodes else ()
    return ran(effort, draw(effort.setting(), seed), scheme, seed, changes=changes, control=control)


def _added(nodes: Iterable[int]) -> Callable[[Cluster], None]:
    def add(cluster: Cluster) -> None:
        for node in nodes:
            cluster.tuples.add_work(node, _BUSY - cluster.loads[node])

    return add


def _weight(effort: Effort, weight: float) -> Weight:
    control = Control(weight=weight)
    calm = [_run(effort, HOMING, seed, 0, control) for seed in effort.seeds]
    disturbed = [_run(effort, HOMING, seed, min(_NODES, effort.nodes // 4), control) for seed in effort.seeds]
    warm = int(effort.seconds / 4)
    return Weight(
        weight,
        np.mean([each.worst_ratios() for each in disturbed], axis=0).tolist(),
        mean(float(np.std(each.worst_ratios()[warm:])) for each in calm),
        mean(len(each.moves) for each in calm),
        mean(settled_by(each, _BEGINS * effort.seconds, share=0.5) for each in disturbed),
    )
