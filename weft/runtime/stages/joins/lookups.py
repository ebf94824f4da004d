"""New rows of one side of a join that look for rows of the other, by the hashes of their keys or by time; and the rows
that the driver holds for them, where a look-up costs what is new and not what is kept.

What is held is a copy of what is in the logs, for as long as there is room: whatever is lost is read again. It is held
in chunks, each sorted by the keys that it has been asked for:

    300,000 │ 40,000 │ 12,000 │ 4,000 rows        each at least twice as long as the next
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays.arrow_types import arrow_type
from weft.arrays.ordinals import Mask, Numbers, Positions, positions_in_ranges
from weft.arrays.row_keys import KeyHashes
from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.predicates.row_matching import RowMatches
from weft.runtime.spark.rows import ARRIVAL
from weft.runtime.stages.joins.join_groups import LATE, NODES, PARENT_NODES, JoinGroup
from weft.runtime.stages.joins.row_checks import clock_of
from weft.runtime.stages.joins.spark_jobs import HASH, PROBED_CLOCK, ROW, side_columns

Pairs: TypeAlias = tuple[Positions, Positions]


@dataclass(frozen=True)
class Lookup:
    """Numbers that are looked for, a clock for each of them, and how far from it those of the rows may be."""

    numbers: Numbers
    clocks: Positions
    low: int | None
    high: int | None


@dataclass(frozen=True)
class OrderedNumbers:
    """Numbers of rows in ascending order, and for each of them a clock: in ascending order too among equal numbers."""

    numbers: Positions
    clocks: Positions
    rows: Positions

    @classmethod
    def of(cls, numbers: Positions, clocks: Positions, rows: Positions) -> OrderedNumbers:
        """Put the numbers and clocks of some rows in order."""
        order = np.lexsort((clocks, numbers))
        return cls(numbers[order], clocks[order], rows[order])

    def matches(self, asked: Lookup) -> Pairs:
        """The positions of numbers, and rows with these whose clock, less the one asked with, is from `low` to `high`.

        >>> ordered = OrderedNumbers.of(np.array([9, 7, 7, 7]), np.array([4, 8, 4, 1]), np.arange(4))
        >>> asked, found = ordered.matches(Lookup(np.array([9, 7]), np.array([4, 5]), -1, 3))
        >>> list(zip(asked.tolist(), found.tolist()))
        [(0, 0), (1, 2), (1, 1)]
        """
        begin, end = self.stretches(asked)
        lengths = end - begin
        return np.repeat(np.arange(len(asked.numbers)), lengths), self.rows[positions_in_ranges(begin, lengths)]

    def stretches(self, asked: Lookup) -> Pairs:
        """For each of some numbers the first position that matches, and the one after the last."""
        begin, end = (np.searchsorted(self.numbers, asked.numbers, side) for side in ("left", "right"))
        if asked.low is not None:
            begin = self._first_from(asked.clocks + asked.low, begin, end)
        if asked.high is not None:
            end = self._first_from(asked.clocks + (asked.high + 1), begin, end)
        return begin, end

    def _first_from(self, clocks: Positions, begin: Positions, end: Positions) -> Positions:
        """In each of some stretches, the first place whose clock is not below another, by binary search."""
        low, high = begin.copy(), end.copy()
        while (is_open := low < high).any():
            middle = (low + high) // 2
            below = is_open & (self.clocks[np.where(is_open, middle, 0)] < clocks)
            low = np.where(below, middle + 1, low)
            high = np.where(is_open & ~below, middle, high)
        return low


@dataclass(frozen=True)
class LookupKey:
    """What rows are looked up by: the hashes of some columns, and a clock among rows with equal hashes."""

    columns: tuple[str, ...]
    clock: str


#: Rows that are of no more use leave a chunk when they are more than this share of it.
_WORTH_LEAVING = 0.25


@dataclass
class _IndexedRows:
    table: pa.Table
    clocks: Positions
    #: By what was asked for.
    sorted: dict[LookupKey, OrderedNumbers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clocks)

    @cached_property
    def keys(self) -> KeyHashes:
        return KeyHashes(self.table)

    @property
    def bytes_held(self) -> int:
        """The memory of the rows and of all that they are sorted by."""
        found = self.table.nbytes + self.clocks.nbytes + (self.keys.bytes_held if "keys" in self.__dict__ else 0)
        for known in self.sorted.values():
            found += known.rows.nbytes + known.numbers.nbytes + known.clocks.nbytes
        return int(found)

    def by(self, key: LookupKey) -> OrderedNumbers:
        if key not in self.sorted:
            # Rows from before these columns were needed have none: the queries that look for them are younger.
            is_known = set(key.columns).issubset(self.table.column_names)
            numbers, present = self.keys.of(key.columns if is_known else ())
            rows = np.flatnonzero(present & is_known)
            self.sorted[key] = OrderedNumbers.of(numbers[rows], np.asarray(self.table[key.clock])[rows], rows)
        return self.sorted[key]


@dataclass
class JoinIndex:
    """The rows of a group from before this cycle."""

    #: For each node that joins read: the first cycle whose rows are here.
    since: dict[int, int]
    chunks: list[_IndexedRows] = field(default_factory=list)

    @property
    def bytes_held(self) -> int:
        return sum(each.bytes_held for each in self.chunks)

    def covers(self, needed: Mapping[int, int], cycle: int) -> bool:
        """Whether all rows from before a cycle are here that some nodes need, each from some cycle on."""
        return all(min(self.since.get(node, cycle), cycle) <= first for node, first in needed.items())

    def has(self, columns: Iterable[str]) -> bool:
        """Whether all rows have some columns."""
        names = frozenset(columns)
        return all(names.issubset(chunk.table.column_names) for chunk in self.chunks)

    def add(self, table: pa.Table, clocks: Positions) -> None:
        """Take in the rows of a cycle, merged with the last chunks as long as these are less than twice as long.

        So there are few chunks (as many as the logarithm of the rows), and no row is copied or sorted often.
        """
        new = _IndexedRows(table, clocks)
        while self.chunks and len(self.chunks[-1]) < 2 * len(new):
            old = self.chunks.pop()
            both = pa.concat_tables([old.table, new.table], promote_options="default").combine_chunks()
            new = _IndexedRows(both, np.concatenate([old.clocks, new.clocks]))
        if len(new):
            self.chunks.append(new)

    def expire(self, since: Clock) -> None:
        """Drop rows whose clock lies before what is needed."""
        if since is None:
            return
        kept = []
        for chunk in self.chunks:
            live = chunk.clocks >= since
            if live.all() or live.mean() > 1 - _WORTH_LEAVING:
                kept.append(chunk)
            elif live.any():
                kept.append(_IndexedRows(chunk.table.filter(pa.array(live)), chunk.clocks[live]))
        self.chunks = kept

    def found(
        self, asked: Lookup, key: LookupKey, columns: Sequence[tuple[str, pa.DataType]]
    ) -> list[tuple[Positions, pa.Table]]:
        """The rows that are looked for: for each chunk the positions among the numbers, and the rows beside them.

        Columns that were not needed when a row came are NULL.
        """
        result = []
        for chunk in self.chunks:
            which, rows = chunk.by(key).matches(asked)
            if len(which):
                known = [name for name, _ in columns if name in chunk.table.column_names]
                found = chunk.table.select(known).take(pa.array(rows))
                missing = {name: pa.nulls(len(rows), type_) for name, type_ in columns if name not in known}
                arrays = [missing[name] if name in missing else found[name] for name, _ in columns]
                result.append((which, pa.table(arrays, names=[name for name, _ in columns])))
        return result

    def count(self, asked: Lookup, key: LookupKey) -> int:
        """How many pairs there are of numbers and the rows that are looked for."""
        stretches = (chunk.by(key).stretches(asked) for chunk in self.chunks)
        return sum(int((end - begin).sum()) for begin, end in stretches)


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

    group: JoinGroup
    side: int
    table: pa.Table
    rows: Positions
    numbers: Positions

    @property
    def other(self) -> JoinGroup:
        return self.group.sides[1 - self.side]

    @property
    def clocks(self) -> Positions:
        """The clock of each row that tells how far the rows are that it can meet."""
        return np.asarray(self.table[self.group.band_clock(self.side)])[self.rows]

    def taken(self, rows: Positions) -> pa.Table:
        """New rows with the columns that the join needs."""
        names = [name for name, _ in side_columns(self.group, self.side)]
        return self.table.select(names).take(pa.array(rows))

    def met(self, rows: Positions, kept: pa.Table) -> pa.Table:
        """New rows, and beside each of them a kept row of the other side, as rows of the join."""
        new = self.taken(rows)
        return pairs_of(self.group, new, kept) if self.side == 0 else pairs_of(self.group, kept, new)


def pairs_of(group: JoinGroup, left: pa.Table, right: pa.Table) -> pa.Table:
    """Row i of the left side with row i of the right side, as rows of the join."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for side, rows in enumerate((left, right)):
        first = group.first_legs[side]
        for name, _ in side_columns(group, side):
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


