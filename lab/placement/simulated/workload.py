"""Streams, and queries over them, drawn at the parameters of the experiments (COSMOS, chapter 6.3).

Every query reads some streams, has filters on random attributes of each, and joins that connect them. Where the source
does not say what was done, this was chosen: a query reads two streams or three, which gives the mean of 2.5; joins
connect the streams one after the other, in random order; windows of joins are milliseconds; `selectivity` is how many
rows an operator makes of one input row, of a join's either side; a row that joins stays a row of 100 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.placement.fragments import Fragment, Operator, fragments


@dataclass(frozen=True, slots=True)
class Setting:
    """How large the cluster is, and what runs on it. `skew` is the exponent of the Zipf distribution by which queries
    choose streams; at 0 all streams are chosen equally often. `filters` is a mean: with 2.4, streams have two or three.
    """

    nodes: int = 32
    streams_per_node: int = 3
    queries: int = 500
    filters: float = 4.0
    attributes: int = 10
    skew: float = 0.0
    rate: float = 250.0
    row_bytes: int = 100
    filter_seconds: float = 20e-6
    join_seconds: float = 80e-6
    selectivity: tuple[float, float] = (0.5, 0.8)
    window_seconds: tuple[float, float] = (5.0, 20.0)

    @property
    def streams(self) -> int:
        return self.nodes * self.streams_per_node


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator does with a row. A filter has an attribute; a join has a window and keeps what is in it."""

    seconds: float
    selectivity: float
    attribute: int | None = None
    window: float = 0.0


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """A query: its fragments, and what their operators do. The access to a stream is named by the stream's number."""

    fragments: tuple[Fragment, ...]
    work: dict[str, Work]
    rates: dict[str, float]
    """Rows per second that come into each join, from both sides."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries, and the node that each stream comes to."""

    setting: Setting
    queries: tuple[DrawnQuery, ...]
    delegates: tuple[int, ...]

    @property
    def operators(self) -> int:
        return sum(len(query.work) for query in self.queries)


def draw(setting: Setting, seed: int) -> Workload:
    """A workload. Streams that all are chosen equally often come to nodes such that loads are balanced; those chosen by
    Zipf's law come to nodes at random, and loads are not balanced at all."""
    random = np.random.default_rng((seed, 6))
    sizes = np.where(random.permutation(setting.queries) % 2 == 0, 2, 3).tolist()
    queries = tuple(_query(setting, random, streams) for streams in _choices(setting, random, sizes))
    if setting.skew:
        return Workload(setting, queries, tuple(stream % setting.nodes for stream in range(setting.streams)))
    unplaced = Workload(setting, queries, (0,) * setting.streams)
    return Workload(setting, queries, _balanced(setting, expected_loads(unplaced)))


def _balanced(setting: Setting, loads: Sequence[float]) -> tuple[int, ...]:
    """The heaviest stream first, each to the node with least load that still has room for a stream."""
    delegates, given, number = [0] * setting.streams, [0.0] * setting.nodes, [0] * setting.nodes
    for stream in sorted(range(setting.streams), key=lambda each: -loads[each]):
        open_nodes = [node for node in range(setting.nodes) if number[node] < setting.streams_per_node]
        node = min(open_nodes, key=lambda each: given[each])
        delegates[stream] = node
        given[node] += loads[stream]
        number[node] += 1
    return tuple(delegates)


def expected_loads(workload: Workload) -> list[float]:
    """By stream, the part of a node's time that all fragments of the stream take if they are on one node.

    A group filter is used for a tuple if any of its queries has not refused the tuple before.
    """
    setting = workload.setting
    unused = np.ones((setting.streams, setting.attributes))
    loads = np.zeros(setting.streams)
    for query in workload.queries:
        for fragment in query.fragments:
            stream, alive = int(str(fragment.stream)), 1.0
            for name in map(str, fragment.operators[1:]):
                work = query.work[name]
                if work.attribute is None:
                    loads[stream] += query.rates[name] * work.seconds
                else:
                    unused[stream, work.attribute] *= 1.0 - alive
                    alive *= work.selectivity
    return [float(each) for each in loads + setting.rate * setting.filter_seconds * (1.0 - unused).sum(axis=1)]


def _choices(setting: Setting, random: np.random.Generator, sizes: list[int]) -> list[list[int]]:
    """For each query its streams, all different."""
    if not setting.skew:
        return _dealt(setting.streams, random, sizes)
    weights = 1.0 / np.arange(1, setting.streams + 1) ** setting.skew
    shuffled = random.permutation(setting.streams)
    return [
        [
            int(shuffled[at])
            for at in random.choice(setting.streams, int(size), replace=False, p=weights / weights.sum())
        ]
        for size in sizes
    ]


def _dealt(streams: int, random: np.random.Generator, sizes: Sequence[int]) -> list[list[int]]:
    """Streams dealt like cards from a shuffled pack, pack after pack: all come equally often, give or take one."""
    pack: list[int] = []
    hands = []
    for size in sizes:
        hand: list[int] = []
        while len(hand) < size:
            if not pack:
                pack = random.permutation(streams).tolist()
            at = next((at for at, card in enumerate(pack) if card not in hand), None)
            if at is None:
                pack += random.permutation(streams).tolist()
            else:
                hand.append(pack.pop(at))
        hands.append(hand)
    return hands


def _query(setting: Setting, random: np.random.Generator, streams: Sequence[int]) -> DrawnQuery:
    work: dict[str, Work] = {}
    rates: dict[str, float] = {}
    plans = []
    for stream in streams:
        plan = Operator(stream, setting.rate)
        number = int(setting.filters + random.random())
        for attribute in random.choice(setting.attributes, number, replace=False):
            share = float(random.uniform(*setting.selectivity))
            name = f"σ{attribute} of {stream}"
            work[name] = Work(setting.filter_seconds, share, int(attribute))
            plan = Operator(name, plan.rate * share, (plan,))
        plans.append(plan)
    joined = plans[0]
    for number, plan in enumerate(plans[1:]):
        share, name = float(random.uniform(*setting.selectivity)), f"⋈{number}"
        work[name] = Work(setting.join_seconds, share, window=float(random.uniform(*setting.window_seconds)))
        rates[name] = joined.rate + plan.rate
        joined = Operator(name, share * rates[name], (joined, plan))
    return DrawnQuery(fragments(joined), work, rates)
