"""Figure 3.9: the start was bad, because nothing was known; rounds of redistribution repair it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench import report
from lab.federation.initial_distribution import hierarchically
from lab.figures.providers.setting import SEED, Judged, judged, setting
from weft.federation.distribution.rounds import adapted

QUERIES, ROUNDS = 10_000, 10
QUICK_QUERIES, QUICK_ROUNDS = 1_500, 5


@dataclass(frozen=True)
class Round:
    number: int
    judged: Judged
    moves: int


def measure(quick: bool) -> list[Round]:
    given = setting(quick)
    queries = given.queries(QUICK_QUERIES if quick else QUERIES)
    random = np.random.default_rng([SEED, 1])  # not the numbers that the queries were drawn with
    starts = {
        "A-Accurate": hierarchically(given.tree, given.network, given.substreams, queries),
        "A-Inaccurate": random.integers(len(given.network.providers), size=len(queries)).astype(np.int32),
    }
    found = [Round(0, judged(given, queries, "NA-Inaccurate", starts["A-Inaccurate"]), 0)]
    for name, placement in starts.items():
        found.append(Round(0, judged(given, queries, name, placement), 0))
        before = placement
        for number in range(1, (QUICK_ROUNDS if quick else ROUNDS) + 1):
            after = adapted(given.tree, given.network, given.substreams, queries, before, random)
            moves = int(np.count_nonzero(before != after))
            found.append(Round(number, judged(given, queries, name, after), moves))
            before = after
    return found


def show(found: list[Round], quick: bool) -> None:
    rows = [
        (each.judged.name, each.number, each.judged.true_cost, each.judged.edge_cut, each.judged.imbalance, each.moves)
        for each in found
    ]
    columns = ("start", "round", "true cost", "edge cut", "imbalance", "moves")
    note = "The source: adaptation gradually repairs both cost and balance. A-: adaptive, NA-: not."
    report.table("A random start (Figure 3.9)", columns, rows, note)
