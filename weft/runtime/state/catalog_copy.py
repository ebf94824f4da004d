"""The catalog beside the state: a copy of it is kept in the state, and one that is older than the state is refused."""

from __future__ import annotations

from weft.catalog import COPY_FILE, Catalog
from weft.runtime.failures.errors import EngineError, StorageError
from weft.runtime.state.commits import Commit, Intent
from weft.runtime.state.storage import Storage


class CatalogCopy:
    """Keeps a copy of the catalog in the state: see `weft/catalog/database.py`."""

    def __init__(self, catalog: Catalog, storage: Storage) -> None:
        self._catalog = catalog
        self._storage = storage
        self._copied: int | None = None
        self._digest: tuple[int, str | None] = (0, None)

    def digest(self, plan: int) -> str | None:
        """Return what tells the plan under a number from any other."""
        if self._digest[0] != plan:
            self._digest = plan, self._catalog.plan_digest(plan)
        return self._digest[1]

    def keep(self) -> None:
        """Write the copy, unless the catalog is as it was when it was written last."""
        changes = self._catalog.changes
        if changes != self._copied:
            self._storage.write_bytes(COPY_FILE, self._catalog.copied())
            self._copied = changes


def check_catalog(catalog: Catalog, last: Commit, intent: Intent | None) -> None:
    """Raise EngineError unless the catalog has the plans of the last commit and of the cycle that was begun after it.

    `intent` is what was written down of that cycle, if there was one.
    """
    plans: list[tuple[int, int, str | None]] = [(last.cycle, last.plan, last.plan_digest)] if last.cycle >= 0 else []
    if intent is not None:
        plans.append((last.cycle + 1, intent.plan, intent.plan_digest))
    for cycle, number, digest in plans:
        if catalog.plan_digest(number) != digest:
            raise EngineError(
                f"{catalog.path} is an older copy, or that of another run: cycle {cycle} had plan {number}, which it "
                f"does not have; bring the newer one back, or the copy that the state keeps, with: "
                f"weft init {catalog.path.parent} --recover"
            )
    _check_is_newest(catalog, last)


def _check_is_newest(catalog: Catalog, last: Commit) -> None:
    """Raise StorageError if the catalog knows of later cycles than the state.

    A state that was removed begins afresh, and the catalog forgets what earlier cycles measured.
    """
    newest = max((each.cycle for each in catalog.latest_statistics().values()), default=-1)
    if last.cycle < 0 <= newest:
        catalog.record_statistics(last.cycle, {}, keep=1)
    elif last.cycle < newest:
        raise StorageError(
            f"{catalog.path} knows of cycle {newest}, the state is at {last.cycle}: commits are missing, or an older "
            "copy of the state was put back; restore the whole project directory from one copy, or remove its state "
            "directory to begin afresh"
        )
