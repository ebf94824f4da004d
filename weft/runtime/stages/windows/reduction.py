"""Reduces rows to partials: one native Spark aggregation for a stream, whatever the number of queries.

    SELECT k0, …, g0, …, cell, latest, least, p0, … FROM rows GROUP BY k0, …, g0, …, cell

`cell` is the slice of time, cut by the edges of all windows of the stream and named by its start, which Spark computes
from the row's clock alone; it is NULL for rows without a usable clock. The text holds no date and no watermark, so that
Spark compiles it once and not in every cycle. g are the numbers of the signature; k the keys of all queries together,
the finest grouping; p the aggregates that measures are read from, each once.

Slices begin at least a second apart, say, which is a million microseconds, and signatures have a few dozen numbers. The
numbers then travel in the last digits of the slice: one column less to hash and compare for every row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm, prod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.algebra import Stream
from weft.optimizer.aggregates.stream_shapes import REDUCED_CLOCK
from weft.plan.nodes import ReduceNode
from weft.runtime.spark.rows import CORRUPT, clock_bounds, clock_sql
from weft.runtime.stages.windows.partials import LATEST, LEAST, SLICE, Layout
from weft.runtime.stages.windows.signatures import Signatures, signatures
from weft.windows.slicing import EdgeSet, ResidueClass, shared_edges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The most classes of edges that are compared one by one; more are looked up in a table, or joined in one finer class.
_FEW = 12
#: The longest table: one entry for each stretch between two multiples of the common divisor, for a whole period.
_TABLE = 7_200


def slice_sql(edges: EdgeSet, clock: str) -> str:
    """The start of the slice that a row with this clock is in, as Spark SQL."""
    starts = slice_starts(edges)
    if starts is None:
        # No window cuts time: everything is one slice.
        return "0L"
    period, (step, offset) = lcm(*(each.modulus for each in edges)), starts
    # Past the longest table: more slices than necessary, and still no window has an edge inside one of them.
    classes = [starts] if len(edges) > _FEW and period // step > _TABLE else sorted(edges)
    if len(classes) > _FEW:
        # A table says how long ago the last edge was, for each of the stretches of a period.
        instants = range(offset, period, step)
        table = ", ".join(f"{min((at - each.residue) % each.modulus for each in classes)}L" for at in instants)
        into = f"pmod({clock} - {offset}L, {period}L)"
        return f"({clock} - pmod({into}, {step}L) - array({table})[CAST({into} div {step}L AS INT)])"
    shifted = [(f"{clock} - {residue}L" if residue else clock, modulus) for modulus, residue in classes]
    since_last = [f"({clock} - pmod({each}, {modulus}L))" for each, modulus in shifted]
    return since_last[0] if len(since_last) == 1 else f"greatest({', '.join(since_last)})"


def slice_starts(edges: EdgeSet) -> ResidueClass | None:
    """The class of widest spacing that all slices begin in; None if no window cuts time."""
    if not edges:
        return None
    first = min(edges).residue
    step = gcd(*(number for each in edges for number in (each.modulus, each.residue - first)))
    return ResidueClass(step, first % step)


#: The column of stored rows' partials that has the watermark they were late by.
JUDGED = "judged"

#: The columns that the numbers of a row's signature are in while it is reduced.
SIGNATURE = "_signature"


@dataclass(frozen=True)
class Packing:
    """Signatures in the last digits of slices, which begin further apart than there are signatures."""

    starts: ResidueClass
    #: How many numbers each column of the signature may have, from -1 on.
    widths: tuple[int, ...]

    def packed(self, slice_start: str, numbers: Iterable[str]) -> str:
        """A slice and the numbers of a signature as one number, in Spark SQL."""
        digits = "0L"
        for number, width in zip(numbers, self.widths, strict=True):
            digits = f"{number} + 1L" if digits == "0L" else f"({digits}) * {width}L + {number} + 1L"
        return f"{slice_start} + {digits}"

    def unpacked(self, table: pa.Table) -> pa.Table:
        """The same table with a column for the slice, and one for each number of the signature."""
        column = table[SLICE]
        known = np.asarray(pc.fill_null(column, 0).to_numpy())
        digits = (known - self.starts.residue) % self.starts.modulus
        slices = pa.array(known - digits, mask=np.asarray(column.is_null()) if column.null_count else None)
        table = table.set_column(table.column_names.index(SLICE), SLICE, slices)
        for place in reversed(range(len(self.widths))):
            digits, number = np.divmod(digits, self.widths[place])
            table = table.append_column(f"g{place}", pa.array(number - 1))
        return table


def packing(edges: EdgeSet, signed: Signatures) -> Packing | None:
    """How signatures go into slices; None if there are none, or if there is no room for them."""
    starts = slice_starts(edges)
    has_room = starts is not None and prod(signed.widths) <= starts.modulus
    return Packing(starts, signed.widths) if starts is not None and signed.columns and has_room else None


@dataclass(frozen=True)
class Reduction:
    """How the rows of one stream are reduced for all queries that are woven over it."""

    layout: Layout
    clock: str
    slice_start: str
    #: The numbers of the signature, computed once for each row, and how they go into the slice, if they do.
    signature: tuple[str, ...]
    packing: Packing | None
    groups: tuple[str, ...]
    #: Whether partials have their smallest clock, which EMIT EMPTY counts from.
    tells_least: bool

    @property
    def grouping(self) -> dict[str, str]:
        """What rows are grouped by, by name, in the order that Spark gets.

        Keys come first, and the slice, which consecutive rows share, comes last: so Spark's hash of several columns
        distinguishes more groups, and rows are aggregated a sixth faster.
        """
        groups = [*zip(self.layout.group_names, self.groups, strict=True)]
        signed = self.layout.signature_columns
        signature = [] if self.packing else groups[:signed]
        return dict([*groups[signed:], *signature, (SLICE, self.slice_start)])

    @property
    def prepared(self) -> dict[str, str]:
        """What is computed of each row before rows are grouped, by name, so that it is computed once."""
        numbers = {f"{SIGNATURE}{number}": text for number, text in enumerate(self.signature)}
        return {REDUCED_CLOCK: self.clock, **numbers}

    @cached_property
    def _columns(self) -> tuple[list[Column], list[Column], list[Column]]:
        """What Spark computes of each row, groups by, and aggregates. It parses long texts slowly: once is enough."""
        from pyspark.sql import functions as F

        named = zip(self.layout.aggregate_names, self.layout.aggregates, strict=True)
        clocks = {LATEST: f"max({REDUCED_CLOCK})"} | ({LEAST: f"min({REDUCED_CLOCK})"} if self.tells_least else {})
        prepared, grouping, aggregates = (
            [F.expr(text).alias(name) for name, text in texts.items()]
            for texts in (self.prepared, self.grouping, clocks | dict(named))
        )
        return prepared, grouping, aggregates

    def of(self, rows: DataFrame, *, in_one_task: bool = False, judged: str | None = None) -> pa.Table:
        """The partials of some rows: the stream's columns by position, and the text of unreadable ones. One Spark job.

        In one task there is no shuffle, which for few rows costs more than all the rest. Partials of stored rows are
        separated by what they were `judged` by, too.
        """
        from pyspark.sql import functions as F

        prepared, grouping, aggregates = self._columns
        more = [] if judged is None else [F.expr(judged).alias(JUDGED)]
        grouped = (rows.coalesce(1) if in_one_task else rows).select("*", *prepared).groupBy(*more, *grouping)
        table = grouped.agg(*aggregates).toArrow()
        return self.packing.unpacked(table) if self.packing else table


def reduction(stream: Stream, node: ReduceNode) -> Reduction:
    """How a node of the plan is computed."""
    least, most = clock_bounds(stream)
    usable = f"{CORRUPT} IS NULL AND {REDUCED_CLOCK} BETWEEN {least}L AND {most}L"
    edges = shared_edges(node.windows)
    slice_start = slice_sql(edges, REDUCED_CLOCK)
    signed = signatures(condition for each in node.predicate_sets for condition in each)
    layout = Layout(node.keys, dict(signed.decoders), len(signed.columns), node.aggregates)
    numbers = tuple(f"{SIGNATURE}{number}" for number in range(len(signed.columns)))
    packs = packing(edges, signed)
    if packs is not None:
        slice_start = packs.packed(slice_start, numbers)
    wanted = signed.wanted(node.predicate_sets, numbers)
    # Rows that no query takes are counted together.
    grouped = node.keys if wanted is None else (f"CASE WHEN {wanted} THEN {key} END" for key in node.keys)
    return Reduction(
        layout,
        clock_sql(stream),
        f"CASE WHEN {usable} THEN {slice_start} END",
        signed.columns,
        packs,
        (*numbers, *grouped),
        node.tells_least,
    )
