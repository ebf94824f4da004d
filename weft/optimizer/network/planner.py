"""Selects into the network, one at a time, and out of it again.

    planner = Planner()
    planner.register("12", select, ["stream f", "stream f"])
    planner.network                       # nodes, and where each select finds its rows
    planner.deregister("12")

A select is read (`wanted`), its joins are chosen together with what there is to share (`choose_joins`), and what is
missing is built from the bottom up (`build`). Two selects that want the same get the same node, whatever they are
written like. What is left of a node when a select goes is what others need. When a select
goes, nodes that were there for the sake of several and now serve one go too (`tighten`):

    C ── amount > 100000 ──> J1        C was weaker, to serve another query as well: J1 joins its rows by itself again
    S1 ── amount > 1000 ──> S2         only S2 reads S1: S2 reads what S1 read
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from weft.algebra import Column, Select
from weft.optimizer.network.build import Builder
from weft.optimizer.network.choose_joins import JoinChoice, JoinRequest
from weft.optimizer.network.estimates import NOTHING_KNOWN, Estimates, SizeStatistics
from weft.optimizer.network.node_predicates import Renaming
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.restructure import shorten
from weft.optimizer.network.wanted import ALL_SHARING, SelectNeeds, SharingOptions, as_computed, leg_name, wanted
from weft.plan.log_ids import LogId
from weft.plan.network import Found, Network, Node, Result
from weft.predicates.domains import Domain, Facts


def tighten(nodes: Nodes, builder: Builder, numbers: Iterable[int]) -> None:
    """Looks at nodes that have lost a child or a select."""
    waiting = sorted(set(numbers))
    while waiting:
        number = waiting.pop(0)
        entry = nodes.entries.get(number)
        if entry is None or entry.places or len(entry.children) != 1 or not entry.parents:
            continue
        (child,) = entry.children
        if not nodes[child].is_selection:
            continue
        if entry.is_selection:
            shorten(nodes, child)
        else:
            builder.rejoin(child)
            # The selections that it joins now may be made from those that the weaker join read, and nobody else reads.
            waiting += sorted({below for parent in nodes[child].parents for below in nodes[parent].parents})


class Planner:
    """The network of all selects that are registered."""

    def __init__(self, sharing: SharingOptions = ALL_SHARING, statistics: SizeStatistics = NOTHING_KNOWN) -> None:
        self.sharing = sharing
        self.statistics = statistics
        self.nodes = Nodes()
        self.renaming = Renaming()
        self._clocks: dict[str, tuple[tuple[Column, Domain], ...]] = {}
        self.estimates = Estimates(self.nodes, statistics, self.renaming)
        self._builder = Builder(self.nodes, sharing, self.estimates, self.renaming)

    @property
    def network(self) -> Network:
        """The network as it is now."""
        network = self.nodes.network()
        if self.sharing.canonical:
            return network
        nodes = {
            number: replace(node, predicates=as_computed(node.predicates, self._facts_of(node)))
            for number, node in network.nodes.items()
        }
        return replace(network, nodes=nodes)

    def _facts_of(self, node: Node) -> Facts:
        return {
            replace(column, source=leg_name(leg)): domain
            for leg, log in enumerate(node.legs)
            for column, domain in self._clocks.get(log, ())
        }

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected when it was made."""
        return self.estimates.rows(number)

    def rows_looked_at(self, number: int) -> int:
        """What a node costs: a selection looks at its parent's rows, a join at those of its parents and its own."""
        entry = self.nodes[number]
        return sum(map(self.rows, entry.parents)) + (self.rows(number) if entry.anchors is not None else 0)

    def register(self, place: str, select: Select, logs: Sequence[LogId]) -> None:
        """Gives a select that `is_shareable` its rows; `logs` names the log of each of its inputs."""
        self.register_wanted(place, wanted(select, logs, self.sharing))

    def register_wanted(self, place: str, what: SelectNeeds) -> None:
        if place in self.nodes.found:
            raise ValueError(f"{place} is in the network already: deregister it first")
        for column, domain in what.facts.items():
            self._clocks.setdefault(what.logs[int(column.source[1:]) - 1], ((column, domain),))
        request = JoinRequest(what, self.estimates, self.renaming)
        part = JoinChoice(request, self.nodes, self.sharing, self.estimates).best()
        node, inputs = self._builder.build(part, request)
        legs = tuple(inputs.index(number) for number in range(len(inputs)))
        columns = frozenset((legs[number], name) for number, name in what.columns)
        self.nodes.settle(place, Found(Result(node, legs), columns))
        self._builder.clear_up()

    def deregister(self, place: str) -> None:
        """Takes a select away, and all nodes that it alone needed."""
        logs = len(self.nodes.logs)
        staying = self.nodes.remove_unused(self.nodes.unsettle(place))
        tighten(self.nodes, self._builder, staying)
        if len(self.nodes.logs) < logs:
            self.renaming.forget()
            self._clocks = {log: clocks for log, clocks in self._clocks.items() if log in self.nodes.logs}
