"""What planning costs: Figure 4.2 (how often a node can afford to adapt) and 4.8 (Greedy and annealing, in seconds)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from time import process_time

from lab.dissemination import rules
from lab.dissemination.annealing import FAST, FULL, Schedule, anneal
from lab.dissemination.arrays import arrays, average_loss
from lab.dissemination.construction import greedy, one_bundle, random_trees
from lab.dissemination.overlay import SOURCE, Overlay
from lab.dissemination.rounds import shortest_period
from lab.figures.dissemination import workload

_DECISIONS, _SERVED, _SHARE = 100, 10_000, Fraction(1, 20)


@dataclass(frozen=True, slots=True)
class Time:
    """Processor seconds for one tree, and its cost as a multiple of Greedy's."""

    objects: int
    name: str
    seconds: float
    cost: float


@dataclass(frozen=True, slots=True)
class Effort:
    times: list[Time]
    microseconds_per_decision: float  # and object
    shortest_period: float  # seconds, for 10,000 objects and 100 decisions at 5 % of the processor


def measure(quick: bool) -> Effort:
    nodes = 64 if quick else workload.PROVIDERS
    schedules = {"SA, fast": FAST} if quick else {"SA, fast": FAST, "SA": FULL}
    times: list[Time] = []
    for objects in (1, 10) if quick else (1, 30):
        times += _times(workload.many_objects(1, objects, nodes), schedules)
    per_decision = _seconds_per_decision()
    period = shortest_period(_SERVED, _DECISIONS, Fraction(per_decision), _SHARE)
    return Effort(times, per_decision * 1e6, float(period))


def _times(overlay: Overlay, schedules: dict[str, Schedule]) -> list[Time]:
    one = one_bundle(overlay)
    greedy(overlay, one)  # compiles what is timed
    began = process_time()
    grown = greedy(overlay, one)
    found = [Time(overlay.objects, "Greedy", process_time() - began, 1.0)]
    cost = average_loss(arrays(overlay, grown))
    start = random_trees(overlay, one, 1)
    anneal(overlay, start, 1, Schedule(steps_per_node=1, cooling=0.1))
    for name, schedule in schedules.items():
        began = process_time()
        annealed = anneal(overlay, start, 1, schedule)
        spent = process_time() - began
        found.append(Time(overlay.objects, name, spent, average_loss(arrays(overlay, annealed)) / cost))
    return found


def _seconds_per_decision() -> float:
    """How long one reorganisation takes to judge, per object of a node that serves 100."""
    overlay = workload.many_objects(1, 100, 64)
    made = arrays(overlay, random_trees(overlay, one_bundle(overlay), 1))
    decisions = rules.candidates(made, 0, SOURCE)
    rules.best(made, 0, SOURCE)
    repeats = 1 + 20_000 // decisions
    began = process_time()
    for _ in range(repeats):
        rules.best(made, 0, SOURCE)
    return (process_time() - began) / repeats / decisions / overlay.objects
