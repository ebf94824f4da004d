"""From the finest partials to those of a cohort: the rows that satisfy its conditions, grouped by its keys alone.

Cohorts with the same keys share the grouping. If all that tells them apart are bounds of one expression, as with a
thousand alerts on one measurement, they share the adding up too. Partials are laid out by (group, interval of the
value), and running totals along the intervals, from either end, hold the records of every `<` and every `>` at once:

    interval of price     0    1    2    3    4
    SUM of a group        7    1    0    4    2        price > the bound between 2 and 3:  4 + 2
    totals from the end  14    7    6    6    2                                            ^ the 6 at 3

Conditions of other kinds, and none at all, are a choice of whole signatures: if these are few, partials are laid out by
(group, signature), and a cohort adds up those that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.aggregation.statistic import Columns, Statistic
from weft.engine.woven.measures import Measure
from weft.engine.woven.partials import Partials
from weft.engine.woven.signatures import Decoder, span_of
from weft.engine.woven.tree import Cellwise, Folding, folded

#: Entries of the layout by group and interval that are worth it.
_LARGEST_LAYOUT = 8_000_000

#: Codes are told apart by a table of all that there can be, unless those are so many times as many.
_SPARSE = 8


class RollUp:
    """Partials of one stream, grouped by cell and by some of the keys; `numbers` are those keys'."""

    def __init__(self, partials: Partials, numbers: NDArray[np.int64]) -> None:
        self._partials = partials
        starts, cell = partials.distinct_cells
        width = int(numbers.max()) + 1 if len(numbers) else 1
        codes, self._group = _ranked(cell * width + numbers, len(starts) * width)
        self._cells, self._keys = starts[codes // width], codes % width
        self._foldings: dict[int | None, Folding] = {}
        self._layouts: dict[tuple[int | None, str], _Layout] = {}

    def cohort(self, conditions: Sequence[str], measures: Mapping[str, Measure], counted: str) -> Cellwise | None:
        """The partials of rows that satisfy all conditions; `counted` is the measure that counts rows."""
        interval = _interval([self._partials.layout.decoders[each] for each in conditions])
        if interval is not None:
            column, first, last = interval
            if last is not None and last <= first:
                # x > 9 AND x < 1
                return None
            widths = self._partials.widths
            if len(self._cells) * widths[column] <= _LARGEST_LAYOUT:
                return self._present(measures, counted, lambda layout: layout.between(first, last), column)
        wanted = self._partials.signatures_satisfying(conditions)
        if not wanted.any():
            return None
        if len(wanted) * len(self._cells) <= min(_LARGEST_LAYOUT, _SPARSE * len(self._partials)):
            return self._present(measures, counted, lambda layout: layout.together(np.flatnonzero(wanted)), None)
        mine = wanted[self._partials.signature_numbers]
        records = {name: tuple(c[mine] for c in self._partials.records(each)) for name, each in measures.items()}
        statistics = {name: measure.statistic for name, measure in measures.items()}
        groups, combined = folded(self._group[mine], records, statistics)
        return Cellwise(self._cells[groups], self._keys[groups], combined)

    def _present(
        self, measures: Mapping[str, Measure], counted: str, of: Callable[[_Layout], Columns], column: int | None
    ) -> Cellwise | None:
        """The groups that have rows, and what is taken of the layout of each measure."""
        laid_out = {name: self._layout(column, measure) for name, measure in measures.items()}
        (rows,) = of(laid_out[counted])
        present = np.flatnonzero(rows)
        if not len(present):
            return None
        records = {name: tuple(each[present] for each in of(layout)) for name, layout in laid_out.items()}
        return Cellwise(self._cells[present], self._keys[present], records)

    def _layout(self, column: int | None, measure: Measure) -> _Layout:
        """Records by the codes of a signature column, or by whole signatures."""
        known = self._layouts.get((column, measure.name))
        if known is None:
            groups, statistic, partials = len(self._cells), measure.statistic, self._partials
            codes = partials.signature_numbers if column is None else partials.codes(column)
            width = len(partials.signatures_satisfying(())) if column is None else partials.widths[column]
            if column not in self._foldings:
                self._foldings[column] = Folding(codes * groups + self._group)
            folding = self._foldings[column]
            dense = statistic.empty(width * groups)
            for into, values in zip(dense, folding.combined(statistic, self._partials.records(measure)), strict=True):
                into[folding.codes] = values
            known = _Layout(statistic, tuple(each.reshape(-1, groups) for each in dense))
            self._layouts[column, measure.name] = known
        return known


def _ranked(codes: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The codes that there are, ascending, and which of them each one is; all lie below the limit."""
    if limit > _SPARSE * len(codes):
        distinct, which = np.unique(codes, return_inverse=True)
        return distinct, which
    present = np.zeros(limit, dtype=bool)
    present[codes] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


class _Layout:
    """Records by interval and group, and their running totals."""

    def __init__(self, statistic: Statistic, records: Columns) -> None:
        self._statistic = statistic
        self._records = records

    def between(self, first: int, last: int | None) -> Columns:
        """The records of the intervals from `first` up to, not including, `last`; None is the end."""
        if last is None:
            return tuple(column[first] for column in self._to_the_end)
        if first == 1:
            return tuple(column[last - 1] for column in self._from_the_start)
        return self.together(range(first, last))

    def together(self, codes: Sequence[int] | NDArray[np.intp]) -> Columns:
        """The records of these codes combined; there is at least one."""
        first, *others = codes
        total = tuple(column[first] for column in self._records)
        for code in others:
            total = self._statistic.combine(total, tuple(column[code] for column in self._records))
        return total

    @cached_property
    def _from_the_start(self) -> Columns:
        # Interval 0 is that of NULL and counts for nobody.
        return self._totals(range(1, len(self._records[0])))

    @cached_property
    def _to_the_end(self) -> Columns:
        return self._totals(range(len(self._records[0]) - 1, 0, -1))

    def _totals(self, intervals: range) -> Columns:
        totals = tuple(np.empty_like(column) for column in self._records)
        sofar: Columns | None = None
        for interval in intervals:
            here = tuple(column[interval] for column in self._records)
            sofar = here if sofar is None else self._statistic.combine(sofar, here)
            for into, values in zip(totals, sofar, strict=True):
                into[interval] = values
        return totals


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
