"""Where queries are, as the coordinator of the simulator knows it, kept true to the log.

The log says which providers take part and which query runs where. Samples say what flows, reports what queries cost.
Out of these comes a `Coordinator` of `weft.federation.coordinator`, which decides; what it decided, and was not done as
it had decided, it is told.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra import Query
from weft.federation.coordinator import Coordinator
from weft.federation.coordinators import providers_below
from weft.federation.decisions import Move
from weft.federation.errors import FederationError
from weft.federation.explain import told
from weft.federation.live.flow_model import Flow, Measured, flow_of
from weft.federation.live.following import Follower
from weft.federation.live.ledger import Ledger, Standing
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import chosen

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
