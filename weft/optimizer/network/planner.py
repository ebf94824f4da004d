"""Selects into the network, one at a time, and out of it again.

    planner = Planner()
    planner.register("12", select, ["stream f", "stream f"])
    planner.network                       # nodes, and where each select finds its rows
    planner.deregister("12")

A select is read (`wanted`), its joins are chosen together with what there is to share (`choose_joins`), and what is
missing is built from the bottom up (`build`). Two selects that want the same get the same node, whatever they are
written like. What is left of a node when a select goes is what others need. When a select
goes, nodes that were there for the sake of several and now serve one go too (`tighten`):

    C ── amount > 100000 ──> J1        C was weaker, to serve another query as well: J1 is a join again
    S1 ── amount > 1000 ──> S2         only S2 reads S1: S2 reads what S1 read
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.algebra import Select
from weft.optimizer.network.build import Builder, shorten
from weft.optimizer.network.choose_joins import JoinChoice, JoinRequest
from weft.optimizer.network.node_predicates import Renaming
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.sizes import NOTHING_KNOWN, Estimates, SizeStatistics
from weft.optimizer.network.wanted import SelectNeeds, wanted
from weft.plan.log_ids import LogId
from weft.plan.network import FoundRows, Network, Result


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
            # The selections that it joins now may be made from those that only the weaker join read.
            waiting += sorted({below for parent in nodes[child].parents for below in nodes[parent].parents})


class Planner:
    """The network of all selects that are registered."""

    #: Whether selects share joins, and whether joins give way to weaker ones that more selects can share. The product
    #: always does; experiments plan without.
    shares_joins, restructures = True, True

    def __init__(self, statistics: SizeStatistics = NOTHING_KNOWN) -> None:
        self.statistics = statistics
        self.nodes = Nodes()
        self.renaming = Renaming()
        self.estimates = Estimates(self.nodes, statistics, self.renaming)
        self._builder = Builder(
            self.nodes,
            self.estimates,
            self.renaming,
            shares_joins=self.shares_joins,
            restructures=self.restructures,
        )

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self.nodes.network()

    def needs_of(self, select: Select, logs: Sequence[LogId]) -> SelectNeeds:
        """What a select that `is_shareable` wants; `logs` names the log of each of its inputs."""
        return wanted(select, logs)

    def choice(self, needs: SelectNeeds, without: frozenset[int] = frozenset()) -> JoinChoice:
        """The search for the joins of a select, with some nodes taken not to be there."""
        request = JoinRequest(needs, self.estimates, self.renaming)
        return JoinChoice(request, self.nodes, self.estimates, shares_joins=self.shares_joins, without=without)

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected when it was made."""
        return self.estimates.rows(number)

    def rows_looked_at(self, number: int) -> int:
        """What a node costs: a selection looks at its parent's rows, a join at those of its parents and its own."""
        entry = self.nodes[number]
        return sum(map(self.rows, entry.parents)) + (self.rows(number) if entry.anchors is not None else 0)

    def register(self, place: str, select: Select, logs: Sequence[LogId]) -> None:
        """Gives a select its rows."""
        self.register_needs(place, self.needs_of(select, logs))

    def register_needs(self, place: str, needs: SelectNeeds) -> None:
        if place in self.nodes.found:
            raise ValueError(f"{place} is in the network already: deregister it first")
        choice = self.choice(needs)
        node, inputs = self._builder.build(choice.best(), choice.request)
        legs = tuple(inputs.index(number) for number in range(len(inputs)))
        columns = frozenset((legs[number], name) for number, name in needs.columns)
        self.nodes.settle(place, FoundRows(Result(node, legs), columns))
        self._builder.clear_up()

    def deregister(self, place: str) -> None:
        """Takes a select away, and all nodes that it alone needed."""
        logs = len(self.nodes.logs)
        staying = self.nodes.remove_unused(self.nodes.unsettle(place))
        tighten(self.nodes, self._builder, staying)
        if len(self.nodes.logs) < logs:
            self.renaming.forget()
