"""Many objects: Figures 4.5 (a single tree), 4.6 and 4.7 (a tree for each object), and 4.9 (a change while running)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab.dissemination.annealing import FAST, Schedule, anneal
from lab.dissemination.arrays import arrays
from lab.dissemination.construction import bundle_each, dita, greedy, one_bundle, random_trees, star
from lab.dissemination.overlay import Overlay
from lab.dissemination.rounds import adapt
from lab.dissemination.trees import Forest
from lab.figures.dissemination import workload
from lab.figures.dissemination.schemes import (
    DITA,
    FROM_GREEDY,
    GREEDY,
    GREEDY_ADAPTIVE,
    RANDOM,
    SA,
    SOURCE_BASED,
    Loss,
    adapted,
    forests,
    judged,
)
from lab.figures.dissemination.single_object import ROUNDS, Dynamic, slowed
from lab.simulate.dissemination import Dissemination, disseminate
from lab.simulate.tree_rounds import Intervals


@dataclass(frozen=True, slots=True)
class SingleOrMany:
    """One annealed tree for all objects, and annealed trees for each."""

    setting: float
    single: Loss
    many: Loss

    @property
    def ratio(self) -> float:
        return self.many.simulated / self.single.simulated


@dataclass(frozen=True, slots=True)
class ManyObjects:
    by_load: dict[float, dict[str, Loss]]
    rounds: list[float]  # Random + Adaptive over SA, by the model
    by_objects: dict[int, dict[str, Loss]]
    trees_by_load: list[SingleOrMany]
    trees_by_interest: list[SingleOrMany]
    dynamic: Dynamic


@dataclass(frozen=True, slots=True)
class _Size:
    nodes: int
    objects: int
    loads: tuple[float, ...]
    numbers: tuple[int, ...]
    schemes: tuple[str, ...]
    forest_objects: int
    forest_nodes: int
    tree_loads: tuple[float, ...]
    interests: tuple[float, ...]
    duration: float
    schedule: Schedule
    window: float
    windows: int
    intervals: Intervals


_FULL = _Size(
    nodes=256,
    objects=100,
    loads=(1, 5),
    numbers=(100, 300, 500),
    schemes=(SOURCE_BASED, RANDOM, DITA, GREEDY, GREEDY_ADAPTIVE),
    forest_objects=40,
    forest_nodes=256,
    tree_loads=(1, 4, 8),
    interests=(0.1, 0.3, 0.6, 1.0),
    duration=1500,
    schedule=FAST,
    window=1000,
    windows=10,
    intervals=Intervals(),
)
_QUICK = _Size(
    nodes=96,
    objects=10,
    loads=(1,),
    numbers=(100, 500),
    schemes=(SOURCE_BASED, GREEDY),
    forest_objects=8,
    forest_nodes=48,
    tree_loads=(1, 8),
    interests=(0.2,),
    duration=200,
    schedule=Schedule(steps_per_node=4, cooling=0.8),
    window=500,
    windows=6,
    intervals=Intervals(50, 50),
)
_LOAD_OF_INTEREST = 8


def measure(quick: bool) -> ManyObjects:
    size = _QUICK if quick else _FULL
    by_load = {}
    for load in size.loads:
        overlay = workload.many_objects(1, size.objects, size.nodes, load)
        built = forests(overlay, one_bundle(overlay), bundle_each(overlay), 1, size.schedule)
        by_load[load] = {name: judged(overlay, forest, size.duration) for name, forest in built.items()}
    overlay = workload.many_objects(1, size.objects, size.nodes, size.loads[0])
    made = arrays(overlay, random_trees(overlay, one_bundle(overlay), 1))
    rounds = [loss / by_load[size.loads[0]][SA].model for loss in adapt(made, 2 * ROUNDS)]
    return ManyObjects(
        by_load,
        rounds,
        {number: _at(workload.many_objects(1, number, size.nodes), size) for number in size.numbers},
        [
            _single_or_many(load, workload.many_objects(1, size.forest_objects, size.forest_nodes, load), size.duration)
            for load in size.tree_loads
        ],
        [
            _single_or_many(
                interest,
                workload.many_objects(1, size.forest_objects, size.forest_nodes, _LOAD_OF_INTEREST, interest),
                size.duration,
            )
            for interest in size.interests
        ],
        _dynamic(overlay, size),
    )


def _at(overlay: Overlay, size: _Size) -> dict[str, Loss]:
    """All contestants but annealing, which would take an hour at 500 objects."""
    one = one_bundle(overlay)
    build: dict[str, Callable[[], Forest]] = {
        SOURCE_BASED: lambda: star(overlay, one),
        RANDOM: lambda: random_trees(overlay, one, 1),
        DITA: lambda: dita(overlay, bundle_each(overlay)),
        GREEDY: lambda: greedy(overlay, one),
        GREEDY_ADAPTIVE: lambda: adapted(overlay, greedy(overlay, one), rounds=10),
    }
    return {name: judged(overlay, build[name](), size.duration) for name in size.schemes}


def _single_or_many(setting: float, overlay: Overlay, duration: float) -> SingleOrMany:
    losses = []
    for bundles in (one_bundle(overlay), bundle_each(overlay)):
        forest = anneal(overlay, greedy(overlay, bundles), 1, FROM_GREEDY)
        losses.append(judged(overlay, forest, duration))
    return SingleOrMany(setting, *losses)


def _dynamic(before: Overlay, size: _Size) -> Dynamic:
    """Ten nodes at the top of an annealed tree become ten times slower."""
    bundles = one_bundle(before)
    start = anneal(before, greedy(before, bundles), 1, FROM_GREEDY)
    after = slowed(before, start[0].breadth_first()[1:11])
    for_after = anneal(after, greedy(after, bundles), 1, FROM_GREEDY)
    duration = size.window * size.windows / 2
    yardsticks = [
        disseminate(overlay, forest, duration, seed=2).average_loss
        for overlay, forest in ((before, start), (after, for_after))
    ]
    ratios = {}
    for name, intervals in ((SA, None), ("SA + Adaptive", size.intervals)):
        run = Dissemination(before, start, seed=1, adapt=intervals)
        early = run.advance(duration, size.window).losses
        run.change_times(after.filter_time.tolist(), after.send_time.tolist())
        late = run.advance(duration, size.window).losses
        ratios[name] = [loss / yardsticks[0] for loss in early] + [loss / yardsticks[1] for loss in late]
    return Dynamic(size.window, size.windows // 2, ratios)


def growth(found: ManyObjects, name: str) -> float:
    """By how much a contestant's loss grows from the fewest objects to the most, as measured."""
    fewest, most = min(found.by_objects), max(found.by_objects)
    return found.by_objects[most][name].simulated / found.by_objects[fewest][name].simulated


def worst_ratio(found: ManyObjects) -> float:
    """The largest of all losses with a tree per object over those with a single tree."""
    return max(each.ratio for each in (*found.trees_by_load, *found.trees_by_interest))
