"""The coordinator: it takes providers, rates, and queries with where they run, and answers where queries should go.

It decides and carries nothing out: the caller does, real providers or a simulator. All coordinators of a tree are one
object here; which of them decided what is in the answers (`RoutingStep.coordinator`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from weft.federation import FederationError
from weft.federation.distribution.coordinator_tree import Cluster, clusters, coordinators_above, providers_below
from weft.federation.distribution.model import NetworkGraph, Placement, QuerySet, Substreams, edge_cut, pulls
from weft.federation.distribution.rounds import adapted, targets_of


@dataclass(frozen=True, slots=True)
class RoutingStep:
    """One coordinator on the way from the root to a provider: what a query would cost at each of its members.

    In bytes per second times milliseconds, and the cheapest first.
    """

    coordinator: str
    costs: Mapping[str, float]

    @property
    def target(self) -> str:
        """The member that it chooses."""
        return next(iter(self.costs))


@dataclass(frozen=True, slots=True)
class RoutedQuery:
    """The steps of a new query from the root down to its provider."""

    query: str
    steps: tuple[RoutingStep, ...]

    @property
    def provider(self) -> str:
        return self.steps[-1].target


@dataclass(frozen=True, slots=True)
class Move:
    """A query that goes from one provider to another.

    `saves` is by how much the edge cut shrinks if it moves alone, in bytes per second times milliseconds (it grows if
    negative); `carries` the bytes of state, and `milliseconds` how far they go.
    """

    query: str
    source: str
    target: str
    saves: float
    carries: float
    milliseconds: float

    @property
    def costs(self) -> float:
        """What carrying the state costs, in bytes times milliseconds."""
        return self.carries * self.milliseconds

    @property
    def pays_after(self) -> float | None:
        """The seconds after which a move has paid for itself; None if it never does."""
        return self.costs / self.saves if self.saves > 0 else None


@dataclass(frozen=True, slots=True)
class PlacementQuality:
    """The edge cut of a placement, and the load of its fullest provider relative to a fair one."""

    edge_cut: float
    fullest: float


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Moves that were decided and not carried out. They are carried out all together, or one by one."""

    moves: tuple[Move, ...]
    before: PlacementQuality
    after: PlacementQuality