def probes_of(group: JoinGroup, fresh: Mapping[LogId, NewRows]) -> list[JoinProbe]:
    """The new rows of either side that are in a node which the join reads."""
    found = []
    for number, side in enumerate(group.sides):
        new = fresh.get(side.name)
        if new is not None:
            wanted = new.membership.in_any(group.parents(number))
            if group.is_timely:
                wanted &= ~np.asarray(new.table[LATE])
            probe = _probe(group, number, new, wanted)
            if len(probe.rows):
                found.append(probe)
    return found


def _probe(group: JoinGroup, side: int, new: NewRows, wanted: Mask) -> JoinProbe:
    table, columns = new.table, group.key_columns[side]
    if group.on_executors and columns:
        # Spark has computed the numbers, since it computes those of the rows that are looked for.
        found = table[columns[0]]
        numbers, present = np.asarray(found.fill_null(0)), np.asarray(found.is_valid())
    else:
        numbers, present = new.keys.of(columns)
    rows = np.flatnonzero(wanted & present)
    probe = JoinProbe(group, side, table, rows, numbers[rows])
    if columns or group.band is None or not group.on_executors:
        return probe
    # Rows without keys look into buckets of the other side's clocks: one or two each.
    low, high = group.band.ahead(1 - side)
    first, last = (probe.clocks + low) // group.band.width, (probe.clocks + high) // group.band.width
    two = np.flatnonzero(first != last)
    return JoinProbe(group, side, table, np.concatenate([rows, rows[two]]), np.concatenate([first, last[two]]))


