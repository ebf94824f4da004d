"""The contestants, by the names that the thesis gives them, and how a forest is judged: by the model and by events."""

from __future__ import annotations

from dataclasses import dataclass

from lab.dissemination.annealing import FAST, Schedule, anneal
from lab.dissemination.arrays import arrays, average_loss, forest_of
from lab.dissemination.construction import Bundles, dita, greedy, random_trees, star
from lab.dissemination.overlay import Overlay
from lab.dissemination.rounds import adapt
from lab.dissemination.trees import Forest
from lab.simulate.dissemination import disseminate

SOURCE_BASED, RANDOM, DITA, GREEDY, GREEDY_ADAPTIVE, SA = (
    "Source-Based", "Random", "DiTA", "Greedy", "Greedy + Adaptive", "SA",
)  # fmt: skip
SCHEMES = (SOURCE_BASED, RANDOM, DITA, GREEDY, GREEDY_ADAPTIVE, SA)

#: From a good start, and so from a lower temperature.
FROM_GREEDY = Schedule(steps_per_node=4, hot=0.002, cooling=0.9)


@dataclass(frozen=True, slots=True)
class Loss:
    """AvgLF of one forest: what the model predicts, and what the event simulation measures."""

    model: float
    simulated: float


def judged(overlay: Overlay, forest: Forest, duration: float) -> Loss:
    return Loss(average_loss(arrays(overlay, forest)), disseminate(overlay, forest, duration, seed=1).average_loss)


def forests(
    overlay: Overlay, bundles: Bundles, dita_bundles: Bundles, seed: int, schedule: Schedule = FAST
) -> dict[str, Forest]:
    """One forest of each contestant; DiTA's has a tree for each object."""
    random = random_trees(overlay, bundles, seed)
    grown = greedy(overlay, bundles)
    return {
        SOURCE_BASED: star(overlay, bundles),
        RANDOM: random,
        DITA: dita(overlay, dita_bundles),
        GREEDY: grown,
        GREEDY_ADAPTIVE: adapted(overlay, grown),
        SA: anneal(overlay, random, seed, schedule),
    }


def adapted(overlay: Overlay, forest: Forest, rounds: int = 30) -> Forest:
    made = arrays(overlay, forest)
    adapt(made, rounds)
    return forest_of(made)
