"""The coordinator: it takes providers, queries, rates and loads, and answers where queries go.

It decides and carries nothing out: the caller does, a simulator or real providers, and reports it. All coordinators of
a tree are one object here; which of them decided what is in the answers (`RoutingStep.coordinator`).

    coordinator = Coordinator(network, substreams)
    routed = coordinator.register(["q1", "q2"], queries)        # where new queries go
    coordinator.measured({"q1": 0.02})                          # what they turned out to cost
    plan = coordinator.plan()                                   # what a round of redistribution would move
    coordinator.moved(plan.moves)                               # … and that it was moved
    print(explained(coordinator, "q1"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.federation.distribution.coordinator_tree import (
    Cluster,
    clusters,
    coordinators_above,
    joined,
    left,
    providers_below,
    tree_over,
)
from weft.federation.distribution.model import (
    NetworkGraph,
    Placement,
    QuerySet,
    Substreams,
    chosen,
    counts,
    edge_cut,
    loads,
    pulls,
    query_set,
    together,
)
from weft.federation.distribution.rounds import adapted, bounded, migration
from weft.federation.distribution.routing import RoutingTable, costs_at, learn, routed, routing_table
from weft.federation.federation_errors import FederationError


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a query would cost at one target of a coordinator, in bytes per second times milliseconds."""

    target: str
    cost: float


