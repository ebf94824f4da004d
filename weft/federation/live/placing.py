"""Where queries are, as the coordinator of `weft.federation.distribution` knows it, kept true to the log.

The log says which providers take part and which query runs where. Samples say what flows, reports what queries cost.
From these a `Coordinator` is made, which decides; what was done in another way than it decided is reported to it.

Streams are cut by the conditions of the present queries, so that each query wants all of a substream or nothing of it.
How much flows in each follows from samples that the owners of streams send. A stream of which no sample has come yet
flows at a rate of one, so that sharing it still counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from weft.algebra import Query
from weft.federation.distribution.coordinator import Coordinator, Move, route_text
from weft.federation.distribution.coordinator_tree import providers_below
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, chosen, query_set
from weft.federation.distribution.substreams import StreamSplit, column_of, interest_in, split_of, wanted_of
from weft.federation.federation_errors import FederationError
from weft.federation.live.ledger import FederationLedger, Follower, StandingQuery
from weft.predicates.domains import Place, floating

#: Bytes per second of a stream that was not measured.
_UNKNOWN_RATE = 1.0
#: The part of what a query reads that it answers, and the seconds of it that are fed again when it moves.
_ANSWERED = 0.1
_FED_AGAIN = 60.0
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class StreamSample:
    """What the owner of a stream has told: bytes per second, and some rows."""

    rate: float
    sample: pa.Table


@dataclass(frozen=True)
class StreamFlow:
    """All substreams, and those that each of some queries wants."""

    substreams: Substreams
    interests: list[list[int]]

    def queries(self, load: Sequence[float], home: Sequence[int]) -> QuerySet:
        """The queries as they are placed, with loads and the numbers of their homes.

        What a query answers and what moves along with it are guessed from what it reads: a tenth of it comes out, and
        a minute of it is fed again where the query goes to.
        """
        reads = [float(self.substreams.rate[each].sum()) for each in self.interests]
        return query_set(
            self.interests, load, home, [_ANSWERED * rate for rate in reads], [_FED_AGAIN * rate for rate in reads]
        )


def flow_of(
    ledger: FederationLedger,
    queries: Sequence[StandingQuery | Query],
    sources: Sequence[str],
    measured: Mapping[str, StreamSample],
) -> StreamFlow:
    """The substreams of all streams, by what some queries want of them; `sources` are the sites that have streams."""
    texts = [each.query if isinstance(each, StandingQuery) else each for each in queries]
    others = {each.query.name: each.query for each in ledger.running()} | {each.name: each for each in texts}
    wanted = [wanted_of(each, others) for each in texts]
    interests: list[list[int]] = [[] for _ in texts]
    owners: list[int] = []
    rates: list[float] = []
    for name, record in ledger.streams.items():
        split = split_of(name, [each for one in wanted for each in one.get(name, ())])
        for number, one in enumerate(wanted):
            if name in one:
                interests[number] += [len(rates) + place for place in interest_in(split, one[name])]
        owners += [sources.index(record.owner)] * len(split)
        rates += _rates(split, measured.get(name))
    return StreamFlow(Substreams(np.array(owners, np.int32), np.array(rates, np.float64)), interests)


def _rates(split: StreamSplit, known: StreamSample | None) -> list[float]:
    """The bytes per second in each substream: as in the sample, and a little where it has nothing."""
    rate = known.rate if known is not None else _UNKNOWN_RATE
    column = column_of(split.subject)
    if known is None or column is None or column.name not in known.sample.column_names or not known.sample.num_rows:
        return [rate / len(split)] * len(split)
    counts = np.full(len(split), 0.5)
    for value in known.sample[column.name].to_pylist():
        counts[split.position(_place(value))] += 1
    return [float(each) for each in rate * counts / counts.sum()]


def _place(value: Any) -> Place | None:
    """A value of a sample as the cuts have it."""
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, datetime):
        return Fraction(round(value.timestamp() * 1_000_000))
    if isinstance(value, date):
        return Fraction((value - _EPOCH).days)
    return Fraction(value) if isinstance(value, int | Decimal) else None


#: What a query is taken to cost before anything was measured: processor seconds per second.
_UNKNOWN_LOAD = 0.01


class Placing:
    """The coordinator of the simulator, for a federation that runs."""

    def __init__(self, network: NetworkGraph, follower: Follower) -> None:
        self.network = network
        self._follower = follower
        self.measured: dict[str, StreamSample] = {}
        self._busy: dict[str, tuple[float, float]] = {}
        self._coordinator: Coordinator | None = None
        self.rebuild()

    @property
    def _ledger(self) -> FederationLedger:
        return self._follower.ledger

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator that decides. Raises FederationError if no provider has joined."""
        if self._coordinator is None:
            raise FederationError("no provider has joined yet; start one with: weft provider")
        return self._coordinator

    @property
    def known_coordinator(self) -> Coordinator | None:
        """The coordinator that decides; None if no provider has joined."""
        return self._coordinator

    @property
    def present(self) -> list[str]:
        """The providers that take part."""
        return [each for each in self._ledger.members if each in self.network.number]

    # --- what happened -------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Forget what was decided, and take what the log says."""
        self._coordinator = None
        if not self.present:
            return
        running = list(self._ledger.running())
        flow = self._flow(running)
        coordinator = Coordinator(self.network, flow.substreams, present=self.present)
        homes = [self.network.number[each.home] for each in running]
        described = flow.queries([_UNKNOWN_LOAD] * len(running), homes)
        coordinator.settled([each.name for each in running], described, [each.provider for each in running])
        self._coordinator = coordinator

    def joined(self, site: str) -> None:
        if self._coordinator is None:
            self.rebuild()
        elif self.network.number[site] not in providers_below(self._coordinator.tree):
            self._coordinator.provider_joined(site)

    def sampled(self, stream: str, found: StreamSample) -> None:
        """The owner of a stream has told what flows: rates are other ones now."""
        self.measured[stream] = found
        if self._coordinator is not None:
            known = self._coordinator.queries
            flow = self._flow([self._ledger.query(name) for name in self._coordinator.names])
            self._coordinator.described(flow.substreams, flow.queries(known.load.tolist(), known.home.tolist()))

    def worked(self, site: str, seconds: float, now: float) -> None:
        """A provider has worked for a number of seconds in all; its queries share what that is more than before.

        A provider of capability 8 does in a second what takes one of capability 1 eight: loads are of the latter.
        """
        since, before = self._busy.get(site, (now, seconds))
        self._busy[site] = now, seconds
        running = [each.name for each in self._ledger.run_by(site)]
        if self._coordinator is not None and running and now > since and seconds > before:
            load = (seconds - before) / (now - since) * self.network.capability[self.network.number[site]]
            self._coordinator.measured(dict.fromkeys(running, float(load) / len(running)))

    def settle(self, targets: dict[str, str]) -> None:
        """Queries are at these providers now, wherever it was decided that they should be."""
        if self._coordinator is not None:
            at = {query: self._coordinator.provider_of(query) for query in targets}
            moves = [Move(query, at[query], target, 0.0, 0.0, 0.0) for query, target in targets.items()]
            self._coordinator.moved(each for each in moves if each.source != each.target)

    # --- what it decides -----------------------------------------------------------------------------------------

    def route(self, query: Query, site: str) -> tuple[str, str]:
        """The provider for a new query of a user at a site, and why it is that one."""
        coordinator, number = self.coordinator, self.network.number
        # The new query's constants cut the streams in another way, for all queries.
        known = [self._ledger.query(name) for name in coordinator.names]
        flow = self._flow([*known, query])
        homes = [*(number[each.home] for each in known), number[site]]
        described = flow.queries([*coordinator.queries.load.tolist(), _UNKNOWN_LOAD], homes)
        coordinator.described(flow.substreams, chosen(described, range(len(known))))
        (decision,) = coordinator.register([query.name], chosen(described, [len(known)]))
        parents = sorted(StandingQuery(query, site, 0, ()).parents)
        if not parents:
            return decision.provider, route_text(decision)
        provider = self._ledger.query(parents[0]).provider
        self.settle({query.name: provider})
        return provider, f"{query.name} goes to {provider}, where {', '.join(parents)} run whose answers it reads"

    def without(self, site: str) -> dict[str, str]:
        """Where the queries of a provider go that is not there any more; they stay if there is no other one."""
        if self._coordinator is None or len(self.present) < 2:
            return {each.name: site for each in self._ledger.run_by(site)}
        plan = self._coordinator.provider_left(site)
        return self.with_families({each.query: each.target for each in plan.moves})

    def with_families(self, targets: dict[str, str]) -> dict[str, str]:
        """Queries that read one another's answers go where the first of them goes."""
        found: dict[str, str] = {}
        for query, target in targets.items():
            if query not in found:
                found |= {each.name: target for each in self._ledger.family(query)}
        return found

    def _flow(self, queries: Sequence[StandingQuery | Query]) -> StreamFlow:
        return flow_of(self._ledger, queries, self.network.sources, self.measured)
