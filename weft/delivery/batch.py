"""What a user gets: batches of answers, and notices of what could not be kept for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Batch:
    """A query's answers of one cycle, all of them. `cycle` is their place: `subscribe(…, after=cycle)` goes on there.

    `at` is when they were published, in microseconds; answers below the `watermark` are complete.
    """

    query: str
    cycle: int
    at: int
    watermark: int | None
    table: pa.Table

    def rows(self) -> list[dict[str, Any]]:
        """The answers as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def newest(self, count: int) -> Batch:
        """The batch with at most so many of its answers, the last ones."""
        return replace(self, table=self.table.slice(max(0, self.table.num_rows - count)))


@dataclass(frozen=True, slots=True)
class Dropped:
    """A notice: answers of cycles after `after` up to `until` were let go before the user took them.

    It comes where the answers would have. The log keeps a limited number of rows, whoever has not read them. `rows` is
    how many answers these were; None if nobody counted them, since the user was away when they were published.
    """

    query: str
    after: int | None
    until: int
    rows: int | None = None
