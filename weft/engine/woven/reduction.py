"""From rows to partials: one native Spark aggregation for a stream.

    SELECT k0, …, g0, …, cell, rows, latest, least, p0, … FROM rows GROUP BY k0, …, g0, …, cell

`cell` is the fragment of time, NULL for rows whose clock is of no use; g are the numbers of the signature; k the
keys of all queries together, the finest grouping; p the aggregates that measures are read from, each once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.algebra import Stream
from weft.engine.rows import CORRUPT, clock_bounds, clock_sql
from weft.engine.woven.cells import cell_sql, edges_of
from weft.engine.woven.measures import REDUCED_CLOCK, texts_of
from weft.engine.woven.partials import CELL, LATEST, LEAST, ROWS, Layout
from weft.engine.woven.shape import Woven
from weft.engine.woven.signatures import signatures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


#: The column of kept rows' partials that says what they were judged by.
JUDGED = "judged"

#: The columns that the numbers of a row's signature are in while it is reduced.
SIGNATURE = "_signature"


@dataclass(frozen=True)
class Reduction:
    """How the rows of one stream are reduced for all queries that are woven over it."""

    layout: Layout
    clock: str
    cell: str
    #: The numbers of the signature, computed once for each row.
    signature: tuple[str, ...]
    groups: tuple[str, ...]
    #: Whether the smallest clock of each partial is asked for, which EMIT EMPTY counts from.
    tells_least: bool

    @property
    def grouping(self) -> dict[str, str]:
        """What rows are grouped by, by name, in the order in which Spark is told.

        Keys come first and the cell, which rows that follow each other share, comes last: Spark's hash of several
        columns tells more groups apart so, and rows are aggregated a sixth faster.
        """
        groups = [*zip(self.layout.group_names, self.groups, strict=True)]
        signed = self.layout.signature_columns
        return dict([*groups[signed:], *groups[:signed], (CELL, self.cell)])

    @cached_property
    def _grouping(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.expr(text).alias(name) for name, text in self.grouping.items()]

    @cached_property
    def _aggregates(self) -> list[Column]:
        from pyspark.sql import functions as F

        named = zip(self.layout.aggregates, self.layout.aggregate_names, strict=True)
        counted = F.count(F.lit(1)).alias(ROWS)
        clocks = [F.max(REDUCED_CLOCK).alias(LATEST)]
        if self.tells_least:
            clocks.append(F.min(REDUCED_CLOCK).alias(LEAST))
        return [counted, *clocks, *(F.expr(text).alias(name) for text, name in named)]

    @property
    def prepared(self) -> dict[str, str]:
        """What is computed of each row before rows are grouped, by name, so that it is computed once."""
        numbers = {f"{SIGNATURE}{number}": text for number, text in enumerate(self.signature)}
        return {REDUCED_CLOCK: self.clock, **numbers}

    @cached_property
    def _prepared(self) -> list[Column]:
        # Texts with thousands of bounds take Spark a while to read: once will do.
        from pyspark.sql import functions as F

        return [F.expr(text).alias(name) for name, text in self.prepared.items()]

    def of(self, rows: DataFrame, *, in_one_task: bool = False) -> pa.Table:
        """The partials of some rows: the stream's columns by position, and what could not be read. One Spark job.

        In one task there is no shuffle, which for few rows costs more than all the rest.
        """
        taken = rows.coalesce(1) if in_one_task else rows
        return taken.select("*", *self._prepared).groupBy(*self._grouping).agg(*self._aggregates).toArrow()

    def of_kept(self, rows: DataFrame, judged: str) -> pa.Table:
        """The same of rows that were kept, told apart by an expression as well. One Spark job."""
        from pyspark.sql import functions as F

        prepared = rows.select("*", *self._prepared)
        return prepared.groupBy(F.expr(judged).alias(JUDGED), *self._grouping).agg(*self._aggregates).toArrow()


def reduction(stream: Stream, queries: Iterable[Woven]) -> Reduction:
    """The reduction that serves some queries."""
    shapes = list(queries)
    least, most = clock_bounds(stream)
    usable = f"{CORRUPT} IS NULL AND {REDUCED_CLOCK} BETWEEN {least}L AND {most}L"
    cell = cell_sql(edges_of(each.window for each in shapes if not each.is_running), REDUCED_CLOCK)
    signed = signatures(condition for each in shapes for condition in each.conditions)
    keys = tuple(dict.fromkeys(key for each in shapes for key in each.keys))
    aggregates = texts_of(measure for each in shapes for measure in each.all_measures)
    layout = Layout(keys, dict(signed.decoders), len(signed.columns), aggregates)
    grouped = keys
    numbers = tuple(f"{SIGNATURE}{number}" for number in range(len(signed.columns)))
    wanted = signed.wanted((each.conditions for each in shapes), numbers)
    if wanted is not None:
        # Rows that no query takes are counted, and not told apart.
        grouped = tuple(f"CASE WHEN {wanted} THEN {key} END" for key in keys)
    return Reduction(
        layout,
        clock_sql(stream),
        f"CASE WHEN {usable} THEN {cell} END",
        signed.columns,
        (*numbers, *grouped),
        any(each.select.emit_empty for each in shapes),
    )
