"""One run of the experiment: queries come one by one, half of them go, groups are optimised again.

The control plane is weft's own (`weft.optimizer.group_results.Groups`), with real queries, and links carry what weft's
edges send over them (`weft.delivery.members`): a row once, with the columns that those behind the link show
who take it, and two bytes that say who they are if they are several.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from time import process_time

import numpy as np

from bench.delivery_figures.overlay import Overlay, carried, origins, traffic_alone
from weft.algebra import Query
from weft.optimizer.group_results import Groups, TrafficStatistics
from weft.optimizer.group_results.forms import merge
from weft.optimizer.group_results.pricing import members_below


@dataclass(slots=True)
class Run:
    """What was measured. Reductions and ratios are by the number of queries; times are CPU milliseconds."""

    workload: str
    overhead: float
    sizes: list[int] = field(default_factory=list)
    reductions: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    insert_ms_mean: float = 0.0
    insert_ms_max: float = 0.0
    terminate_ms_mean: float = 0.0
    terminate_ms_max: float = 0.0
    #: Of members of the most popular group, and what merging it anew as a flat list takes.
    popular_terminate_ms: float = 0.0
    flat_merge_ms: float = 0.0
    largest_group: int = 0
    #: After half of the queries have gone: as they are, after a round, and all that are left inserted afresh.
    left_alone: float = 0.0
    reoptimised: float = 0.0
    reinserted: float = 0.0
    migrated: float = 0.0
    reinsertion_migrated: float = 0.0
    #: What the source's procedure by the letter saves of all queries, see `reference`.
    plain: float = 0.0


def averaged(runs: Sequence[Run]) -> Run:
    """The mean of runs of one workload on several overlays; of the slowest and the largest, the largest."""
    most = ("insert_ms_max", "terminate_ms_max", "largest_group", "flat_merge_ms")
    mean = Run(runs[0].workload, runs[0].overhead, list(runs[0].sizes))
    for each in fields(Run)[3:]:
        values = [getattr(run, each.name) for run in runs]
        if each.name in most:
            setattr(mean, each.name, max(values))
        else:
            setattr(mean, each.name, np.mean(values, axis=0).tolist())
    return mean


class Experiment:
    """A workload on an overlay."""

    def __init__(self, queries: Sequence[Query], overlay: Overlay, statistics: TrafficStatistics, seed: int) -> None:
        self.queries = {query.name: query for query in queries}
        self.overlay, self.statistics, self.seed = overlay, statistics, seed
        places = origins(overlay, len(queries), seed)
        self.where = dict(zip(self.queries, places, strict=True))
        self.hops = {name: str(overlay.first_hop(place)) for name, place in self.where.items()}

    def groups(self, overhead: float) -> Groups:
        return Groups(self.statistics, overhead=overhead, told=True)

    def grown(self, overhead: float) -> Groups:
        """The groups that all queries make."""
        groups = self.groups(overhead)
        for name, query in self.queries.items():
            groups.insert(name, query, self.hops[name])
        return groups

    def reduction(self, groups: Groups, names: Sequence[str]) -> float:
        """The share of latency × traffic that is saved against one stream per query."""
        apart = sum(
            traffic_alone(groups, name)
            * sum(self.overlay.latency[each] for each in self.overlay.path(self.where[name]))
            for name in names
        )
        return 1.0 - carried(groups, self.overlay, self.where) / apart

    def grow(self, run: Run, checkpoints: Sequence[int]) -> Groups:
        """Inserts all queries, one by one."""
        groups, times = self.groups(run.overhead), []
        names = list(self.queries)
        for number, name in enumerate(names, start=1):
            times.append(_seconds(partial(groups.insert, name, self.queries[name], self.hops[name])))
            if number in checkpoints:
                run.sizes.append(number)
                run.reductions.append(self.reduction(groups, names[:number]))
                run.ratios.append(len(groups.names()) / number)
        run.insert_ms_mean, run.insert_ms_max = 1e3 * float(np.mean(times)), 1e3 * max(times)
        return groups

    def shrink(self, run: Run, groups: Groups) -> None:
        """Half of the queries go; then the groups stay as they are, or are optimised, or all is inserted afresh."""
        names = np.array(list(self.queries))
        gone = np.random.default_rng(self.seed).permutation(names)[: len(names) // 2].tolist()
        times = []
        popular, run.flat_merge_ms = _flat_merge(groups)
        run.largest_group = len(popular)
        # First those of the most popular group, as long as it is that: the source's Figure 9.
        gone.sort(key=lambda name: name not in popular)
        for name in gone:
            times.append(_seconds(partial(groups.terminate, name)))
        run.popular_terminate_ms = 1e3 * float(np.mean(times[: max(1, len(popular) // 4)]))
        run.terminate_ms_mean, run.terminate_ms_max = 1e3 * float(np.mean(times)), 1e3 * max(times)
        left = sorted(set(self.queries) - set(gone), key=list(self.queries).index)
        run.left_alone = self.reduction(groups, left)
        before = {name: frozenset(groups.members(groups.group_of(name))) for name in left}
        run.migrated = len(groups.reoptimise().moved) / len(left)
        run.reoptimised = self.reduction(groups, left)
        fresh = self.groups(run.overhead)
        for name in left:
            fresh.insert(name, self.queries[name], self.hops[name])
        run.reinserted = self.reduction(fresh, left)
        together = {name: frozenset(fresh.members(fresh.group_of(name))) for name in left}
        run.reinsertion_migrated = sum(before[name] != together[name] for name in left) / len(left)


def _seconds(change: Callable[[], object]) -> float:
    """How long a change takes. As in a cycle of the engine, Python looks for garbage only afterwards."""
    gc.disable()
    begun = process_time()
    change()
    taken = process_time() - begun
    gc.enable()
    return taken


def _flat_merge(groups: Groups) -> tuple[frozenset[str], float]:
    """The members of the largest group, and how long it takes to merge them anew, as a flat list would have to."""
    trees = [tree for forest in groups._forests.values() for tree in forest.trees]
    tree = max(trees, key=lambda each: each.root.weight)
    forest = next(each for each in groups._forests.values() if tree in each.trees)
    members = list(members_below(tree.root))
    begun = process_time()
    merge([each.form for each in members], forest.prices.rows)
    taken = process_time() - begun
    return frozenset(str(each.name) for each in members), 1e3 * taken
