"""Figure 6.5: how many partners a node has, from an unbalanced start."""

from __future__ import annotations

from dataclasses import dataclass

from lab.figures.placement.setting import ZIPF, Effort, mean, ran
from lab.figures.placement.shown import draw
from lab.placement.partners import bounds
from lab.placement.simulated.cluster import FLOW_AWARE, HOMING, Cluster, Control, Scheme

_STABLE = 10


@dataclass(frozen=True, slots=True)
class Bound:
    """What came of a bound; means over seeds. PR_max is that of the last ten seconds; `settled` is the second by which
    nine of ten migrations had begun."""

    scheme: str
    most_asked: int
    partners: float
    imbalance: float
    mean_load: float
    worst_ratio: float
    settled: float
    moves: float


def measure(effort: Effort) -> list[Bound]:
    schemes = (HOMING,) if effort.quick else (FLOW_AWARE, HOMING)
    return [_bound(effort, scheme, number) for scheme in schemes for number in effort.bounds]


def _bound(effort: Effort, scheme: Scheme, number: int) -> Bound:
    runs = [
        ran(effort, draw(effort.setting(skew=ZIPF), seed), scheme, seed, control=Control(bounds=bounds(number)))
        for seed in effort.seeds
    ]
    return Bound(
        scheme.name,
        number,
        mean(len(partners.all) for each in runs for partners in each.partners),
        mean(moment.imbalance for each in runs for moment in each.moments[-_STABLE:]),
        mean(moment.mean_load for each in runs for moment in each.moments[-_STABLE:]),
        mean(ratio for each in runs for ratio in each.worst_ratios()[-_STABLE:]),
        mean(settled_by(each, 0.0) for each in runs),
        mean(len(each.moves) for each in runs),
    )


def settled_by(cluster: Cluster, since: float, until: float = float("inf"), share: float = 0.9) -> float:
    """Seconds from a moment until that share of the migrations up to another one had begun; 0 if there were none."""
    began = sorted(move.second - since for move in cluster.moves if since <= move.second < until)
    return began[max(round(share * len(began)) - 1, 0)] if began else 0.0
