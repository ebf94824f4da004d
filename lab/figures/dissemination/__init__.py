"""Dissemination trees: the figures of the COSMOS thesis's chapter 4, by the model and in the event simulation.

    python -m lab.figures.dissemination [--quick]

`measure` runs all of it, `show` prints tables and draws charts, `ratios` are the figures by which it is judged. Losses
of fidelity are those that the event simulation measures, unless a name says otherwise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench import report
from lab.figures.dissemination import effort, many_objects, shown, single_object
from lab.figures.dissemination.effort import Effort
from lab.figures.dissemination.many_objects import ManyObjects
from lab.figures.dissemination.schemes import DITA, GREEDY
from lab.figures.dissemination.single_object import SingleObject, over_sa


@dataclass(frozen=True, slots=True)
class Found:
    single: SingleObject
    many: ManyObjects
    effort: Effort


def measure(quick: bool) -> Found:
    report.progress("dissemination: planning …")
    planned = effort.measure(quick)
    report.progress("dissemination: one object …")
    single = single_object.measure(quick)
    report.progress("dissemination: many objects …")
    return Found(single, many_objects.measure(quick), planned)


def show(found: Found, quick: bool) -> None:
    shown.show(found.single, found.many, found.effort, quick)


def ratios(found: Found) -> dict[str, float]:
    """Greedy, Random + Adaptive and trees per object at their worst over all loads, DiTA at its best (load 1)."""
    by_load = found.single.by_load
    return {
        "greedy_over_sa": max(over_sa(each, GREEDY)[1] for each in by_load.values()),
        "dita_over_sa": over_sa(by_load[min(by_load)], DITA)[1],
        "random_adaptive_over_sa_30": max(each.after_30 for each in found.single.adaptation),
        "multi_over_single_tree": many_objects.worst_ratio(found.many),
        "objects_500_over_100": many_objects.growth(found.many, GREEDY),
    }


def details(found: Found) -> dict[str, Any]:
    """All of it for the file of results, with the thesis's words."""
    said = shown.claims(found.single, found.many, found.effort)
    return {**asdict(found), "statements": [claim._asdict() for claim in said]}
