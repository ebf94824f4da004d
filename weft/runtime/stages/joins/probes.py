"""New rows of one side of a join that look for rows of the other: by the hashes of their keys, or by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays.arrow_types import arrow_type
from weft.arrays.key_hashes import KeyHashes
from weft.arrays.ordinals import Mask, Positions
from weft.plan.log_ids import LogId
from weft.predicates.row_matching import RowMatches
from weft.runtime.columnar.rows import ARRIVAL
from weft.runtime.stages.joins.join_groups import Band
from weft.runtime.stages.joins.join_index import JoinIndex, Lookup, LookupKey, ordered
from weft.runtime.stages.joins.prepared import LATE, NODES, PARENT_NODES, PreparedGroup
from weft.runtime.stages.joins.row_checks import clock_of
from weft.runtime.stages.joins.spark_jobs import HASH, PROBED_CLOCK, ROW, band_clock, side_columns


def pairs_of(prepared: PreparedGroup, left: pa.Table, right: pa.Table) -> pa.Table:
    """Row i of the left side with row i of the right side, as rows of the join."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for side, rows in enumerate((left, right)):
        first = prepared.group.first_legs[side]
        for name, _ in side_columns(prepared, side):
            if name == NODES:
                columns[PARENT_NODES[side]] = rows[name]
            elif name not in (ARRIVAL, LATE):
                leg, _, rest = name.removeprefix("t").partition("_")
                columns[f"t{int(leg) + first}_{rest}"] = rows[name]
    columns[ARRIVAL] = pc.min_element_wise(left[ARRIVAL], right[ARRIVAL])
    columns[LATE] = pc.or_(left[LATE], right[LATE])
    return pa.table(columns)


def clocks_of(table: pa.Table, legs: int) -> Positions:
    """The clock of each row: the largest of its legs'."""
    return np.asarray(np.maximum.reduce([np.asarray(table[clock_of(leg)]) for leg in range(legs)]))


def buckets_met(clocks: Positions, band: Band, side: int) -> tuple[Positions, Positions]:
    """For rows of a side, which of them look into which buckets of the other side's clocks: one or two each."""
    low, high = (band.low, band.high) if side == 0 else (-band.high, -band.low)
    first, last = (clocks + low) // band.width, (clocks + high) // band.width
    rows = np.arange(len(clocks))
    two = np.flatnonzero(first != last)
    return np.concatenate([rows, two]), np.concatenate([first, last[two]])


#: Spreads numbers of joins over numbers of keys: odd, and nothing up its sleeve (2⁶³ divided by the golden ratio).
_SALT = 5_700_357_409_661_599_241
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class NewRows:
    """The new rows of a group in this cycle, and which nodes they are in."""

    table: pa.Table
    membership: RowMatches
    #: Which rows are the sample of all rows of a log, needed or not; None for all of them.
    sample: Mask | None = None

    @cached_property
    def keys(self) -> KeyHashes:
        return KeyHashes(self.table)


@dataclass(frozen=True)
class JoinProbe:
    """Rows of one side, as positions in the table of its new rows, and the numbers that they look for."""

    prepared: PreparedGroup
    side: int
    table: pa.Table
    rows: Positions
    numbers: Positions

    @property
    def other(self) -> PreparedGroup:
        """The side that it looks into."""
        return self.prepared.sides[1 - self.side]

    @property
    def clocks(self) -> Positions:
        """The clock of each row that tells how far the rows are that it can meet."""
        return self.clocks_of(self.rows)

    def clocks_of(self, rows: Positions) -> Positions:
        return np.asarray(self.table[band_clock(self.prepared, self.side)])[rows]

    def taken(self, rows: Positions) -> pa.Table:
        """New rows with the columns that the join needs."""
        names = [name for name, _ in side_columns(self.prepared, self.side)]
        return self.table.select(names).take(pa.array(rows))

    def met(self, rows: Positions, kept: pa.Table) -> pa.Table:
        """New rows, and beside each of them a kept row of the other side, as rows of the join."""
        new = self.taken(rows)
        return pairs_of(self.prepared, new, kept) if self.side == 0 else pairs_of(self.prepared, kept, new)


def probes_of(prepared: PreparedGroup, fresh: Mapping[LogId, NewRows]) -> list[JoinProbe]:
    """The new rows of either side that are in a node which the join reads."""
    found = []
    for number, side in enumerate(prepared.sides):
        new = fresh.get(side.group.name)
        if new is not None:
            wanted = new.membership.in_any(prepared.group.parents(number))
            if prepared.is_timely:
                wanted &= ~np.asarray(new.table[LATE])
            probe = _probe(prepared, number, new, wanted)
            if len(probe.rows):
                found.append(probe)
    return found


