"""Figure 3.11: how many queries a root routes per second, and how well, by the size of clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench import report
from lab.federation.initial_distribution import hierarchically
from lab.federation.routing_tables import choices, routed, routing_table
from lab.figures.providers.setting import Clock, judged, setting
from weft.federation.distribution.coordinator_tree import height, tree_over

SIZES = (2, 4, 8, 16)
PLACED, BATCH, BATCHES = 10_000, 20_000, 10
QUICK_PLACED, QUICK_BATCH = 1_500, 5_000


@dataclass(frozen=True)
class Throughput:
    k: int
    height: int
    children: int
    per_second: float
    true_cost: float
    edge_cut: float


def measure(quick: bool) -> list[Throughput]:
    given = setting(quick)
    placed, batch = (QUICK_PLACED, QUICK_BATCH) if quick else (PLACED, BATCH)
    queries = given.queries(placed + batch)
    old, new = queries.chosen(np.arange(placed)), queries.chosen(np.arange(placed, placed + batch))
    start = hierarchically(given.tree, given.network, given.substreams, old)
    found = []
    for k in SIZES:
        tree = tree_over(range(len(given.network.providers)), given.network.between, k)
        table = routing_table(tree, given.network, given.substreams, old, start)
        choices(table, new)
        best = float("inf")
        for _ in range(BATCHES):
            clock = Clock()
            choices(table, new)
            best = min(best, clock.seconds())
        placement = start
        for part in np.array_split(np.arange(batch), 20):
            known = queries.chosen(np.arange(len(placement)))
            table = routing_table(tree, given.network, given.substreams, known, placement)
            placement = np.concatenate([placement, routed(table, new.chosen(part))])
        result = judged(given, queries, f"k = {k}", placement)
        members = len(tree.members)
        found.append(Throughput(k, height(tree), members, batch / best, result.true_cost, result.edge_cut))
    return found


def show(found: list[Throughput], quick: bool) -> None:
    rows = [(e.k, e.height, e.children, e.per_second, e.true_cost, e.edge_cut) for e in found]
    columns = ("k", "height", "root's children", "queries/s", "true cost", "edge cut")
    note = (
        "The best of ten batches, one core, processor time. The source: more than 800,000 queries/s; smaller k, "
        "higher throughput and worse quality."
    )
    report.table("Routing at the root (Figure 3.11)", columns, rows, note)