@dataclass
class Coordinator:
    """Queries by number, their names and where they run, and what follows from that.

    `tree` has the providers that take part. `seed` draws what a plan leaves to chance.
    """

    network: NetworkGraph
    substreams: Substreams
    tree: Cluster
    names: list[str]
    queries: QuerySet
    placement: Placement
    seed: int = 0

    def route(self, name: str, queries: QuerySet) -> RoutedQuery:
        """Route the one query of a set: to the child of the root that it costs least at, and on from there.

        What is shared and fetched counts, and load does not: that a query finds its place at once is worth more, and
        the next round sees to the balance.
        """
        return RoutedQuery(name, tuple(self._steps(self.tree, self._counts(), queries, 0)))

    def rerouted(self, provider: str) -> dict[str, str]:
        """Where the queries of a provider that is not in the tree go: each on the way that a new one would take."""
        gone, at = self._provider(provider), self._counts()
        at[:, gone] = 0.0
        found = {}
        for query in np.flatnonzero(self.placement == gone):
            *_, last = self._steps(self.tree, at, self.queries, int(query))
            found[self.names[query]] = last.target
        return found

    def plan(self, budget: float | None = None) -> RoundPlan:
        """Plan a round of redistribution. Nothing is moved by asking, and asking again gives the same plan.

        With a budget, in bytes of state times milliseconds, only the moves that save most for what carrying them costs.
        """
        random = np.random.default_rng(self.seed)
        after = adapted(self.tree, self.network, self.substreams, self.queries, self.placement, random)
        moves = self._moves(after)
        if budget is not None:
            moves = affordable(moves, budget)
            after = self._placed({move.query: move.target for move in moves})
        return RoundPlan(moves, self.quality(), self.quality(after))

    def provider_of(self, query: str) -> str:
        """The name of the provider that a query is placed at."""
        return self.network.providers[int(self.placement[self._known(query)])]

    def move(self, query: str, target: str) -> Move:
        """What moving a query would cost and save."""
        moves = self._moves(self._placed({query: target}))
        return moves[0] if moves else Move(query, target, target, 0.0, 0.0, 0.0)

    def quality(self, placement: Placement | None = None) -> PlacementQuality:
        """The quality of a placement, the present one if none is given."""
        at = self.placement if placement is None else placement
        if not len(at):
            return PlacementQuality(0.0, 0.0)
        load = self.queries.loads(at, len(self.network.providers))
        there = list(providers_below(self.tree))
        fair = self.network.capability[there] * load.sum() / self.network.capability[there].sum()
        cut = edge_cut(self.network, self.substreams, self.queries, at)
        return PlacementQuality(cut, float((load[there] / fair).max()))

    def loads(self) -> NDArray[np.float64]:
        """The load of each provider."""
        return self.queries.loads(self.placement, len(self.network.providers))

    def costs(self, query: str) -> NDArray[np.float64]:
        """By provider what the edges of a query would cost there."""
        return self._costs(self._known(query), self._counts())

    def leaders(self) -> tuple[str, ...]:
        """The providers that lead a cluster, the root's leader first."""
        return tuple(dict.fromkeys(self.network.providers[each.leader] for each in clusters(self.tree)))

    def _steps(self, cluster: Cluster, at: NDArray[np.float64], queries: QuerySet, query: int) -> Iterator[RoutingStep]:
        """The way of one of some queries down the tree, beside queries that are counted."""
        network, targets, wanted = self.network, targets_of(cluster, self.network, fair=1.0), queries.interest(query)
        from_source, homes = np.split(targets.reach, [len(network.sources)])
        here = np.stack([at[wanted][:, each].sum(axis=1) for each in targets.providers], axis=1)
        fetching = from_source[self.substreams.source[wanted]]
        costs = self.substreams.rate[wanted] @ (here @ targets.latency + fetching)
        costs += queries.result[query] * homes[queries.home[query]]
        order = np.argsort(costs, kind="stable")
        members = [network.providers[each] for each in cluster.members]
        yield RoutingStep(network.providers[cluster.leader], {members[each]: float(costs[each]) for each in order})
        if not cluster.is_leaf:
            yield from self._steps(cluster.children[order[0]], at, queries, query)

    def _known(self, query: str) -> int:
        if query not in self.names:
            raise FederationError(f"there is no query {query!r} in the federation")
        return self.names.index(query)

    def _provider(self, name: str) -> int:
        if name not in self.network.number:
            raise FederationError(f"there is no provider {name!r}; known are {', '.join(self.network.providers[:8])} …")
        return self.network.number[name]

    def _placed(self, targets: Mapping[str, str]) -> Placement:
        """The placement with some queries at other providers."""
        after = self.placement.copy()
        for query, target in targets.items():
            after[self._known(query)] = self._provider(target)
        return after

    def _counts(self) -> NDArray[np.float64]:
        return self.queries.counts(self.placement, len(self.substreams), len(self.network.providers))

    def _costs(self, number: int, at: NDArray[np.float64]) -> NDArray[np.float64]:
        wanted = self.queries.interest(number)
        rate = self.substreams.rate[wanted]
        beside = rate @ at[wanted]
        # The count matrix has the query itself where it is, and it shares nothing with itself.
        beside[self.placement[number]] -= rate.sum()
        (pull,) = pulls(self.network, self.substreams, self.queries.chosen([number]))
        found: NDArray[np.float64] = beside @ self.network.between + pull @ self.network.nodes
        return found

    def _moves(self, after: Placement) -> tuple[Move, ...]:
        """The moves to another placement."""
        at, network, found = self._counts(), self.network, []
        for number in np.flatnonzero(self.placement != after):
            a, b, costs = int(self.placement[number]), int(after[number]), self._costs(int(number), at)
            saves, carries, way = costs[a] - costs[b], self.queries.state[number], network.between[a, b]
            names = self.names[number], network.providers[a], network.providers[b]
            found.append(Move(*names, float(saves), float(carries), float(way)))
        return tuple(found)


