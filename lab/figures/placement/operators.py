"""Figure 6.6: whole fragments against single operators, by the number of operators in a fragment.

A fragment has 0.6 joins on average, the rest are filters; so 3 operators are 2.4 filters. Fewer filters let more rows
through to the joins: rates of streams are such that loads are the same for all numbers. The thesis does not say
whether its 100 Mbit/s are one medium for all, or a link for each node: here are both (a quick run has the medium only).
Fragments are balanced by the thesis's own rules, flow-aware.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lab.figures.placement.setting import ZIPF, Effort, mean, ran
from lab.figures.placement.shown import draw
from lab.placement.simulated.cluster import FLOW_AWARE, OP_BASED, Cluster
from lab.placement.simulated.workload import Workload, expected_loads

_JOINS = 0.6
_STABLE = 10

#: Seconds until the unbalanced start is behind both.
_LEAST = 30.0


@dataclass(frozen=True, slots=True)
class Split:
    """What came of a scheme; means over seeds. `worst_ratio` is the median of PR_max over its last ten seconds (a late
    migration would make the mean), `worst_ratio_whole` the mean over the whole run; `congested` says in how many runs
    messages piled up without end."""

    scheme: str
    operators: float
    shared: bool
    worst_ratio: float
    worst_ratio_whole: float
    megabits: float
    moves: float
    congested: int


@dataclass(frozen=True, slots=True)
class Operators:
    found: list[Split]

    def of(self, scheme: str, operators: float, shared: bool) -> Split:
        return next(
            each for each in self.found if (each.scheme, each.operators, each.shared) == (scheme, operators, shared)
        )

    def ratio(self, operators: float, shared: bool) -> float:
        """PR_max operator by operator over that of fragments."""
        return (
            self.of(OP_BASED.name, operators, shared).worst_ratio
            / self.of(FLOW_AWARE.name, operators, shared).worst_ratio
        )


def measure(effort: Effort) -> Operators:
    found = []
    for shared in (True,) if effort.quick else (True, False):
        for number in effort.operators:
            workloads = {seed: _workload(effort, number, seed) for seed in effort.seeds}
            for scheme in (FLOW_AWARE, OP_BASED):
                runs = [
                    ran(effort, each, scheme, seed, until=max(effort.seconds, _LEAST), shared=shared)
                    for seed, each in workloads.items()
                ]
                found.append(_split(scheme.name, number, shared, runs))
    return Operators(found)


def _workload(effort: Effort, operators: float, seed: int) -> Workload:
    """As much load as with four filters."""
    wanted = sum(expected_loads(draw(effort.setting(skew=ZIPF), seed)))
    setting = effort.setting(skew=ZIPF, filters=operators - _JOINS)
    load = sum(expected_loads(draw(setting, seed)))
    return draw(replace(setting, rate=setting.rate * wanted / load), seed)


def _split(name: str, operators: float, shared: bool, runs: list[Cluster]) -> Split:
    return Split(
        name,
        operators,
        shared,
        mean(float(np.median(each.worst_ratios()[-_STABLE:])) for each in runs),
        mean(mean(each.worst_ratios()) for each in runs),
        mean(moment.row_bits / 1e6 for each in runs for moment in each.moments[-_STABLE:]),
        mean(len(each.moves) for each in runs),
        sum(each.congested for each in runs),
    )
