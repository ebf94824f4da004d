"""One object: Figures 4.3 (a static world) and 4.4 (ten nodes at the top become ten times slower)."""

from __future__ import annotations

from dataclasses import dataclass

from lab.dissemination.annealing import FAST, anneal
from lab.dissemination.arrays import arrays, average_loss
from lab.dissemination.construction import dita, one_bundle, random_trees
from lab.dissemination.overlay import Overlay
from lab.dissemination.trees import Forest
from lab.figures.dissemination import workload
from lab.figures.dissemination.schemes import DITA, SA, Loss, forests, judged
from lab.simulate.dissemination import Dissemination, disseminate
from lab.simulate.tree_rounds import Intervals

ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Adaptation:
    """Random + Adaptive over SA after each round of the event simulation, and what the protocol sent."""

    load: float
    ratios: list[float]
    after_30: float
    model_after_30: float
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Losses per window over SA's for the times of that window; the change comes before window `change`."""

    window: float
    change: int
    ratios: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class SingleObject:
    by_load: dict[float, dict[str, Loss]]
    by_rate: dict[float, dict[str, Loss]]
    adaptation: list[Adaptation]
    dynamic: Dynamic


@dataclass(frozen=True, slots=True)
class _Size:
    nodes: int
    changing_nodes: int
    loads: tuple[float, ...]
    rates: tuple[float, ...]
    static: float
    intervals: Intervals
    window: float
    windows: int


_FULL = _Size(256, 256, (1, 3, 5), (1, 3, 5), 500, Intervals(), 500, 12)
_QUICK = _Size(128, 64, (1,), (), 80, Intervals(tokens=50, statistics=50), 250, 5)


def measure(quick: bool) -> SingleObject:
    size = _QUICK if quick else _FULL

    def compared(overlay: Overlay) -> dict[str, Loss]:
        one = one_bundle(overlay)
        return {name: judged(overlay, forest, size.static) for name, forest in forests(overlay, one, one, 1).items()}

    by_load = {load: compared(workload.one_object(1, size.nodes, load=load)) for load in size.loads}
    # Sources of several messages a second are beyond what one sending to all 256 nodes can do: that is the point.
    by_rate = {rate: compared(workload.one_object(1, size.nodes, rate=rate)) for rate in size.rates}
    adaptation = [_adaptation(load, size, by_load[load][SA]) for load in sorted({size.loads[0], size.loads[-1]})]
    return SingleObject(by_load, by_rate, adaptation, _dynamic(size))


def _adaptation(load: float, size: _Size, annealed: Loss) -> Adaptation:
    overlay = workload.one_object(1, size.nodes, load=load)
    start = random_trees(overlay, one_bundle(overlay), 1)
    run = Dissemination(overlay, start, seed=1, adapt=size.intervals)
    # Until just before the next token, so that each window is one tree's.
    measured = run.advance((ROUNDS + 1) * size.intervals.tokens - 1e-6, window=size.intervals.tokens)
    after = run.advance(5 * size.intervals.tokens)
    return Adaptation(
        load,
        [loss / annealed.simulated for loss in measured.losses],
        after.average_loss / annealed.simulated,
        average_loss(arrays(overlay, measured.forest)) / annealed.model,
        dict(after.counts),
    )


def _dynamic(size: _Size) -> Dynamic:
    before = workload.one_object(1, size.changing_nodes)
    bundles = one_bundle(before)
    start = anneal(before, random_trees(before, bundles, 1), 1, FAST)
    change = size.windows // 2
    slow = start[0].breadth_first()[1:11]
    after = slowed(before, slow)
    # Each is compared with the best tree for the times that it has: annealed before the change, and after it.
    yardsticks = [disseminate(before, start, size.static, seed=2).average_loss]
    for_after = anneal(after, random_trees(after, bundles, 1), 1, FAST)
    yardsticks.append(disseminate(after, for_after, size.static, seed=2).average_loss)

    def run(forest: Forest, intervals: Intervals | None) -> list[float]:
        simulated = Dissemination(before, forest, seed=1, adapt=intervals)
        early = simulated.advance(change * size.window, size.window).losses
        # The same number of nodes, at the top of whichever tree it is.
        top = slowed(before, forest[0].breadth_first()[1:11])
        simulated.change_times(top.filter_time.tolist(), top.send_time.tolist())
        late = simulated.advance((size.windows - change) * size.window, size.window).losses
        return [loss / yardsticks[0] for loss in early] + [loss / yardsticks[1] for loss in late]

    ratios = {SA: run(start, None), "SA + Adaptive": run(start, size.intervals), DITA: run(dita(before, bundles), None)}
    return Dynamic(size.window, change, ratios)


def slowed(overlay: Overlay, nodes: list[int], factor: float = 10.0) -> Overlay:
    times = [1.0] * overlay.nodes
    for node in nodes:
        times[node] = factor
    return overlay.with_times(overlay.filter_time * times, overlay.send_time * times)


def over_sa(found: dict[str, Loss], name: str) -> tuple[float, float]:
    """A contestant's loss as a multiple of SA's, by the model and by events."""
    return found[name].model / found[SA].model, found[name].simulated / found[SA].simulated
