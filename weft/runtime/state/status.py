"""How far a project has come, as any process can see it: from its files, without Spark and without the lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from weft.catalog import Catalog
from weft.runtime.state.commits import Commit, QueryState, read_commit


def last_commit(directory: Path) -> Commit | None:
    """The newest commit of the project in `directory`; StorageError if its record is damaged."""
    while True:
        commits = sorted(each for each in (directory / "state" / "commits").glob("*.json") if each.stem.isdigit())
        try:
            return read_commit(commits[-1].read_bytes(), str(commits[-1])) if commits else None
        except FileNotFoundError:
            # A running engine has committed twenty cycles since the folder was listed, and deleted this record.
            continue


def kept_apart(catalog: Catalog, shares: Callable[[QueryState], bool]) -> dict[str, str]:
    """The queries of a project that sharing was off for when they began, or would be if they began now, and why.

    `shares` says whether a query has shared since it began.
    """
    commit = last_commit(catalog.path.parent)
    begun = {} if commit is None else commit.queries
    off = not catalog.settings().sharing
    reasons = {}
    for name, number in catalog.query_numbers().items():
        state = begun.get(name)
        if state is None or state.number != number:
            if off:
                reasons[name] = "sharing is off"
        elif not shares(state):
            reasons[name] = "sharing was off when it began"
    return reasons
