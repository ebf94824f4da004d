"""Rolls up the finest partials to those of a cohort: rows that satisfy its conditions, grouped by its keys alone.

Keys are numbers: trees keep arrays by number, and only answers need the values again.

Cohorts with the same keys share the grouping. If they differ only in bounds of one expression, as with a thousand
alerts on one measurement, they share the adding up too. Partials are laid out by (group, interval of the value), and
running totals along the intervals, from either end, hold the records of every `<` and every `>` at once:

    interval of price     0    1    2    3    4
    SUM of a group        7    1    0    4    2        price > the bound between 2 and 3:  4 + 2
    totals from the end  14    7    6    6    2                                            ^ the 6 at 3

Conditions of other kinds, or none, select whole signatures: if these are few, partials are laid out by (group,
signature), and a cohort adds up those that it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.kernels.statistic import Columns, Statistic
from weft.optimizer.aggregates.stream_shapes import Measure, plain, rows_counted
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.signatures import Decoder, span_of
from weft.runtime.stages.windows.window_tree import Folding, SlicePartials, folded

_HALF = 32

#: Repetitions that are made at once, and repeated as a whole.
_STRETCH = 64


class ValueNumbers:
    """Distinct values in the order in which they were first seen. NULL is a value like others."""

    def __init__(self) -> None:
        self._known: pa.Array | None = None

    def __len__(self) -> int:
        return 0 if self._known is None else len(self._known)

    @property
    def bytes_held(self) -> int:
        return 0 if self._known is None else int(self._known.nbytes)

    def numbers(self, values: pa.Array) -> NDArray[np.int64]:
        """The number of each value; one that is new gets the next."""
        if self._known is None:
            self._known = pc.unique(values)
        found = pc.index_in(values, value_set=self._known)
        if found.null_count:
            fresh = pc.unique(values.filter(pc.is_null(found)))
            self._known = pa.concat_arrays([self._known, fresh])
            found = pc.index_in(values, value_set=self._known)
        return np.asarray(found.to_numpy()).astype(np.int64)

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """The values that have these numbers."""
        assert self._known is not None
        return self._known.take(pa.array(numbers))


class _PairNumbering:
    """The same for whole numbers, of which there may be very many: a look-up costs as much as it looks up.

    They are kept in order beside their numbers, whereas `ValueNumbers` makes Arrow hash all known values every time.
    """

    def __init__(self) -> None:
        self._known = np.zeros(0, dtype=np.int64)
        self._ordered, self._numbers = self._known, self._known

    def __len__(self) -> int:
        return len(self._known)

    @property
    def bytes_held(self) -> int:
        return self._known.nbytes + self._ordered.nbytes + self._numbers.nbytes

    def numbers(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of each value; one that is new gets the next."""
        places = np.searchsorted(self._ordered, values)
        is_known = np.zeros(len(values), dtype=bool)
        inside = places < len(self._ordered)
        is_known[inside] = self._ordered[places[inside]] == values[inside]
        if not is_known.all():
            self._add(values[~is_known])
            places = np.searchsorted(self._ordered, values)
        return np.asarray(self._numbers[places])

    def _add(self, values: NDArray[np.int64]) -> None:
        fresh = np.unique(values)
        places = np.searchsorted(self._ordered, fresh)
        self._ordered = np.insert(self._ordered, places, fresh)
        self._numbers = np.insert(self._numbers, places, np.arange(len(self), len(self) + len(fresh)))
        self._known = np.concatenate([self._known, fresh])

    def values(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values that have these numbers."""
        return np.asarray(self._known[numbers])


class GroupKeys:
    """Keys of several columns as one number: the columns' numbers two by two, as in (((a, b), c), d)."""

    def __init__(self, columns: int) -> None:
        self._columns = [ValueNumbers() for _ in range(columns)]
        self._pairs = [_PairNumbering() for _ in range(columns - 1)]

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._columns[0]) if self._columns else 1

    @property
    def bytes_held(self) -> int:
        """The memory that the keys take."""
        return sum(each.bytes_held for each in self._columns) + sum(each.bytes_held for each in self._pairs)

    def numbers(self, columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.int64]:
        """The numbers of some keys, given column by column. Without columns there is one key, number 0."""
        if not self._columns:
            return np.zeros(rows, dtype=np.int64)
        parts = [each.numbers(plain(values)) for each, values in zip(self._columns, columns, strict=True)]
        whole = parts[0]
        for part, pairs in zip(parts[1:], self._pairs, strict=True):
            whole = pairs.numbers(whole << _HALF | part)
        return whole

    def values(self, numbers: NDArray[np.int64], times: int = 1) -> list[pa.Array]:
        """The keys that have these numbers, column by column; the whole repeated `times` times."""
        if not self._columns:
            return []
        parts: list[NDArray[np.int64]] = []
        for pairs in reversed(self._pairs):
            both = pairs.values(numbers)
            parts.append(both & ((1 << _HALF) - 1))
            numbers = both >> _HALF
        parts.append(numbers)
        return [_repeated(each.values(part), times) for each, part in zip(self._columns, reversed(parts), strict=True)]


