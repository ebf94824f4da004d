"""What the coordinator of `weft.federation.distribution` decides in a federation that runs.

The log says which providers take part and which query runs where. Samples say what flows, reports what queries cost.
From these a `Coordinator` is made for each decision. A stream of which no sample has come yet flows at a rate of one,
so that sharing it still counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from weft.algebra import Query
from weft.federation import FederationError
from weft.federation.distribution.coordinator import Coordinator, route_text
from weft.federation.distribution.coordinator_tree import tree_over
from weft.federation.distribution.model import NetworkGraph, QuerySet, Substreams, query_set
from weft.federation.distribution.stream_interest import split_of, wanted_of
from weft.federation.live.ledger import FederationLedger, StandingQuery

#: What a query is taken to cost before anything was measured: processor seconds per second.
_UNKNOWN_LOAD = 0.01
#: The part of what a query reads that it answers, and the seconds of it that are fed again when it moves.
_ANSWERED = 0.1
_FED_AGAIN = 60.0


class Placing:
    """What was measured in a federation that runs; with its log, that makes a coordinator."""

    def __init__(self, network: NetworkGraph, ledger: FederationLedger) -> None:
        self.network = network
        self.ledger = ledger
        #: By stream the bytes per second and some rows, as its owner has told them.
        self.rates: dict[str, float] = {}
        self.samples: dict[str, pa.Table] = {}
        #: The load of queries by birth; and by provider when it reported last, and for how long it had worked.
        self._load: dict[int, float] = {}
        self._busy: dict[str, tuple[float, float]] = {}

    @property
    def present(self) -> list[str]:
        """The providers that take part."""
        return [each for each in self.ledger.members if each in self.network.number]

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator of the federation as it is now. Raises FederationError if no provider has joined."""
        return self._coordinator(self.present)[0]

    def worked(self, site: str, seconds: float, now: float) -> None:
        """A provider has worked for a number of seconds in all; its queries share what that is more than before.

        A provider of capability 8 does in a second what takes one of capability 1 eight: loads are of the latter.
        """
        since, before = self._busy.get(site, (now, seconds))
        self._busy[site] = now, seconds
        running = [each.birth for each in self.ledger.run_by(site)]
        if running and now > since and seconds > before:
            load = (seconds - before) / (now - since) * self.network.capability[self.network.number[site]]
            self._load |= dict.fromkeys(running, float(load) / len(running))

    def route(self, query: Query, site: str) -> tuple[str, str]:
        """The provider for a new query of a user at a site, and why it is that one."""
        # The new query's constants cut the streams in another way, for all queries.
        coordinator, described = self._coordinator(self.present, (query, site))
        decision = coordinator.route(query.name, described)
        parents = sorted(StandingQuery(query, site, 0, ()).parents)
        if not parents:
            return decision.provider, route_text(decision)
        provider = self.ledger.query(parents[0]).provider
        return provider, f"{query.name} goes to {provider}, where {', '.join(parents)} run whose answers it reads"

    def without(self, site: str) -> dict[str, str]:
        """Where the queries of a provider go that is not there any more; they stay if there is no other one."""
        others = [each for each in self.present if each != site]
        if not others:
            return {each.name: site for each in self.ledger.run_by(site)}
        return self.with_families(self._coordinator(others)[0].rerouted(site))

    def with_families(self, targets: dict[str, str]) -> dict[str, str]:
        """Queries that read one another's answers go where the first of them goes."""
        found: dict[str, str] = {}
        for query, target in targets.items():
            if query not in found:
                found |= {each.name: target for each in self.ledger.family(query)}
        return found

    def _coordinator(self, present: list[str], *new: tuple[Query, str]) -> tuple[Coordinator, QuerySet]:
        """A coordinator over some providers and the queries that run, and what new queries, with their homes, want."""
        if not present:
            raise FederationError("no provider has joined yet; start one with: weft provider")
        running = self.ledger.running()
        homes = [each.home for each in running] + [site for _, site in new]
        loads = [self._load.get(each.birth, _UNKNOWN_LOAD) for each in running] + [_UNKNOWN_LOAD for _ in new]
        queries = [each.query for each in running] + [query for query, _ in new]
        substreams, interests = self._flow(queries)
        # What a query answers and what moves along with it are guessed from what it reads.
        reads = [float(substreams.rate[each].sum()) for each in interests]
        answered, fed = ([part * rate for rate in reads] for part in (_ANSWERED, _FED_AGAIN))
        described = query_set(interests, loads, [self.network.number[each] for each in homes], answered, fed)
        tree = tree_over([self.network.number[each] for each in present], self.network.between)
        here = np.array([self.network.number[each.provider] for each in running], np.int32)
        settled, routed = (described.chosen(part) for part in np.split(np.arange(len(queries)), [len(running)]))
        return Coordinator(self.network, substreams, tree, [each.name for each in running], settled, here), routed

    def _flow(self, queries: Sequence[Query]) -> tuple[Substreams, list[list[int]]]:
        """The substreams of all streams, and those that each of some queries wants."""
        others = {each.name: each for each in queries}
        wanted = [wanted_of(each, others) for each in queries]
        interests: list[list[int]] = [[] for _ in queries]
        owners: list[int] = []
        rates: list[float] = []
        for name, record in self.ledger.streams.items():
            split = split_of([each for one in wanted for each in one.get(name, ())])
            for number, one in enumerate(wanted):
                if name in one:
                    interests[number] += [len(rates) + place for place in split.interest(one[name])]
            owners += [self.network.sources.index(record.owner)] * len(split)
            rates += split.rates(self.rates.get(name, 1.0), self.samples.get(name, pa.table({})))
        return Substreams(np.array(owners, np.int32), np.array(rates, np.float64)), interests
