"""What a coordinator answers: where a query goes and why, what a move would cost, and what a round would move."""

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
from weft.federation.distribution.mapping import hierarchically
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
from weft.federation.distribution.rounds import Terms, adapted, bounded, migration
from weft.federation.distribution.routing import RoutingTable, costs_at, learn, routed, routing_table
from weft.federation.federation_errors import FederationError


@dataclass(frozen=True, slots=True)
class Choice:
    """What a query would cost at one target of a coordinator, in bytes per second times milliseconds."""

    target: str
    cost: float


@dataclass(frozen=True, slots=True)
class Step:
    """One coordinator on the way from the root to a provider: what it could choose from, the cheapest first."""

    coordinator: str
    choices: tuple[Choice, ...]

    @property
    def chosen(self) -> str:
        return self.choices[0].target


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a query goes, step by step."""

    query: str
    provider: str
    steps: tuple[Step, ...]


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
class Standing:
    """How a placement stands: its edge cut, and the most loaded provider against its fair load."""

    edge_cut: float
    fullest: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves that were decided and not carried out. They are carried out all together, or one by one."""

    moves: tuple[Move, ...]
    before: Standing
    after: Standing


#: Members per cluster are k to 3k − 1.
CLUSTER = 4


class Coordinator:
    """What is known of a federation, and what follows from it. All of it can be read; only the methods write."""

    def __init__(
        self,
        network: NetworkGraph,
        substreams: Substreams,
        seed: int = 0,
        k: int = CLUSTER,
        terms: Terms | None = None,
        present: Iterable[str] | None = None,
    ) -> None:
        """`present` are the providers that take part already; all of them unless given."""
        self.network = network
        self.substreams = substreams
        self.k = k
        self.terms = terms or Terms()
        there = network.providers if present is None else present
        self.tree: Cluster = tree_over([network.number[name] for name in there], network.between, k)
        self.names: list[str] = []
        self.queries: QuerySet = query_set([], [], [], [])
        self.placement: Placement = np.empty(0, np.int32)
        self._number: dict[str, int] = {}
        self._seed = seed
        self._table: RoutingTable | None = None

    # --- what it is told -----------------------------------------------------------------------------------------

    def distribute(self, names: Sequence[str], queries: QuerySet) -> Plan:
        """Places many queries at once, better than one by one would: for the start. They are placed when it returns."""
        self._add(names, queries, queries.home)
        before = self.standing()
        placed = hierarchically(self.tree, self.network, self.substreams, self.queries, self._seed, self.terms.slack)
        moves = self._moves(placed)
        self._place(placed)
        return Plan(moves, before, self.standing())

    def register(self, names: Sequence[str], queries: QuerySet) -> tuple[Decision, ...]:
        """Routes new queries. They are placed when it returns; the next ones see them."""
        table = self.table
        placed = routed(table, queries)
        decisions = tuple(
            Decision(name, self.network.providers[placed[number]], tuple(self._steps(queries, number)))
            for number, name in enumerate(names)
        )
        learn(table, self.substreams, queries, placed)
        self._add(names, queries, placed)
        self._table = table
        return decisions

    def settled(self, names: Sequence[str], queries: QuerySet, providers: Sequence[str]) -> None:
        """Queries run already, at these providers: what a coordinator that starts again is told."""
        self._add(names, queries, np.array([self._provider(each) for each in providers], np.int32))
        self._table = None

    def described(self, substreams: Substreams, queries: QuerySet) -> None:
        """The data are cut into other substreams; what the queries, in the order of `names`, want of them, and cost."""
        self.substreams, self.queries, self._table = substreams, queries, None

    def dropped(self, names: Iterable[str]) -> None:
        """Queries have ended."""
        gone = {self._known(name) for name in names}
        kept = np.array([number for number in range(len(self.names)) if number not in gone], np.int64)
        self.names = [self.names[number] for number in kept]
        self._number = {name: number for number, name in enumerate(self.names)}
        self.queries = chosen(self.queries, kept)
        self._place(self.placement[kept])

    def measured(self, found: Mapping[str, float]) -> None:
        """By query the processor seconds per second that it takes, as measured on a provider of capability 1."""
        load = self.queries.load.copy()
        for name, value in found.items():
            load[self._known(name)] = value
        self.queries = replace(self.queries, load=load)

    def flowing(self, rate: NDArray[np.float64]) -> None:
        """The sources have measured their substreams again."""
        self.substreams = replace(self.substreams, rate=np.asarray(rate, np.float64))
        self._table = None

    def provider_joined(self, name: str) -> None:
        """A provider of the network is there again, or for the first time. The next round will use it."""
        number = self._provider(name)
        if number in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is in the federation already")
        self.tree = joined(self.tree, number, self.network.between, self.k)
        self._table = None

    def provider_left(self, name: str) -> Plan:
        """A provider leaves, or has failed: its queries go elsewhere, each on the way that a new one would take."""
        number = self._provider(name)
        if number not in providers_below(self.tree):
            raise FederationError(f"provider {name!r} is not in the federation")
        smaller = left(self.tree, number, self.network.between, self.k)
        if smaller is None:
            raise FederationError(f"provider {name!r} is the last one: without it there is nobody to run queries")
        before = self.standing()
        self.tree, self._table = smaller, None
        stranded = np.flatnonzero(self.placement == number)
        stay = np.flatnonzero(self.placement != number)
        table = routing_table(smaller, self.network, self.substreams, chosen(self.queries, stay), self.placement[stay])
        after = self.placement.copy()
        after[stranded] = routed(table, chosen(self.queries, stranded))
        moves = self._moves(after)
        self._place(after)
        return Plan(moves, before, self.standing())

    def moved(self, moves: Iterable[Move]) -> None:
        """Moves have been carried out."""
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

    def plan(self, budget: float | None = None) -> Plan:
        """What a round of redistribution would move. Nothing is moved by asking, and asking again gives the same plan.

        With a budget, in bytes of state times milliseconds, only the moves that save most for what carrying them costs.
        """
        random = np.random.default_rng(self._seed)
        after = adapted(self.tree, self.network, self.substreams, self.queries, self.placement, random, self.terms)
        moves = self._moves(after)
        if budget is not None:
            saved = np.array([move.saves for move in moves])
            kept = bounded(self.network, migration(self.queries, self.placement, after), saved, budget)
            after = self.placement.copy()
            after[kept.query] = kept.target
            moves = tuple(move for move in moves if after[self._number[move.query]] == self.network.number[move.target])
        return Plan(moves, self.standing(), self.standing(after))

    def provider_of(self, query: str) -> str:
        return self.network.providers[int(self.placement[self._known(query)])]

    def move(self, query: str, target: str) -> Move:
        """What moving a query would cost and save."""
        after = self.placement.copy()
        number = self._known(query)
        after[number] = self._provider(target)
        if after[number] == self.placement[number]:
            return Move(query, target, target, 0.0, 0.0, 0.0)
        return self._moves(after)[0]

    def standing(self, placement: Placement | None = None) -> Standing:
        """How a placement stands, the present one if none is given."""
        at = self.placement if placement is None else placement
        if not len(at):
            return Standing(0.0, 0.0)
        load = loads(self.queries, at, len(self.network.providers))
        there = list(providers_below(self.tree))
        fair = self.network.capability[there] * load.sum() / self.network.capability[there].sum()
        cut = edge_cut(self.network, self.substreams, self.queries, at)
        return Standing(cut.total, float((load[there] / fair).max()))

    def costs(self, query: str) -> NDArray[np.float64]:
        """By provider what the edges of a query would cost there."""
        number = self._known(query)
        at = counts(self.queries, self.placement, len(self.substreams), len(self.network.providers))
        wanted = self.queries.interest(number)
        at[wanted, self.placement[number]] -= 1
        sharing = (self.substreams.rate[wanted] @ at[wanted]) @ self.network.between
        pull = pulls(self.network, self.substreams, chosen(self.queries, [number]))[0]
        nodes = np.concatenate([self.network.from_source, self.network.between])
        found: NDArray[np.float64] = sharing + pull @ nodes
        return found

    def coordinators(self) -> tuple[str, ...]:
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

    def _moves(self, after: Placement) -> tuple[Move, ...]:
        """The moves to another placement. What each saves is what it would save alone."""
        moves = migration(self.queries, self.placement, after)
        at = counts(self.queries, self.placement, len(self.substreams), len(self.network.providers))
        nodes = np.concatenate([self.network.from_source, self.network.between])
        pull = pulls(self.network, self.substreams, chosen(self.queries, moves.query)) if len(moves) else None
        found = []
        for place, (query, a, b) in enumerate(zip(moves.query, moves.source, moves.target, strict=True)):
            wanted = self.queries.interest(int(query))
            rate = self.substreams.rate[wanted]
            nearer = self.network.between[a] - self.network.between[b]
            # Its own copy stays behind in the count matrix, at a distance of the whole way.
            sharing = float((rate @ at[wanted]) @ nearer + rate.sum() * self.network.between[a, b])
            assert pull is not None
            saves = sharing + float(pull[place] @ (nodes[:, a] - nodes[:, b]))
            way = float(self.network.between[a, b])
            source, target = self.network.providers[a], self.network.providers[b]
            found.append(Move(self.names[query], source, target, saves, float(moves.state[place]), way))
        return tuple(found)

    def _steps(self, queries: QuerySet, number: int) -> Iterable[Step]:
        table: RoutingTable | None = self.table
        while table is not None:
            costs = costs_at(table, queries, number)
            members = [self.network.providers[each] for each in table.cluster.members]
            order = np.argsort(costs, kind="stable")
            yield Step(
                self.network.providers[table.cluster.leader],
                tuple(Choice(members[each], float(costs[each])) for each in order),
            )
            table = table.below[order[0]] if table.below else None


