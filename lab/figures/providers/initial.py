"""Figure 3.8: the initial distribution, by number of queries. Its cost, its time, and a graph partitioner beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from bench import report
from lab.federation.initial_distribution import centrally, greedily, hierarchically
from lab.federation.partitioned import by_partition
from lab.figures.providers.setting import Clock, Judged, Setting, judged, setting
from weft.federation.distribution.coordinator_tree import Cluster

SIZES = (5_000, 15_000, 30_000, 60_000)
QUICK_SIZES = (1_000, 3_000)
MOST_FOR_METIS = 30_000


@dataclass(frozen=True)
class Initial:
    placements: list[Judged]
    #: By number of queries the processor seconds of the longest chain of coordinators that wait for one another.
    response: dict[int, float]


def measure(quick: bool) -> Initial:
    given = setting(quick)
    _warm(given)
    placements: list[Judged] = []
    response = {}
    for size in QUICK_SIZES if quick else SIZES:
        report.progress(f"  {size:,} queries")
        queries = given.queries(size)
        placements.append(judged(given, queries, "Naive", queries.home.astype(np.int32)))
        clock = Clock()
        placements.append(
            judged(given, queries, "Greedy", greedily(given.network, given.substreams, queries), clock.seconds())
        )
        clock = Clock()
        found = centrally(given.network, given.substreams, queries)
        placements.append(judged(given, queries, "Centralised", found, clock.seconds()))
        spent: dict[tuple[int, str], float] = defaultdict(float)
        clock = Clock()
        found = hierarchically(given.tree, given.network, given.substreams, queries, watch=_watch(spent))
        placements.append(judged(given, queries, "Hierarchical", found, clock.seconds()))
        response[size] = _longest(given.tree, spent, "gather") + _longest(given.tree, spent, "spread")
        if size <= MOST_FOR_METIS:
            clock = Clock()
            found = by_partition(given.network, given.substreams, queries)
            placements.append(judged(given, queries, "METIS", found, clock.seconds()))
    return Initial(placements, response)


def _warm(given: Setting) -> None:
    """Compiles everything, so that what is timed is not the compiler."""
    few = given.queries(1_000).chosen(np.arange(1_000))
    centrally(given.network, given.substreams, few)
    hierarchically(given.tree, given.network, given.substreams, few, most=16)
    by_partition(given.network, given.substreams, few)


def _watch(spent: dict[tuple[int, str], float]):  # type: ignore[no-untyped-def]
    @contextmanager
    def watch(cluster: Cluster, work: str) -> Iterator[None]:
        clock = Clock()
        yield
        spent[id(cluster), work] += clock.seconds()

    return watch


def _longest(cluster: Cluster, spent: dict[tuple[int, str], float], work: str) -> float:
    """Coordinators side by side work at the same time; those above and below wait for one another."""
    below = max((_longest(child, spent, work) for child in cluster.children), default=0.0)
    return spent[id(cluster), work] + below


def of(found: Initial, name: str, size: int) -> Judged | None:
    return next((each for each in found.placements if (each.name, each.queries) == (name, size)), None)


def show(found: Initial, quick: bool) -> None:
    rows = [
        (
            each.queries,
            each.name,
            each.true_cost,
            each.data_cost,
            each.edge_cut,
            each.fullest,
            each.imbalance,
            each.cpu_seconds or None,
            found.response[each.queries] if each.name == "Hierarchical" else None,
        )
        for each in found.placements
    ]
    columns = (
        "queries",
        "placement",
        "true cost",
        "data only",
        "edge cut",
        "fullest",
        "imbalance",
        "CPU s",
        "response s",
    )
    note = (
        "Costs against Naive; load against the fair one. The source: Naive worst, Greedy a lot better, the two "
        "mappings best and similar; Hierarchical much faster, in response and in total."
    )
    report.table("Initial distribution (Figure 3.8)", columns, rows, note)
