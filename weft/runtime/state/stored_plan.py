"""Keeps the shared plan in the catalog, so that the next process goes on with it.

It saves time and nothing else: a plan that another weft has written, or that cannot be read, is made again; one that
cannot be written is written with the next change.
"""

from __future__ import annotations

import logging
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

from weft.algebra import Stream, Table
from weft.catalog import Catalog, CatalogError
from weft.optimizer.network.nodes import require_sound
from weft.optimizer.optimizer import EMPTY
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import restored
from weft.plan.shared_plan import SharedPlan, diff

_log = logging.getLogger("weft")


class StoredPlan:
    """The shared plan in a catalog. One that is open for reading is not changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._stored = EMPTY
        #: Whether what is in the catalog is of no use, and has to go when something is written.
        self._is_anew = False
        self.digest = ""

    def load(self) -> SharedPlan:
        """The plan as it was kept, or an empty one."""
        catalog, first = self._catalog, 1
        try:
            with catalog.transaction():
                made_by, first = catalog.plan_nodes.made_by, catalog.plan_nodes.next_number
                if made_by == _code():
                    sources: dict[str, Stream | Table] = {each.name: each for each in catalog.streams()}
                    sources |= {each.name: each for each in catalog.tables()}
                    plan = catalog.plan_nodes.load(sources)
                    require_sound(restored(plan, Facts()).planner.nodes)
                    self._stored, self.digest = plan, catalog.plan_nodes.digest
                    return plan
            if made_by:
                _log.warning("the shared plan in %s is another weft's: it is made again", catalog.path)
        except Exception:
            # Whatever is wrong with it, it can be done without.
            _log.warning("the shared plan in %s is damaged: it is made again", catalog.path, exc_info=True)
        self._is_anew = True
        return SharedPlan(next_number=first)

    def keep(self, plan: SharedPlan) -> None:
        """Write down what has changed, if the catalog can be written to."""
        catalog, change = self._catalog, diff(self._stored, plan)
        if not catalog.writable or not (change.made or change.dropped or change.changed or self._is_anew):
            return
        made = [plan.nodes[id_] for id_ in (*change.made, *change.changed)]
        try:
            with catalog.transaction():
                if self._is_anew:
                    catalog.plan_nodes.clear(plan.next_number)
                self.digest = catalog.plan_nodes.save(made, change.dropped, plan.next_number, _code())
        except CatalogError:
            _log.warning("the shared plan could not be written to %s", catalog.path, exc_info=True)
            return
        self._is_anew, self._stored = False, plan


@cache
def _code() -> str:
    """What tells this weft from any other: the digest of its source. Each may write conditions in its own way."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(str(files("weft"))).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