@dataclass(frozen=True, slots=True)
class RoutingStep:
    """One coordinator on the way from the root to a provider: what it could choose from, the cheapest first."""

    coordinator: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class RoutedQuery:
    """The provider of a new query, and the steps that led there."""

    query: str
    provider: str
    steps: tuple[RoutingStep, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A query that goes from one provider to another.

    `saves` is by how much the edge cut shrinks, in bytes per second times milliseconds (it grows if negative);
    `carries` the bytes of state, and `milliseconds` how far they go.
    """

    query: str
    source: str
    target: str
    saves: float
    carries: float
    milliseconds: float

    @property
    def pays_after(self) -> float | None:
        """The seconds after which a move has paid for itself; None if it never does."""
        return self.carries * self.milliseconds / self.saves if self.saves > 0 else None


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


class Coordinator:
    """What is known of a federation, and what follows from it. All of it can be read; only the methods write."""

    def __init__(
        self,
        network: NetworkGraph,
        substreams: Substreams,
        seed: int = 0,
        present: Iterable[str] | None = None,
    ) -> None:
        """`present` are the providers that take part already; all of them unless given."""
        self.network = network
        self.substreams = substreams
        self.seed = seed
        there = network.providers if present is None else present
        self.tree: Cluster = tree_over([network.number[name] for name in there], network.between)
        self.names: list[str] = []
        self.queries: QuerySet = query_set([], [], [], [])
        self.placement: Placement = np.empty(0, np.int32)
        self._number: dict[str, int] = {}
        self._table: RoutingTable | None = None

    # --- what happened -------------------------------------------------------------------------------------------

    def register(self, names: Sequence[str], queries: QuerySet) -> tuple[RoutedQuery, ...]:
        """Route new queries. They are placed when it returns; the next ones see them."""
        table = self.table
        placed = routed(table, queries)
        found = tuple(
            RoutedQuery(name, self.network.providers[placed[number]], tuple(self._steps(queries, number)))
            for number, name in enumerate(names)
        )
        learn(table, self.substreams, queries, placed)
        self._add(names, queries, placed)
        self._table = table
        return found

    def settled(self, names: Sequence[str], queries: QuerySet, providers: Sequence[str]) -> None:
        """Take over queries that run already at these providers."""
        self._add(names, queries, np.array([self._provider(each) for each in providers], np.int32))
        self._table = None

    def described(self, substreams: Substreams, queries: QuerySet) -> None:
        """Replace the substreams, and what the queries, in the order of `names`, want of them and cost."""
        self.substreams, self.queries, self._table = substreams, queries, None

    def dropped(self, names: Iterable[str]) -> None:
        """Remove queries that have ended."""
        gone = {self._known(name) for name in names}
        kept = np.array([number for number in range(len(self.names)) if number not in gone], np.int64)
        self.names = [self.names[number] for number in kept]
        self._number = {name: number for number, name in enumerate(self.names)}
        self.queries = chosen(self.queries, kept)
        self._place(self.placement[kept])

    def measured(self, found: Mapping[str, float]) -> None:
        """Take the processor seconds per second of queries, as measured on a provider of capability 1."""
        load = self.queries.load.copy()
        for name, value in found.items():
            load[self._known(name)] = value
        self.queries = replace(self.queries, load=load)

    def provider_joined(self, name: str) -> None:
        """Add a provider of the network to the tree. The next round will use it."""
        number = self._provider(name)
        if number in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is in the federation already")
        self.tree = joined(self.tree, number, self.network.between)
        self._table = None

    def provider_left(self, name: str) -> RoundPlan:
        """Remove a provider: each of its queries goes elsewhere, on the way that a new one would take."""
        number = self._provider(name)
        if number not in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is not in the federation")
        smaller = left(self.tree, number, self.network.between)
        if smaller is None:
            raise FederationError(f"provider {name!r} is the last one: without it there is nobody to run queries")
        before = self.quality()
        self.tree, self._table = smaller, None
        stranded = np.flatnonzero(self.placement == number)
        stay = np.flatnonzero(self.placement != number)
        table = routing_table(smaller, self.network, self.substreams, chosen(self.queries, stay), self.placement[stay])
        after = self.placement.copy()
        after[stranded] = routed(table, chosen(self.queries, stranded))
        moves = self._moves(after)
        self._place(after)
        return RoundPlan(moves, before, self.quality())

    def moved(self, moves: Iterable[Move]) -> None:
        """Note that moves have been carried out."""
        after = self.placement.copy()
        for move in moves:
            after[self._known(move.query)] = self._provider(move.target)
        self._place(after)

    # --- what it answers -----------------------------------------------------------------------------------------

    @property
    def table(self) -> RoutingTable:
        """The routing tables of all coordinators, made when they are asked for."""
        if self._table is None:
            self._table = routing_table(self.tree, self.network, self.substreams, self.queries, self.placement)
        return self._table

    def plan(self, budget: float | None = None) -> RoundPlan:
        """Plan a round of redistribution. Nothing is moved by asking, and asking again gives the same plan.

        With a budget, in bytes of state times milliseconds, only the moves that save most for what carrying them costs.
        """
        random = np.random.default_rng(self.seed)
        after = adapted(self.tree, self.network, self.substreams, self.queries, self.placement, random)
        moves = self._moves(after)
        if budget is not None:
            saved = np.array([move.saves for move in moves])
            kept = bounded(self.network, migration(self.queries, self.placement, after), saved, budget)
            after = self.placement.copy()
            after[kept.query] = kept.target
            moves = tuple(move for move in moves if after[self._number[move.query]] == self.network.number[move.target])
        return RoundPlan(moves, self.quality(), self.quality(after))

    def provider_of(self, query: str) -> str:
        """The name of the provider that a query is placed at."""
        return self.network.providers[int(self.placement[self._known(query)])]

    def move(self, query: str, target: str) -> Move:
        """What moving a query would cost and save."""
        after = self.placement.copy()
        number = self._known(query)
        after[number] = self._provider(target)
        if after[number] == self.placement[number]:
            return Move(query, target, target, 0.0, 0.0, 0.0)
        return self._moves(after)[0]

    def quality(self, placement: Placement | None = None) -> PlacementQuality:
        """The quality of a placement, the present one if none is given."""
        at = self.placement if placement is None else placement
        if not len(at):
            return PlacementQuality(0.0, 0.0)
        load = self.loads(at)
        there = list(providers_below(self.tree))
        fair = self.network.capability[there] * load.sum() / self.network.capability[there].sum()
        cut = edge_cut(self.network, self.substreams, self.queries, at)
        return PlacementQuality(cut.total, float((load[there] / fair).max()))

    def loads(self, placement: Placement | None = None) -> NDArray[np.float64]:
        at = self.placement if placement is None else placement
        return loads(self.queries, at, len(self.network.providers))

    def costs(self, query: str) -> NDArray[np.float64]:
        """By provider what the edges of a query would cost there."""
        number = self._known(query)
        at = self._counts()
        wanted = self.queries.interest(number)
        at[wanted, self.placement[number]] -= 1
        sharing = (self.substreams.rate[wanted] @ at[wanted]) @ self.network.between
        pull = pulls(self.network, self.substreams, chosen(self.queries, [number]))[0]
        found: NDArray[np.float64] = sharing + pull @ self.network.nodes
        return found

    def leaders(self) -> tuple[str, ...]:
        """The providers that lead a cluster, the root's leader first."""
        return tuple(dict.fromkeys(self.network.providers[each.leader] for each in clusters(self.tree)))

    # --- inside --------------------------------------------------------------------------------------------------

    def _add(self, names: Sequence[str], queries: QuerySet, placed: Placement) -> None:
        for name in names:
            if name in self._number:
                raise FederationError(f"there is a query {name!r} already; drop it first, or choose another name")
            self._number[name] = len(self.names)
            self.names.append(name)
        self.queries = together(self.queries, queries)
        self.placement = np.concatenate([self.placement, placed.astype(np.int32)])

    def _place(self, placement: Placement) -> None:
        self.placement, self._table = placement.astype(np.int32), None

    def _known(self, query: str) -> int:
        if query not in self._number:
            raise FederationError(f"there is no query {query!r} in the federation")
        return self._number[query]

    def _provider(self, name: str) -> int:
        if name not in self.network.number:
            raise FederationError(f"there is no provider {name!r}; known are {', '.join(self.network.providers[:8])} …")
        return self.network.number[name]

    def _counts(self) -> NDArray[np.float64]:
        return counts(self.queries, self.placement, len(self.substreams), len(self.network.providers))

    def _moves(self, after: Placement) -> tuple[Move, ...]:
        """The moves to another placement. What each saves is what it would save alone."""
        moves = migration(self.queries, self.placement, after)
        at, network = self._counts(), self.network
        pull = pulls(network, self.substreams, chosen(self.queries, moves.query))
        found = []
        for place, (query, a, b) in enumerate(zip(moves.query, moves.source, moves.target, strict=True)):
            wanted = self.queries.interest(int(query))
            rate = self.substreams.rate[wanted]
            # Its own copy stays behind in the count matrix, at a distance of the whole way.
            sharing = (rate @ at[wanted]) @ (network.between[a] - network.between[b]) + rate.sum() * network.between[
                a, b
            ]
            saves = float(sharing) + float(pull[place] @ (network.nodes[:, a] - network.nodes[:, b]))
            way = float(network.between[a, b])
            source, target = network.providers[a], network.providers[b]
            found.append(Move(self.names[query], source, target, saves, float(moves.state[place]), way))
        return tuple(found)

    def _steps(self, queries: QuerySet, number: int) -> Iterable[RoutingStep]:
        table: RoutingTable | None = self.table
        while table is not None:
            costs = costs_at(table, queries, number)
            members = [self.network.providers[each] for each in table.cluster.members]
            order = np.argsort(costs, kind="stable")
            yield RoutingStep(
                self.network.providers[table.cluster.leader],
                tuple(Candidate(members[each], float(costs[each])) for each in order),
            )
            table = table.below[order[0]] if table.below else None


def explained(coordinator: Coordinator, query: str, others: int = 3) -> str:
    """Why a query runs where it runs: what it reads and shares, and what it would cost at the next best providers."""
    network, substreams, queries = coordinator.network, coordinator.substreams, coordinator.queries
    number, here = coordinator.names.index(query), coordinator.provider_of(query)
    provider, wanted = network.number[here], queries.interest(number)
    rate = substreams.rate[wanted]
    beside = counts(queries, coordinator.placement, len(substreams), len(network.providers))[wanted, provider] - 1
    neighbours = np.flatnonzero(coordinator.placement == provider)
    sharing = sum(
        bool(np.intersect1d(queries.interest(int(each)), wanted, assume_unique=True).size)
        for each in neighbours
        if each != number
    )
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


def route_text(routed: RoutedQuery) -> str:
    """The way of a new query from the root to its provider."""
    lines = [f"{routed.query} goes to {routed.provider}"]
    for step in routed.steps:
        listed = ", ".join(f"{each.target} {each.cost:,.0f}" for each in step.candidates[:4])
        more = " …" if len(step.candidates) > 4 else ""
        lines.append(f"  {step.coordinator} chose {step.candidates[0].target}: {listed}{more}")
    return "\n".join(lines)


def plan_text(plan: RoundPlan) -> str:
    """A plan in a few lines: how many queries move, what they carry, what that changes."""
    carried = sum(move.carries for move in plan.moves)
    return (
        f"{len(plan.moves)} queries move, {carried:,.0f} bytes of state with them\n"
        f"  edge cut   {plan.before.edge_cut:,.0f} -> {plan.after.edge_cut:,.0f} (bytes/s × ms)\n"
        f"  fullest    {plan.before.fullest:.2f} -> {plan.after.fullest:.2f} of its fair load"
    )