def affordable(moves: Sequence[Move], budget: float) -> tuple[Move, ...]:
    """The moves that save most for what carrying them costs, as many as the budget allows."""
    best = sorted(moves, key=lambda move: -move.saves / max(move.costs, 1e-300))
    spent = accumulate(move.costs for move in best)
    kept = {move.query for move, total in zip(best, spent, strict=True) if total <= budget}
    return tuple(move for move in moves if move.query in kept)


def explained(coordinator: Coordinator, query: str, others: int = 3) -> str:
    """Why a query runs where it runs: what it reads and shares, and what it would cost at the next best providers."""
    network, substreams, queries = coordinator.network, coordinator.substreams, coordinator.queries
    number, here = coordinator.names.index(query), coordinator.provider_of(query)
    provider, wanted = network.number[here], queries.interest(number)
    rate = substreams.rate[wanted]
    beside = queries.counts(coordinator.placement, len(substreams), len(network.providers))[wanted, provider] - 1
    neighbours = np.flatnonzero(coordinator.placement == provider)
    sharing = sum(np.isin(wanted, queries.interest(int(each))).any() for each in neighbours if each != number)
    load = coordinator.loads()
    above = [network.providers[each.leader] for each in coordinators_above(coordinator.tree, provider)]
    lines = [
        f"{query} runs at {here}; its user is at {network.providers[queries.home[number]]}",
        f"  under      {' > '.join(above) or 'nobody: the provider has left'}",
        f"  reads      {rate.sum():,.0f} bytes/s, {len(wanted)} substreams",
        f"  shares     {rate[beside > 0].sum():,.0f} bytes/s of it with {sharing} of {len(neighbours) - 1} neighbours",
        f"  load       {queries.load[number]:.4g} of {load[provider]:.4g} there",
    ]
    costs = coordinator.costs(query)
    lines.append(f"  costs      {costs[provider]:,.0f} (bytes/s × ms)")
    better = [place for place in np.argsort(costs, kind="stable") if place != provider][:others]
    for place in better:
        move = coordinator.move(query, network.providers[place])
        pays = "never pays" if move.pays_after is None else f"pays after {move.pays_after:,.0f} s"
        lines.append(
            f"  at {network.providers[place]:<8} {costs[place]:,.0f}; moving carries {move.carries:,.0f} bytes "
            f"over {move.milliseconds:.0f} ms, {pays}; load there {load[place]:.4g}"
        )
    return "\n".join(lines)


def plan_text(plan: RoundPlan) -> str:
    """A plan in a few lines: how many queries move, what they carry, what that changes."""
    carried = sum(move.carries for move in plan.moves)
    return (
        f"{len(plan.moves)} queries move, {carried:,.0f} bytes of state with them\n"
        f"  edge cut   {plan.before.edge_cut:,.0f} -> {plan.after.edge_cut:,.0f} (bytes/s × ms)\n"
        f"  fullest    {plan.before.fullest:.2f} -> {plan.after.fullest:.2f} of its fair load"
    )


def route_text(routed: RoutedQuery) -> str:
    """The way of a new query from the root to its provider."""
    lines = [f"{routed.query} goes to {routed.provider}"]
    for step in routed.steps:
        listed = ", ".join(f"{target} {cost:,.0f}" for target, cost in islice(step.costs.items(), 4))
        more = " …" if len(step.costs) > 4 else ""
        lines.append(f"  {step.coordinator} chose {step.target}: {listed}{more}")
    return "\n".join(lines)
