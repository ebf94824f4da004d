"""Mapping a query graph onto targets: providers, or the clusters of providers below a coordinator.

Greedy first: heavy vertices before light ones, each where it costs least while the load limit holds. Then refinement in
the manner of Fiduccia and Mattheyses: passes of single moves, the best first, through hills on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.federation.distribution import kernels
from weft.federation.distribution.graph import QueryGraph, summed
from weft.federation.model.edge_cut import Placement
from weft.federation.model.network import NetworkGraph

#: Passes of refinement at most, and moves without a new best after which a pass ends.
PASSES, PATIENCE = 4, 64


@dataclass(frozen=True)
class Targets:
    """Where vertices may go: the providers of each target, the latencies between targets (`latency`) and from all nodes
    of the network to them (`reach`, sources first), and how much load is fair, within a slack.

    A target of several providers stands for a query at any of them, so its distances are means over them. That goes for
    its distance from itself, too: queries that it shares out among its providers are not at the same place.
    """

    providers: tuple[NDArray[np.int64], ...]
    latency: NDArray[np.float64]
    reach: NDArray[np.float64]
    fair: NDArray[np.float64]
    slack: float

    @property
    def caps(self) -> NDArray[np.float64]:
        return (1 + self.slack) * self.fair

    @property
    def floors(self) -> NDArray[np.float64]:
        """What a target should have at least. Redistribution keeps to it; the source's load limit has no such side."""
        return (1 - self.slack) * self.fair

    def __len__(self) -> int:
        return len(self.providers)


def targets_over(network: NetworkGraph, providers: Sequence[Sequence[int]], fair: float, slack: float) -> Targets:
    """Targets that may take a fair load, which is given per unit of capability, and a slack beyond it."""
    listed = tuple(np.asarray(each, np.int64) for each in providers)
    every = np.concatenate(listed)
    sizes = [len(each) for each in listed]
    firsts = np.cumsum([0, *sizes[:-1]])
    nodes = np.concatenate([network.from_source[:, every], network.between[:, every]])
    reach = np.add.reduceat(nodes, firsts, axis=1) / sizes
    from_providers = reach[len(network.sources) :]
    latency = np.add.reduceat(from_providers[every], firsts, axis=0) / np.array(sizes)[:, None]
    capability = np.add.reduceat(network.capability[every], firsts)
    return Targets(listed, latency, reach, fair * capability, slack)


def greedy(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> Placement:
    """By vertex the number of its target, heavy vertices first."""
    at = np.full(len(graph), -1, np.int32)
    field, load = np.zeros((len(rates), len(targets))), np.zeros(len(targets))
    order = np.argsort(-graph.weight, kind="stable")
    kernels.greedy(order, graph.weight, targets.caps, load, at, *arrays_of(graph, rates, targets), field)
    return at


def refined(
    graph: QueryGraph,
    rates: NDArray[np.float64],
    targets: Targets,
    placed: Placement,
    passes: int = PASSES,
    patience: int = PATIENCE,
) -> Placement:
    """A placement that costs no more, and breaks the load limits nowhere more than before.

    Where a limit is broken load goes away first, whatever that costs.
    """
    at = placed.astype(np.int32)
    arrays = arrays_of(graph, rates, targets)
    starts, substream, count, _, latency, _ = arrays
    field = kernels.field_of(len(targets), at, starts, substream, count, rates, latency)
    load = load_at(targets, at, graph)
    if (load > targets.caps).any():
        kernels.relieve(np.argsort(-graph.weight), at, graph.weight, targets.caps, load, *arrays, field)
    kernels.refine(at, graph.weight, targets.caps, load, *arrays, field, passes, patience)
    return at


def mapped(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> Placement:
    """Greedy, then refined."""
    return refined(graph, rates, targets, greedy(graph, rates, targets))


def load_at(targets: Targets, at: Placement, graph: QueryGraph) -> NDArray[np.float64]:
    """By target the load of the vertices there; vertices at −1 are nowhere."""
    placed = at >= 0
    return summed(graph.weight[placed], at[placed], len(targets))


def arrays_of(graph: QueryGraph, rates: NDArray[np.float64], targets: Targets) -> tuple[NDArray[np.generic], ...]:
    """What the compiled loops need to know of a graph and its targets."""
    # Edges inside a vertex are cut, too, where its target is spread out.
    within = 0.5 * kernels.own(graph.starts, graph.substream, graph.count, rates)
    fixed = graph.pull @ targets.reach + np.outer(within, np.diagonal(targets.latency))
    return graph.starts, graph.substream, graph.count, rates, targets.latency, fixed
