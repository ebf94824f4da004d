"""Figure 6.7: what is given away, and the traffic that makes. Four nodes' streams become three times as fast, and as
slow again as they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab.figures.placement.changed import Change, change_of, runs_there_and_back
from lab.figures.placement.setting import Effort, mean
from lab.placement.simulated.cluster import ELEMENTARY, FLOW_AWARE, HOMING, INTERMEDIATE, STATIC, Scheme

_NODES = 4
_SCHEMES = (STATIC, ELEMENTARY, INTERMEDIATE, FLOW_AWARE, HOMING)
_END = 5


@dataclass(frozen=True, slots=True)
class Course:
    """A scheme, second by second: Mbit sent, and PR_max; means over seeds. The figures are means over the last seconds
    before streams change, before they change back, and at the end; `extra` is what Static does not send."""

    scheme: str
    megabits: list[float]
    worst_ratios: list[float]
    extra_changed: float
    extra_after: float
    returns: float
    """Bits per second at the end over those before."""
    mean_worst_ratio: float
    moves: float
    away: float
    """Units that are not at home at the end."""
    change: Change


@dataclass(frozen=True, slots=True)
class Strategies:
    courses: list[Course]

    def of(self, scheme: str) -> Course:
        return next(each for each in self.courses if each.scheme == scheme)


def measure(effort: Effort) -> Strategies:
    courses: list[Course] = []
    for scheme in _SCHEMES:
        static = np.array(courses[0].megabits) if courses else None
        courses.append(_course(effort, scheme, static))
    return Strategies(courses)


def _course(effort: Effort, scheme: Scheme, static: np.ndarray | None) -> Course:
    runs = runs_there_and_back(effort, scheme, _NODES)
    megabits = np.mean([[moment.row_bits / 1e6 for moment in each.moments] for each in runs], axis=0)
    ratios = np.mean([each.worst_ratios() for each in runs], axis=0)
    extra = megabits - (megabits if static is None else static)
    before, turned = int(effort.calm), int(effort.calm + effort.changed)
    return Course(
        scheme.name,
        megabits.tolist(),
        ratios.tolist(),
        mean(extra[turned - _END : turned]),
        mean(extra[-_END:]),
        mean(megabits[-_END:]) / mean(megabits[before - _END : before]),
        mean(ratios),
        mean(len(each.moves) for each in runs),
        mean(int((each.tuples.at != np.array(each.units.native)).sum()) for each in runs),
        change_of(effort, scheme.name, _NODES, runs),
    )
