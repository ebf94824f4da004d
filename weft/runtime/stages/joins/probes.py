"""New rows of one side of a join that look for rows of the other: by the numbers of their keys, or by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from weft.arrays.arrow_types import arrow_type
from weft.arrays.key_hashes import KeyHashes
from weft.arrays.ordinals import Mask, Positions
from weft.plan.log_ids import LogId
from weft.predicates.row_matching import RowMatches
from weft.runtime.stages.joins.held import Asked, Held, Numbering
from weft.runtime.stages.joins.pairs import buckets_met, ordered, pairs_of, taken, whole_numbers
from weft.runtime.stages.joins.prepared import LATE, Prepared
from weft.runtime.stages.joins.texts import HASH, PROBED_CLOCK, ROW, band_clock, side_columns

#: Spreads numbers of joins over numbers of keys: odd, and nothing up its sleeve (2⁶³ divided by the golden ratio).
_SALT = 5_700_357_409_661_599_241
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Fresh:
    """The new rows of a family in this cycle, and which nodes they are in."""

    table: pa.Table
    membership: RowMatches
    #: Rows that stand for all rows of a log, whether somebody wants them or not; None for all of them.
    sample: Mask | None = None

    @cached_property
    def keys(self) -> KeyHashes:
        return KeyHashes(self.table)


@dataclass(frozen=True)
class Probe:
    """Rows of one side, as positions in the table of its new rows, and the numbers that they look for."""

    prepared: Prepared
    side: int
    table: pa.Table
    rows: Positions
    numbers: Positions

    @property
    def other(self) -> Prepared:
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
        return taken(self.table, rows, [name for name, _ in side_columns(self.prepared, self.side)])

    def met(self, rows: Positions, kept: pa.Table) -> pa.Table:
        """New rows, and beside each of them a kept row of the other side, as rows of the join."""
        new = self.taken(rows)
        return pairs_of(self.prepared, new, kept) if self.side == 0 else pairs_of(self.prepared, kept, new)


def probes_of(prepared: Prepared, fresh: Mapping[LogId, Fresh]) -> list[Probe]:
    """The new rows of either side that are in a node which the join reads."""
    found = []
    for number, side in enumerate(prepared.sides):
        new = fresh.get(side.family.name)
        if new is not None:
            wanted = new.membership.in_any(prepared.family.parents(number))
            if prepared.is_timely:
                wanted &= ~np.asarray(new.table[LATE])
            probe = _probe(prepared, number, new, wanted)
            if len(probe.rows):
                found.append(probe)
    return found


def _probe(prepared: Prepared, side: int, new: Fresh, wanted: Mask) -> Probe:
    table = new.table
    if prepared.key_columns:
        columns = prepared.key_columns[side]
        # On executors Spark has computed the numbers, since it computes those of the rows that are looked for.
        there = prepared.on_executors
        numbers, present = whole_numbers(table[columns[0]]) if there else new.keys.of(columns)
        rows = np.flatnonzero(wanted & present)
        return Probe(prepared, side, table, rows, numbers[rows])
    rows = np.flatnonzero(wanted)
    if prepared.band is None or not prepared.on_executors:
        return Probe(prepared, side, table, rows, np.zeros(len(rows), dtype=np.int64))
    clocks = np.asarray(table[band_clock(prepared, side)])[rows]
    which, buckets = buckets_met(clocks, prepared.band, side)
    return Probe(prepared, side, table, rows[which], buckets)


def both_new(left: Probe, right: Probe) -> pa.Table:
    """New rows of both sides that may meet."""
    left_rows, right_rows, numbers = left.rows, right.rows, (left.numbers, right.numbers)
    if not left.prepared.key_columns:
        # Executors have them look into buckets of time, some rows into two.
        left_rows, right_rows = np.unique(left.rows), np.unique(right.rows)
        numbers = np.zeros(len(left_rows), dtype=np.int64), np.zeros(len(right_rows), dtype=np.int64)
    order, known = ordered(numbers[1], right.clocks_of(right_rows))
    first, second = known.matches(numbers[0], left.clocks_of(left_rows), *_bounds(left.prepared, 1))
    return pairs_of(left.prepared, left.taken(left_rows[first]), right.taken(right_rows[order[second]]))


def with_held(probe: Probe, held: Held) -> Iterator[pa.Table]:
    """New rows of a side with the rows of the other that the driver holds."""
    prepared, other = probe.prepared, 1 - probe.side
    columns = [(name, arrow_type(type_)) for name, type_ in side_columns(prepared, other)]
    looked_for = Asked(probe.numbers, probe.clocks, *_bounds(prepared, other))
    for asked, kept in held.found(looked_for, numbering_of(prepared, other), columns):
        yield probe.met(probe.rows[asked], kept)


def _bounds(prepared: Prepared, side: int) -> tuple[int | None, int | None]:
    """How much the clock of a row of a side can be ahead of that of a row of the other: at least, and at most."""
    band = prepared.band
    if band is None:
        return None, None
    return (band.low, band.high) if side == 1 else (-band.high, -band.low)


def numbering_of(prepared: Prepared, side: int) -> Numbering:
    """What the rows of a side are looked up by: the numbers of their keys, if there are any, and by time."""
    clock = band_clock(prepared, side)
    if not prepared.key_columns:
        return Numbering(clock, lambda table, _: (np.zeros(table.num_rows, dtype=np.int64), _all(table)), clock)
    columns = prepared.key_columns[side]
    name = " ".join((*columns, clock))
    return Numbering(name, lambda table, keys: _keys_if_known(table, keys, columns), clock)


def _all(table: pa.Table) -> Mask:
    return np.ones(table.num_rows, dtype=bool)


def _keys_if_known(table: pa.Table, keys: KeyHashes, columns: Sequence[str]) -> tuple[Positions, Mask]:
    """Rows from before somebody asked for these keys have none: whoever looks for keys is younger than they are."""
    if all(name in table.column_names for name in columns):
        return keys.of(columns)
    return np.zeros(table.num_rows, dtype=np.int64), ~_all(table)


def salt(number: int) -> int:
    """What the numbers of the keys of one join are mixed with, so that others do not find them."""
    return (_SALT * number) & _LARGEST


def probe_table(probes: Mapping[int, Probe]) -> pa.Table:
    """All probes in one table, whatever their joins: the number of the keys with the join's salt, row and clock."""
    columns = [
        np.concatenate([probe.numbers ^ salt(number) for number, probe in probes.items()]),
        np.concatenate([probe.rows for probe in probes.values()]),
        np.concatenate([probe.clocks for probe in probes.values()]),
    ]
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in (HASH, ROW, PROBED_CLOCK)])
    return pa.table([pa.array(each) for each in columns], schema=schema)
