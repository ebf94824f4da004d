"""What is known of queries that are explained, beside themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.algebra import Query
from weft.catalog import Catalog
from weft.engine.commits import Commit
from weft.engine.status import kept_apart, last_commit
from weft.optimizer.network import NOTHING_KNOWN, Statistics, Supposed


@dataclass(frozen=True)
class Project:
    """What is known of the queries that are explained, beside themselves: if they are those of a project.

    `apart` has the reasons of queries that share nothing although they could; `measured` is what was counted.
    """

    numbers: Mapping[str, int]
    catalog: Catalog | None = None
    apart: Mapping[str, str] | None = None
    measured: Statistics = NOTHING_KNOWN

    @classmethod
    def of(cls, catalog: Catalog) -> Project:
        """A project as it was last committed."""
        commit = last_commit(catalog.path.parent)
        counted = NOTHING_KNOWN if commit is None else Supposed(_kept_rows(commit))
        apart = kept_apart(catalog, lambda state: state.networked)
        return cls(catalog.query_numbers(), catalog, apart, counted)

    @classmethod
    def of_file(cls, queries: Sequence[Query]) -> Project:
        """Queries that nobody has registered, numbered as they come."""
        return cls({each.name: number for number, each in enumerate(queries, start=1)})


def _kept_rows(commit: Commit) -> dict[str, int]:
    """How many rows of each log are kept."""
    return {log: sum(each.rows for each in segments) for log, segments in commit.logs.items()}