def _repeated(values: pa.Array, times: int) -> pa.Array:
    if times == 1:
        return values
    # A few long arrays are put together sooner than many short ones.
    stretch = pa.concat_arrays([values] * min(times, _STRETCH))
    whole, rest = divmod(times, _STRETCH)
    return pa.concat_arrays([*[stretch] * whole, stretch.slice(0, rest * len(values))])


#: The most entries that a layout by group and interval may have.
_LARGEST_LAYOUT = 8_000_000

#: Codes are ranked by a table of all possible ones, unless these are more than this many times as many.
_SPARSE = 8


class RollUp:
    """Partials of one stream, grouped by slice and by some of the keys; `numbers` are those keys'.

    `slices` are the starts of slices and the place of each partial among them, if not the partials' own.
    """

    def __init__(
        self,
        partials: Partials,
        numbers: NDArray[np.int64],
        slices: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None,
    ) -> None:
        self._partials = partials
        starts, slice_of = partials.distinct_slices if slices is None else slices
        width = int(numbers.max()) + 1 if len(numbers) else 1
        codes, self._group = _ranked(slice_of * width + numbers)
        self._cells, self._keys = starts[codes // width], codes % width
        self._placings: dict[int | None, _Placing] = {}
        self._layouts: dict[tuple[int | None, str], _Layout] = {}

    def cohort(self, conditions: Collection[str], measures: Mapping[str, Measure]) -> SlicePartials | None:
        """The partials of rows that satisfy all conditions; None if there are none."""
        interval = _interval([self._partials.layout.decoders[each] for each in conditions])
        if interval is not None:
            column, first, last = interval
            placing = self._placing(column)
            if placing.size <= _LARGEST_LAYOUT:
                # None at all for x > 9 AND x < 1, and if no row has such a value.
                return self._laid_out(column, placing.ranks_between(first, last), measures)
        wanted = self._partials.signatures_satisfying(conditions)
        if not wanted.any():
            return None
        if len(wanted) * len(self._cells) <= min(_LARGEST_LAYOUT, _SPARSE * len(self._partials)):
            return self._laid_out(None, np.flatnonzero(wanted), measures)
        mine = wanted[self._partials.signature_numbers]
        records = {name: tuple(c[mine] for c in self._partials.records(each)) for name, each in measures.items()}
        statistics = {name: measure.statistic for name, measure in measures.items()}
        groups, combined = folded(self._group[mine], records, statistics)
        return SlicePartials(self._cells[groups], self._keys[groups], combined)

    def _laid_out(
        self, column: int | None, ranks: range | NDArray[np.intp], measures: Mapping[str, Measure]
    ) -> SlicePartials | None:
        """The groups that have rows of some ranks, in layouts by a signature column, or by whole signatures."""
        if not len(ranks):
            return None
        found = {}
        for name, measure in measures.items():
            if (column, name) not in self._layouts:
                laid_out = self._placing(column).laid_out(measure.statistic, self._partials.records(measure))
                self._layouts[column, name] = _Layout(measure.statistic, laid_out)
            found[name] = self._layouts[column, name].of(ranks)
        (rows,) = found[rows_counted().name]
        if rows.all():
            # Other cohorts read the same rows of the layout, and the layout should not stay in memory for them.
            records = {name: tuple(each.copy() for each in columns) for name, columns in found.items()}
            return SlicePartials(self._cells, self._keys, records)
        present = np.flatnonzero(rows)
        records = {name: tuple(each[present] for each in columns) for name, columns in found.items()}
        return SlicePartials(self._cells[present], self._keys[present], records) if len(present) else None

    def _placing(self, column: int | None) -> _Placing:
        """Where partials go that are laid out by the codes of a signature column, or by whole signatures."""
        if column not in self._placings:
            codes = self._partials.signature_numbers if column is None else self._partials.codes(column)
            self._placings[column] = _Placing(*_ranked(codes), self._group, len(self._cells))
        return self._placings[column]


class _Placing:
    """Where each partial goes in a layout: by the rank of its code among the present ones, and by its group."""

    def __init__(self, codes: NDArray[np.int64], rank: NDArray[np.intp], group: NDArray[np.intp], groups: int) -> None:
        self._codes, self._rank, self._group, self._groups = codes, rank, group, groups

    @property
    def size(self) -> int:
        return len(self._codes) * self._groups

    def ranks_between(self, first: int, last: int | None) -> range:
        """The ranks of the codes from `first` up to, not including, `last`; None is the end."""
        end = len(self._codes) if last is None else int(np.searchsorted(self._codes, last))
        return range(int(np.searchsorted(self._codes, first)), end)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return self._rank * self._groups + self._group

    @cached_property
    def _folding(self) -> Folding | None:
        """How partials of one place are combined; None if each has a place of its own, as is usual."""
        taken = np.zeros(self.size, dtype=bool)
        taken[self._places] = True
        return None if np.count_nonzero(taken) == len(self._places) else Folding(self._places)

    def laid_out(self, statistic: Statistic, records: Columns) -> Columns:
        """Records by rank and group, identities where there is none."""
        folding = self._folding
        places, values = (
            (self._places, records) if folding is None else (folding.codes, folding.combined(statistic, records))
        )
        dense = statistic.empty(self.size)
        for into, each in zip(dense, values, strict=True):
            into[places] = each
        return tuple(each.reshape(-1, self._groups) for each in dense)


def _ranked(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The present codes, ascending, and the rank of each one."""
    limit = int(codes.max(initial=-1)) + 1
    if limit > _SPARSE * len(codes):
        distinct, which = np.unique(codes, return_inverse=True)
        return distinct, which
    present = np.zeros(limit, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


class _Layout:
    """Records by rank and group, and their running totals."""

    def __init__(self, statistic: Statistic, records: Columns) -> None:
        self._statistic = statistic
        self._records = records
        self._totals: dict[range, Columns] = {}

    def of(self, ranks: range | NDArray[np.intp]) -> Columns:
        """The records of some ranks combined; there is at least one."""
        end = len(self._records[0])
        if isinstance(ranks, range) and ranks.stop == end:
            return self._total(ranks[0], range(end - 1, -1, -1))
        # NULL, which satisfies no comparison, has the lowest rank if present: a range from the start begins after it.
        if isinstance(ranks, range) and ranks[0] <= 1 and len(ranks) > 1:
            return self._total(ranks[-1], range(ranks[0], end))
        first, *others = ranks
        total = tuple(column[first] for column in self._records)
        for rank in others:
            total = self._statistic.combine(total, tuple(column[rank] for column in self._records))
        return total

    def _total(self, rank: int, ranks: range) -> Columns:
        """The records of some ranks combined, from the first one to this one."""
        if ranks not in self._totals:
            totals = self._totals[ranks] = tuple(np.empty_like(column) for column in self._records)
            sofar: Columns | None = None
            for each in ranks:
                here = tuple(column[each] for column in self._records)
                sofar = here if sofar is None else self._statistic.combine(sofar, here)
                for into, values in zip(totals, sofar, strict=True):
                    into[each] = values
        return tuple(column[rank] for column in self._totals[ranks])


def _interval(decoders: Sequence[Decoder]) -> tuple[int, int, int | None] | None:
    """The intervals of one signature column that some conditions leave, if they say nothing else: [first, last).

    Interval 0 is that of NULL, which satisfies none of them.
    """
    columns = {column for column, _, _ in decoders}
    if len(columns) != 1 or any(kind == "bit" for _, kind, _ in decoders):
        return None
    first, last = 1, None
    for _, kind, position in decoders:
        low, end = span_of(kind, position)
        # Codes begin at -1, intervals at 0.
        first, high = max(first, low + 1), None if end is None else end + 1
        last = high if last is None else last if high is None else min(last, high)
    return columns.pop(), first, last