def explained(coordinator: Coordinator, query: str, others: int = 3) -> str:
    """Why a query runs where it runs: what it reads and shares, and what it would cost at the next best providers."""
    network, substreams, queries = coordinator.network, coordinator.substreams, coordinator.queries
    number, here = coordinator.names.index(query), coordinator.provider_of(query)
    provider, wanted = network.number[here], queries.interest(coordinator.names.index(query))
    rate = substreams.rate[wanted]
    beside = counts(queries, coordinator.placement, len(substreams), len(network.providers))[wanted, provider] - 1
    neighbours = np.flatnonzero(coordinator.placement == provider)
    sharing = sum(
        bool(np.intersect1d(queries.interest(int(each)), wanted, assume_unique=True).size)
        for each in neighbours
        if each != number
    )
    load = loads(queries, coordinator.placement, len(network.providers))
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


def told(decision: Decision) -> str:
    """The way of a new query from the root to its provider."""
    lines = [f"{decision.query} goes to {decision.provider}"]
    for step in decision.steps:
        listed = ", ".join(f"{each.target} {each.cost:,.0f}" for each in step.choices[:4])
        lines.append(f"  {step.coordinator} chose {step.chosen}: {listed}{' …' if len(step.choices) > 4 else ''}")
    return "\n".join(lines)


def summed_up(plan: Plan) -> str:
    """A plan in a few lines: how many move, what they carry, what that changes."""
    carried = sum(move.carries for move in plan.moves)
    return (
        f"{len(plan.moves)} queries move, {carried:,.0f} bytes of state with them\n"
        f"  edge cut   {plan.before.edge_cut:,.0f} -> {plan.after.edge_cut:,.0f} (bytes/s × ms)\n"
        f"  fullest    {plan.before.fullest:.2f} -> {plan.after.fullest:.2f} of its fair load"
    )
