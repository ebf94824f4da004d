"""Figure 3.12: rates of 800 substreams rise or fall, again and again. Redistribution, mapping anew, or neither."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench import report
from lab.federation.initial_distribution import centrally, hierarchically
from lab.federation.synthetic import BYTES_PER_SECOND_OF_WORK
from lab.figures.providers.setting import SEED, Clock, Setting, judged, setting
from weft.federation.distribution.model import Placement, QuerySet, Substreams
from weft.federation.distribution.rounds import adapted

QUERIES, STEPS, CHANGED, FACTOR = 10_000, 6, 800, 5.0
QUICK_QUERIES, QUICK_STEPS, QUICK_CHANGED = 1_500, 3, 200


@dataclass(frozen=True)
class Change:
    scheme: str
    step: int
    true_cost: float
    edge_cut: float
    imbalance: float
    moves: int
    cpu_seconds: float


def measure(quick: bool) -> list[Change]:
    given = setting(quick)
    random = np.random.default_rng([SEED, 1])  # not the numbers that the queries were drawn with
    queries = given.queries(QUICK_QUERIES if quick else QUERIES)
    settled = hierarchically(given.tree, given.network, given.substreams, queries)
    for _ in range(4):
        settled = adapted(given.tree, given.network, given.substreams, queries, settled, random)
    at = {
        "Adaptive": settled,
        "Re-mapping": centrally(given.network, given.substreams, queries),
        "Non-Adaptive": settled,
    }
    found: list[Change] = []
    substreams = given.substreams
    for step in range(1, (QUICK_STEPS if quick else STEPS) + 1):
        report.progress(f"  change {step}")
        changed = random.choice(len(substreams), QUICK_CHANGED if quick else CHANGED, replace=False)
        rate = substreams.rate.copy()
        rate[changed] *= FACTOR if step % 2 else 1 / FACTOR
        substreams = Substreams(substreams.source, rate)
        queries = replace(queries, load=input_rates(queries, substreams) / BYTES_PER_SECOND_OF_WORK)
        now = replace(given, drawn=replace(given.drawn, substreams=substreams))
        for scheme, before in at.items():
            clock = Clock()
            after = _decided(scheme, now, queries, before, random)
            spent = clock.seconds()
            result = judged(now, queries, scheme, after)
            moves = int(np.count_nonzero(before != after))
            found.append(Change(scheme, step, result.true_cost, result.edge_cut, result.imbalance, moves, spent))
            at[scheme] = after
    return found


def _decided(
    scheme: str, given: Setting, queries: QuerySet, before: Placement, random: np.random.Generator
) -> Placement:
    if scheme == "Adaptive":
        return adapted(given.tree, given.network, given.substreams, queries, before, random)
    if scheme == "Re-mapping":
        return centrally(given.network, given.substreams, queries)
    return before


def moves_of(found: list[Change], scheme: str) -> int:
    return sum(each.moves for each in found if each.scheme == scheme)


def show(found: list[Change], quick: bool) -> None:
    schemes = dict.fromkeys(each.scheme for each in found)
    rows = []
    for scheme in schemes:
        steps = [each for each in found if each.scheme == scheme]
        means = (
            float(np.mean([getattr(each, name) for each in steps])) for name in ("true_cost", "edge_cut", "imbalance")
        )
        rows.append((scheme, *means, moves_of(found, scheme), sum(each.cpu_seconds for each in steps)))
    columns = ("scheme", "true cost", "edge cut", "imbalance", "moves", "CPU s")
    note = (
        "Means over all changes. The source: adaptive close to re-mapping; re-mapping makes about seven times as many "
        "migrations."
    )
    report.table("Rates change (Figure 3.12)", columns, rows, note)


def input_rates(queries: QuerySet, substreams: Substreams) -> NDArray[np.float64]:
    """The bytes per second that each query reads."""
    rates = np.concatenate([[0.0], np.cumsum(substreams.rate[queries.wanted])])
    found: NDArray[np.float64] = rates[queries.starts[1:]] - rates[queries.starts[:-1]]
    return found
