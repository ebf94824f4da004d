"""In which order sites join a tuple: Figures 5.5–5.14 of the COSMOS thesis, simulated by `lab.ordering`.

simulated_runs.py   three sites and streams as in the thesis, SwAP against both fixed orders
unchanging.py       Figures 5.5–5.11: selectivities, a slow wire, a busy site
changing.py         Figures 5.12–5.14: the same, changing half-way
calibration.py      which costs of steps would fit all that the thesis says best
doubts.py           what the shares of Figure 5.6 depend on, and what our additions to the lottery do
shown.py            tables, with the thesis's words
pictures.py         the charts

What the thesis does not say is ours: what a step costs (`Costs` of `lab.ordering.setting`: reading,
receiving and sending 190 µs each, building 250, probing 300, each match 250, on the quicker machines), queues of 100
tuples, a report for each 100 results, tickets halved after each 1,000 tuples, 2 % of tuples that try any way. Sites 1
and 3 have speed 1, site 2 has 1 / 2.4 (Pentium 4 with 2.4 GHz and Pentium III with 1 GHz). A site takes turns between
its inputs, whatever they are: if it took those first that are nearest to being answers, a wrong order would feed
itself and stay. A spin or delay thread takes as much of the processor as the query. A slow connection takes 10 ms for
each tuple and direction, whoever sends it, so that two senders do not hinder each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bench import report
from lab.figures.ordering import changing, doubts, pictures, shown, unchanging
from lab.figures.ordering.changing import Changing
from lab.figures.ordering.doubts import Doubts
from lab.figures.ordering.simulated_runs import Scale
from lab.figures.ordering.unchanging import Unchanging

DEFINITIONS = {
    "swap_over_best_static": "time until all tuples are joined, over that of the better fixed order; the worst of all "
    "settings in which nothing changes (Figures 5.5, 5.8, 5.9, 5.11)",
    "swap_over_best_static_changing": "the same where selectivities, wires or loads change half-way; the worst of "
    "Figures 5.12–5.14",
    "optimal_order_share": "the part of S tuples that took the better order, mean of both settings of Figure 5.6",
}


@dataclass(frozen=True, slots=True)
class Effort:
    scale: Scale
    selectivities: tuple[float, ...]
    """Of Figures 5.9 and 5.10."""
    all_doubts: bool


FULL = Effort(Scale(tuples=100_000, seeds=1), tuple(each / 10 for each in range(10)), all_doubts=True)
QUICK = Effort(Scale(tuples=5_000, seeds=1), (0.0, 0.3, 0.6, 0.9), all_doubts=False)


@dataclass(frozen=True, slots=True)
class Found:
    scale: Scale
    unchanging: Unchanging
    changing: Changing
    doubts: Doubts

    def ratios(self) -> dict[str, float | None]:
        return {
            "swap_over_best_static": max(contest.over_best for contest in self.unchanging.contests),
            "swap_over_best_static_changing": max(contest.over_best for contest in self.changing.contests),
            "optimal_order_share": self.unchanging.optimal_share,
        }

    def details(self) -> dict[str, Any]:
        return {
            "s_tuples": self.scale.tuples,
            "seeds": self.scale.seeds,
            "statements": [claim._asdict() for claim in shown.claims(self.unchanging, self.changing)],
            "contests": [contest.facts() for contest in (*self.unchanging.contests, *self.changing.contests)],
            "doubts": self.doubts.facts(),
        }


def measure(effort: Effort) -> Found:
    scale = effort.scale
    report.progress("ordering: nothing changes …")
    still = unchanging.measure(scale, effort.selectivities)
    report.progress("ordering: things change …")
    changed = changing.measure(scale)
    report.progress("ordering: doubts …")
    smaller = Scale(min(scale.tuples, 10_000), seeds=1)
    return Found(scale, still, changed, doubts.measure(smaller, effort.all_doubts))


def show(found: Found) -> None:
    shown.show(found.scale, found.unchanging, found.changing, found.doubts)


def draw(found: Found) -> dict[str, Figure]:
    return pictures.draw(found.unchanging, found.changing, found.doubts)