def _probe(prepared: PreparedGroup, side: int, new: NewRows, wanted: Mask) -> JoinProbe:
    table = new.table
    if prepared.key_columns:
        columns = prepared.key_columns[side]
        if prepared.on_executors:
            # Spark has computed the numbers, since it computes those of the rows that are looked for.
            numbers, present = (
                np.asarray(each) for each in (table[columns[0]].fill_null(0), table[columns[0]].is_valid())
            )
        else:
            numbers, present = new.keys.of(columns)
        rows = np.flatnonzero(wanted & present)
        return JoinProbe(prepared, side, table, rows, numbers[rows])
    rows = np.flatnonzero(wanted)
    if prepared.band is None or not prepared.on_executors:
        return JoinProbe(prepared, side, table, rows, np.zeros(len(rows), dtype=np.int64))
    clocks = np.asarray(table[band_clock(prepared, side)])[rows]
    which, buckets = buckets_met(clocks, prepared.band, side)
    return JoinProbe(prepared, side, table, rows[which], buckets)


def both_new(left: JoinProbe, right: JoinProbe) -> pa.Table:
    """New rows of both sides that may meet."""
    left_rows, right_rows, numbers = left.rows, right.rows, (left.numbers, right.numbers)
    if not left.prepared.key_columns:
        # Executors have them look into buckets of time, some rows into two.
        left_rows, right_rows = np.unique(left.rows), np.unique(right.rows)
        numbers = np.zeros(len(left_rows), dtype=np.int64), np.zeros(len(right_rows), dtype=np.int64)
    order, known = ordered(numbers[1], right.clocks_of(right_rows))
    first, second = known.matches(numbers[0], left.clocks_of(left_rows), *_bounds(left.prepared, 1))
    return pairs_of(left.prepared, left.taken(left_rows[first]), right.taken(right_rows[order[second]]))


def with_held(probe: JoinProbe, held: JoinIndex) -> Iterator[pa.Table]:
    """New rows of a side with the rows of the other that the driver holds."""
    prepared, other = probe.prepared, 1 - probe.side
    columns = [(name, arrow_type(type_)) for name, type_ in side_columns(prepared, other)]
    looked_for = Lookup(probe.numbers, probe.clocks, *_bounds(prepared, other))
    for asked, kept in held.found(looked_for, lookup_key_of(prepared, other), columns):
        yield probe.met(probe.rows[asked], kept)


def _bounds(prepared: PreparedGroup, side: int) -> tuple[int | None, int | None]:
    """How much the clock of a row of a side can be ahead of that of a row of the other: at least, and at most."""
    band = prepared.band
    if band is None:
        return None, None
    return (band.low, band.high) if side == 1 else (-band.high, -band.low)


def lookup_key_of(prepared: PreparedGroup, side: int) -> LookupKey:
    """What the rows of a side are looked up by: the numbers of their keys, if there are any, and by time."""
    clock = band_clock(prepared, side)
    if not prepared.key_columns:
        return LookupKey(clock, lambda table, _: (np.zeros(table.num_rows, dtype=np.int64), _all(table)), clock)
    columns = prepared.key_columns[side]
    name = " ".join((*columns, clock))
    return LookupKey(name, lambda table, keys: _keys_if_known(table, keys, columns), clock)


def _all(table: pa.Table) -> Mask:
    return np.ones(table.num_rows, dtype=bool)


def _keys_if_known(table: pa.Table, keys: KeyHashes, columns: Sequence[str]) -> tuple[Positions, Mask]:
    """Rows from before these keys were needed have none: the queries that look for keys are younger."""
    if all(name in table.column_names for name in columns):
        return keys.of(columns)
    return np.zeros(table.num_rows, dtype=np.int64), ~_all(table)


def salt(number: int) -> int:
    """What the numbers of the keys of one join are mixed with, so that others do not find them."""
    return (_SALT * number) & _LARGEST


def probe_table(probes: Mapping[int, JoinProbe]) -> pa.Table:
    """All probes in one table, whatever their joins: the number of the keys with the join's salt, row and clock."""
    columns = [
        np.concatenate([probe.numbers ^ salt(number) for number, probe in probes.items()]),
        np.concatenate([probe.rows for probe in probes.values()]),
        np.concatenate([probe.clocks for probe in probes.values()]),
    ]
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in (HASH, ROW, PROBED_CLOCK)])
    return pa.table([pa.array(each) for each in columns], schema=schema)
