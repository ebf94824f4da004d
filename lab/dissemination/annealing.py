"""Simulated annealing: the best trees that patience finds, and the yardstick for all others.

A step moves the subtree of a random node to a random other node. Steps that cost nothing are taken; others with
probability e^(−cost/T), and T falls from twice the cost of the first forest by a twentieth at a time. Costs and
temperatures are those of the whole forest, Σ over nodes of the loss of fidelity. (Read as those of the average they
give the same forests: the first temperature is a multiple of the cost, and it goes on while the best still changes.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.dissemination.arrays import Arrays, Ints, arrays, compiled, total_cost
from lab.dissemination.moves import cost_of_move, move
from lab.dissemination.overlay import SOURCE, Overlay
from lab.dissemination.trees import Forest, Tree


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long to go on. A forest is frozen when it is cold and its best has not changed for some temperatures.

    Temperatures are multiples of the cost of the forest that is started from. The thesis prints a last one of 0.001,
    and 0.0015 for the fast variant; at its message rates a random tree costs about 50.
    """

    steps_per_node: int = 64
    hot: float = 2.0
    cooling: float = 0.95
    cold: float = 0.00002
    patience: int = 10


#: The thesis's, and the fast variant that it is compared with there.
FULL = Schedule()
FAST = Schedule(steps_per_node=16, cold=0.00003)


def anneal(
    overlay: Overlay,
    start: Forest,
    seed: int,
    schedule: Schedule = FULL,
    progress: Callable[[float, float], None] | None = None,
) -> Forest:
    """The best forest that was seen. `progress` is told each temperature and the best cost so far."""
    made = arrays(overlay, start)
    places = np.array(
        [(t, node) for t, tree in enumerate(start) for node in tree.members if node != SOURCE], dtype=np.int64
    ).reshape(-1, 2)
    members = np.zeros(made.at.shape, dtype=np.int64)
    sizes = np.array([len(tree.members) for tree in start], dtype=np.int64)
    for t, tree in enumerate(start):
        members[t, : sizes[t]] = tree.members
    random = np.random.default_rng(seed)

    cost = float(total_cost(made))
    best, least = made.at["parent"].copy(), cost
    temperature, unchanged = schedule.hot, 0
    while len(places) and (temperature >= schedule.cold or unchanged < schedule.patience):
        found = _steps(
            made,
            places,
            members,
            sizes,
            temperature * cost,
            schedule.steps_per_node * len(places),
            best,
            least,
            random,
        )
        unchanged = 0 if found < least else unchanged + 1
        least = float(found)
        if progress is not None:
            progress(temperature, least)
        temperature *= schedule.cooling
    return tuple(
        Tree(tuple(int(parent) for parent in parents), tree.objects) for parents, tree in zip(best, start, strict=True)
    )


@compiled
def _steps(
    s: Arrays,
    places: Ints,
    members: Ints,
    sizes: Ints,
    temperature: float,
    number: int,
    best: Ints,
    least: float,
    random: np.random.Generator,
) -> float:
    """Some steps at one temperature. Leaves the parents of the best forest in `best`, and returns its cost."""
    cost = total_cost(s)
    for step in range(1, number + 1):
        place = random.integers(0, len(places))
        t, i = places[place, 0], places[place, 1]
        q = members[t, random.integers(0, sizes[t])]
        more = cost_of_move(s, t, i, q)
        if more <= 0.0 or more < -temperature * np.log(random.random()):
            move(s, t, i, q)
            cost += more
        # Copying a forest takes as long as many steps.
        if step % len(places) == 0 and cost < least - 1e-12:
            least = cost
            for tree in range(len(s.at)):
                for node in range(len(s.node)):
                    best[tree, node] = s.at[tree, node].parent
    return least
