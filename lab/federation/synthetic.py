"""Queries drawn from a seed: groups of users with hot spots of their own.

Each group ranks all substreams in a random order of its own, and a query of the group picks substreams by Zipf's law
over that order. So queries of a group overlap in what the group finds hot, and hardly with others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from weft.federation.distribution.model import QuerySet, Substreams, query_set

#: Processor seconds per byte read: a provider of capability 1 keeps up with so many bytes per second.
BYTES_PER_SECOND_OF_WORK = 1e6

#: A query's state is what it has read in so many seconds.
SECONDS_KEPT = 60


@dataclass(frozen=True)
class Workload:
    """What queries are drawn from: substreams, each group's order of them, and how likely a rank up to each is."""

    substreams: Substreams
    orders: NDArray[np.int32]
    up_to: NDArray[np.float64]
    fewest: int
    most: int
    result: float


def workload(
    seed: int,
    sources: int = 100,
    substreams: int = 20_000,
    groups: int = 20,
    skew: float = 0.8,
    fewest: int = 100,
    most: int = 200,
    result: float = 1.0,
) -> Workload:
    """A workload. Rates are uniform from 1 to 10 bytes per second; a query wants `fewest` to `most` substreams."""
    random = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, substreams + 1) ** skew
    return Workload(
        substreams=Substreams(
            random.integers(sources, size=substreams).astype(np.int32), random.uniform(1, 10, size=substreams)
        ),
        orders=np.stack([random.permutation(substreams).astype(np.int32) for _ in range(groups)]),
        up_to=np.cumsum(chances / chances.sum()),
        fewest=fewest,
        most=most,
        result=result,
    )


def drawn_queries(drawn: Workload, random: Generator, count: int, providers: int) -> tuple[QuerySet, NDArray[np.int64]]:
    """Queries at homes that are drawn uniformly, and the group of each."""
    groups = random.integers(len(drawn.orders), size=count)
    sizes = random.integers(drawn.fewest, drawn.most + 1, size=count)
    interests = [drawn.orders[group][_ranks(drawn, random, size)] for group, size in zip(groups, sizes, strict=True)]
    read = [float(drawn.substreams.rate[each].sum()) for each in interests]
    load = [rate / BYTES_PER_SECOND_OF_WORK for rate in read]
    homes = random.integers(providers, size=count)
    kept = [rate * SECONDS_KEPT for rate in read]
    return query_set(interests, load, homes.tolist(), [drawn.result] * count, kept), groups


def _ranks(drawn: Workload, random: Generator, size: int) -> NDArray[np.int64]:
    """Different ranks by Zipf's law. A rank that was drawn before is drawn again, like a ball that is not put back."""
    found = np.empty(0, np.int64)
    while len(found) < size:
        more = np.searchsorted(drawn.up_to, random.random(2 * size))
        every = np.concatenate([found, np.minimum(more, len(drawn.up_to) - 1)])
        found = every[np.sort(np.unique(every, return_index=True)[1])]
    return found[:size]
