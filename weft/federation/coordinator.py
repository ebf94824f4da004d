"""The coordinator: it is told of providers, queries, rates and loads, and answers where queries go.

It decides and does nothing: whoever asks carries it out, a simulator or real providers, and tells it when that is done.
All coordinators of a tree are one object here; which of them decided what is in the answers (`Step.coordinator`).

    coordinator = Coordinator(network, substreams)
    decisions = coordinator.register(["q1", "q2"], queries)     # where new queries go
    coordinator.measured({"q1": 0.02})                          # what they turned out to cost
    plan = coordinator.plan()                                   # what a round of redistribution would move
    coordinator.moved(plan.moves)                               # … and that it was moved
    print(coordinator.explain("q1"))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.federation.coordinators import Cluster, clusters, joined, left, providers_below, tree_over
from weft.federation.decisions import Choice, Decision, Move, Plan, Standing, Step
from weft.federation.distribution.adaptation import Terms, adapted
from weft.federation.distribution.hierarchical import hierarchically
from weft.federation.distribution.migration import bounded, migration
from weft.federation.distribution.routing import RoutingTable, costs_at, learn, routed, routing_table
from weft.federation.errors import FederationError
from weft.federation.model.edge_cut import Placement, counts, edge_cut, loads, pulls
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet, chosen, query_set, together
from weft.federation.model.substreams import Substreams

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
