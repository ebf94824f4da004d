"""The network of a project, kept in its catalog.

    network = StoredNetwork(catalog).network_of(selects)

Opening a project takes up the nodes as they were, with their numbers, however many queries there are. After that, only
what is new is registered, what is gone is deregistered, and what that changes is written down, all or nothing.

What is kept saves time and nothing else: no answer depends on it. An index that another weft has written, or that
cannot be read, is planned anew; one that cannot be written is written with the next change. Both are noted in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path

from weft.algebra import Select
from weft.catalog import Catalog, CatalogError
from weft.optimizer.network.estimates import NOTHING_KNOWN, SizeStatistics
from weft.optimizer.network.nodes import require_sound
from weft.optimizer.network.planner import Planner
from weft.plan.log_ids import LogId
from weft.plan.network import Network

_log = logging.getLogger("weft")


class StoredNetwork:
    """A planner whose nodes a catalog keeps, if there is one. One that is open for reading is not changed."""

    def __init__(self, catalog: Catalog | None, statistics: SizeStatistics = NOTHING_KNOWN) -> None:
        self._catalog = catalog
        self._made_by = blake2b(_code().encode(), digest_size=16).hexdigest()
        self.planner = Planner(statistics)
        #: Whether what is in the catalog is of no use, and has to go when something is written.
        self._is_anew = False
        self._is_tidy = False
        if catalog is not None:
            self._take_up(catalog)

    def network_of(self, selects: Mapping[str, tuple[Select, Sequence[LogId]]]) -> Network:
        """The network of all selects that there are now, by place, each with the logs of its inputs; it is kept."""
        network = self.planned(selects)
        self.keep()
        return network

    def planned(self, selects: Mapping[str, tuple[Select, Sequence[LogId]]]) -> Network:
        """The same without state it.

        New selects are registered in the order they are given in; a select never changes under its place.
        """
        # Those that are gone go first: a stream may have been created again with other columns.
        for place in sorted(self.planner.nodes.found.keys() - selects.keys()):
            self.planner.deregister(place)
        for place, (select, logs) in selects.items():
            if place not in self.planner.nodes.found:
                self.planner.register(place, select, logs)
        return self.planner.network

    def keep(self) -> None:
        """Write down what has changed, if there is a catalog that can be written to."""
        if self._catalog is not None and self._catalog.writable:
            self._keep(self._catalog)

    def _take_up(self, catalog: Catalog) -> None:
        first = 1
        try:
            with catalog.transaction():
                made_by, first = catalog.computations.made_by, catalog.computations.next_number
                if made_by == self._made_by:
                    self.planner.nodes.restore(catalog.computations.kept())
                    require_sound(self.planner.nodes)
                    return
            if made_by:
                _log.warning("the shared network in %s is another weft's: it is planned anew", catalog.path)
        except Exception:
            # Whatever is wrong with it, it can be done without.
            _log.warning("the shared network in %s is damaged: it is planned anew", catalog.path, exc_info=True)
        self._is_anew = True
        self.planner = Planner(self.planner.statistics)
        self.planner.nodes.next_number = first

    def _keep(self, catalog: Catalog) -> None:
        changes = self.planner.nodes.changes()
        if not (changes.computations or changes.removed or changes.found or changes.lost):
            return
        try:
            with catalog.transaction():
                if self._is_anew:
                    catalog.computations.forget()
                catalog.computations.keep(changes, self._made_by)
                if not self._is_tidy:
                    catalog.computations.forget_conditions()
        except CatalogError:
            _log.warning("the shared network could not be written to %s", catalog.path, exc_info=True)
            return
        self._is_anew, self._is_tidy = False, True
        self.planner.nodes.changes_are_kept()


@cache
def _code() -> str:
    """What tells this weft from any other: the digest of its source. Each may write conditions in its own way."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
