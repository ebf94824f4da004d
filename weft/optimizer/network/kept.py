"""The network of a project, kept in its catalog.

    network = KeptNetwork(catalog).network_of(selects)

Opening a project takes up the nodes as they were, with their numbers, however many queries there are. After that, only
what is new is registered, what is gone is deregistered, and what that changes is written down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.algebra import Select
from weft.catalog import Catalog
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.sharing import ALL_SHARING, Sharing
from weft.optimizer.network.statistics import NOTHING_KNOWN, Statistics
from weft.plan.network import Network


class KeptNetwork:
    """A planner whose nodes a catalog keeps. One that is open for reading is not changed."""

    def __init__(
        self, catalog: Catalog, sharing: Sharing = ALL_SHARING, statistics: Statistics = NOTHING_KNOWN
    ) -> None:
        self._catalog = catalog
        self.planner = Planner(sharing, statistics)
        self.planner.nodes.restore(catalog.computations())

    def network_of(self, selects: Mapping[str, tuple[Select, Sequence[str]]]) -> Network:
        """The network of all selects that there are now, by place, each with the logs of its inputs.

        New ones are registered in the order they are given in; a select never changes under its place.
        """
        for place in sorted(self.planner.nodes.found.keys() - selects.keys()):
            self.planner.deregister(place)
        for place, (select, logs) in selects.items():
            if place not in self.planner.nodes.found:
                self.planner.register(place, select, logs)
        changes = self.planner.nodes.take_changes()
        if self._catalog.writable:
            self._catalog.keep_computations(changes)
        return self.planner.network