def both_new(left: JoinProbe, right: JoinProbe) -> pa.Table:
    """New rows of both sides that may meet."""
    if not left.group.keys:
        # On executors some rows look into two buckets of time.
        left, right = (
            replace(each, rows=np.unique(each.rows), numbers=np.zeros(len(np.unique(each.rows)), dtype=np.int64))
            for each in (left, right)
        )
    known = OrderedNumbers.of(right.numbers, right.clocks, right.rows)
    first, second = known.matches(Lookup(left.numbers, left.clocks, *left.group.ahead(1)))
    return pairs_of(left.group, left.taken(left.rows[first]), right.taken(second))


def with_held(probe: JoinProbe, held: JoinIndex) -> Iterator[pa.Table]:
    """New rows of a side with the rows of the other that the driver holds."""
    group, other = probe.group, 1 - probe.side
    columns = [(name, arrow_type(type_)) for name, type_ in side_columns(group, other)]
    looked_for = Lookup(probe.numbers, probe.clocks, *group.ahead(other))
    for asked, kept in held.found(looked_for, lookup_key_of(group, other), columns):
        yield probe.met(probe.rows[asked], kept)


def lookup_key_of(group: JoinGroup, side: int) -> LookupKey:
    """What the rows of a side are looked up by: the hashes of their keys, if there are any, and by time."""
    return LookupKey(group.key_columns[side], group.band_clock(side))


#: Spreads numbers of joins over numbers of keys: odd, and nothing up its sleeve (2⁶³ divided by the golden ratio).
_SALT = 5_700_357_409_661_599_241
_LARGEST = (1 << 63) - 1


def salt(number: int) -> int:
    """What the numbers of the keys of one join are mixed with, so that others do not find them."""
    return (_SALT * number) & _LARGEST


def probe_table(probes: Sequence[JoinProbe]) -> pa.Table:
    """All probes in one table, whatever their joins: the number of the keys with the join's salt, row and clock."""
    columns = [
        np.concatenate([probe.numbers ^ salt(number) for number, probe in enumerate(probes)]),
        np.concatenate([probe.rows for probe in probes]),
        np.concatenate([probe.clocks for probe in probes]),
    ]
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in (HASH, ROW, PROBED_CLOCK)])
    return pa.table([pa.array(each) for each in columns], schema=schema)
