"""Queries, streams and what was measured of them, as the coordinator's substreams and interests.

Streams are cut by the conditions of the queries that there are, so that each query wants all of a substream or nothing
of it. How much flows in each follows from samples that the owners of streams send. A stream that nothing was heard of
yet flows at a rate of one, so that sharing it still counts.
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

from weft.algebra import Column, Query
from weft.federation.distribution.coordinator import Coordinator, Move, told
from weft.federation.distribution.coordinator_tree import providers_below
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, chosen, query_set
from weft.federation.distribution.substreams import StreamSplit, interest_in, split_of, wanted_of
from weft.federation.federation_errors import FederationError
from weft.federation.live.ledger import Follower, Ledger, Standing
from weft.predicates.intervals import Place, floating
from weft.predicates.terms import Subject, Sum, Term

#: Bytes per second of a stream that nobody has measured.
_UNKNOWN_RATE = 1.0
#: The part of what a query reads that it answers, and the seconds of it that are fed again when it moves.
_ANSWERED = 0.1
_FED_AGAIN = 60.0
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Measured:
    """What the owner of a stream has told: bytes per second, and some rows."""

    rate: float
    sample: pa.Table


@dataclass(frozen=True)
class Flow:
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
    ledger: Ledger, queries: Sequence[Standing | Query], sources: Sequence[str], measured: Mapping[str, Measured]
) -> Flow:
    """The substreams of all streams, by what some queries want of them; `sources` are the sites that have streams."""
    texts = [each.query if isinstance(each, Standing) else each for each in queries]
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
    return Flow(Substreams(np.array(owners, np.int32), np.array(rates, np.float64)), interests)


def _rates(split: StreamSplit, known: Measured | None) -> list[float]:
    """The bytes per second in each substream: as in the sample, and a little where it has nothing."""
    rate = known.rate if known is not None else _UNKNOWN_RATE
    column = _column_of(split.subject)
    if known is None or column is None or column not in known.sample.column_names or not known.sample.num_rows:
        return [rate / len(split)] * len(split)
    counts = np.full(len(split), 0.5)
    for value in known.sample[column].to_pylist():
        counts[split.position(_place(value))] += 1
    return [float(each) for each in rate * counts / counts.sum()]


def _column_of(subject: Subject | None) -> str | None:
    expression = None
    if isinstance(subject, Sum) and subject.atom is not None:
        expression = subject.atom.expression
    elif isinstance(subject, Term):
        expression = subject.expression
    return expression.name if isinstance(expression, Column) else None


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
        self.measured: dict[str, Measured] = {}
        self._busy: dict[str, tuple[float, float]] = {}
        self._brain: Coordinator | None = None
        self.read_anew()

    @property
    def _ledger(self) -> Ledger:
        return self._follower.ledger

    @property
    def brain(self) -> Coordinator:
        """Who decides. Raises FederationError if there is nobody to decide about."""
        if self._brain is None:
            raise FederationError("no provider has joined yet; start one with: weft provider")
        return self._brain

    @property
    def found_brain(self) -> Coordinator | None:
        """Who decides, if there is somebody to decide about."""
        return self._brain

    @property
    def present(self) -> list[str]:
        """The providers that take part."""
        return [each for each in self._ledger.members if each in self.network.number]

    # --- what it is told -----------------------------------------------------------------------------------------

    def read_anew(self) -> None:
        """Forget what was decided, and take what the log says."""
        self._brain = None
        if not self.present:
            return
        running = list(self._ledger.running())
        flow = self._flow(running)
        brain = Coordinator(self.network, flow.substreams, present=self.present)
        homes = [self.network.number[each.home] for each in running]
        described = flow.queries([_UNKNOWN_LOAD] * len(running), homes)
        brain.settled([each.name for each in running], described, [each.provider for each in running])
        self._brain = brain

    def joined(self, site: str) -> None:
        """A provider takes part."""
        if self._brain is None:
            self.read_anew()
        elif self.network.number[site] not in providers_below(self._brain.tree):
            self._brain.provider_joined(site)

    def sampled(self, stream: str, found: Measured) -> None:
        """The owner of a stream has told what flows: rates are other ones now."""
        self.measured[stream] = found
        if self._brain is not None:
            known = self._brain.queries
            flow = self._flow([self._ledger.query(name) for name in self._brain.names])
            self._brain.described(flow.substreams, flow.queries(known.load.tolist(), known.home.tolist()))

    def worked(self, site: str, seconds: float, now: float) -> None:
        """A provider has worked for so many seconds in all; its queries share what that is more than before.

        A provider of capability 8 does in a second what takes one of capability 1 eight: loads are of the latter.
        """
        since, before = self._busy.get(site, (now, seconds))
        self._busy[site] = now, seconds
        running = [each.name for each in self._ledger.run_by(site)]
        if self._brain is not None and running and now > since and seconds > before:
            load = (seconds - before) / (now - since) * self.network.capability[self.network.number[site]]
            self._brain.measured(dict.fromkeys(running, float(load) / len(running)))

    def settle(self, targets: dict[str, str]) -> None:
        """Queries are at these providers now, wherever it was decided that they should be."""
        if self._brain is not None:
            at = {query: self._brain.provider_of(query) for query in targets}
            moves = [Move(query, at[query], target, 0.0, 0.0, 0.0) for query, target in targets.items()]
            self._brain.moved(each for each in moves if each.source != each.target)

    # --- what it decides -----------------------------------------------------------------------------------------

    def route(self, query: Query, site: str) -> tuple[str, str]:
        """The provider for a new query of a user at a site, and why it is that one."""
        brain, number = self.brain, self.network.number
        # The new query's constants cut the streams anew, for all queries.
        known = [self._ledger.query(name) for name in brain.names]
        flow = self._flow([*known, query])
        homes = [*(number[each.home] for each in known), number[site]]
        described = flow.queries([*brain.queries.load.tolist(), _UNKNOWN_LOAD], homes)
        brain.described(flow.substreams, chosen(described, range(len(known))))
        (decision,) = brain.register([query.name], chosen(described, [len(known)]))
        parents = sorted(Standing(query, site, 0, ()).parents)
        if not parents:
            return decision.provider, told(decision)
        provider = self._ledger.query(parents[0]).provider
        self.settle({query.name: provider})
        return provider, f"{query.name} goes to {provider}, where {', '.join(parents)} run whose answers it reads"

    def without(self, site: str) -> dict[str, str]:
        """Where the queries of a provider go that is not there any more; they stay if there is no other one."""
        if self._brain is None or len(self.present) < 2:
            return {each.name: site for each in self._ledger.run_by(site)}
        plan = self._brain.provider_left(site)
        return self.with_families({each.query: each.target for each in plan.moves})

    def with_families(self, targets: dict[str, str]) -> dict[str, str]:
        """Queries that read one another's answers go where the first of them goes."""
        found: dict[str, str] = {}
        for query, target in targets.items():
            if query not in found:
                found |= {each.name: target for each in self._ledger.family(query)}
        return found

    def _flow(self, queries: Sequence[Standing | Query]) -> Flow:
        return flow_of(self._ledger, queries, self.network.sources, self.measured)
