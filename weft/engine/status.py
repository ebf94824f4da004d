"""How far a project has come, as any process can see it: from its files, without Spark and without the lock."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from weft.catalog import Catalog, CatalogLocked
from weft.engine.commits import Commit, decode


@dataclass(frozen=True)
class Status:
    """The newest commit of a project, and who is writing to it, if anybody is."""

    commit: Commit | None
    writer: str | None


def status(directory: Path) -> Status:
    """The status of the project in `directory`."""
    return Status(last_commit(directory), _writer(directory))


def last_commit(directory: Path) -> Commit | None:
    """The newest commit of the project in `directory`."""
    commits = sorted(each for each in (directory / "state" / "commits").glob("*.json") if each.stem.isdigit())
    return decode(json.loads(commits[-1].read_text())) if commits else None


def _writer(directory: Path) -> str | None:
    """Who holds the project open for writing, found out by trying."""
    try:
        Catalog.open(directory).close()
    except CatalogLocked as locked:
        return locked.holder
    return None
