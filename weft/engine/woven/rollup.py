"""From the finest partials to those of a cohort: the rows that satisfy its conditions, grouped by its keys alone.

Cohorts with the same keys share the grouping. If all that tells them apart are bounds of one expression, as with a
thousand alerts on one measurement, they share the adding up too. Partials are laid out by (group, interval of the
value), and running totals along the intervals, from either end, hold the records of every `<` and every `>` at once:

    interval of price     0    1    2    3    4
    SUM of a group        7    1    0    4    2        price > the bound between 2 and 3:  4 + 2
    totals from the end  14    7    6    6    2                                            ^ the 6 at 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.aggregation.statistic import Columns, Statistic
from weft.engine.woven.measures import Measure
from weft.engine.woven.partials import Partials
from weft.engine.woven.signatures import Decoder
from weft.engine.woven.tree import Cellwise, Folding, folded

#: Entries of the layout by group and interval that are worth it.
_LARGEST_LAYOUT = 8_000_000


class RollUp:
    """Partials of one stream, grouped by cell and by some of the keys; `numbers` are those keys'."""

    def __init__(self, partials: Partials, numbers: NDArray[np.int64]) -> None:
        self._partials = partials
        starts, cell = partials.distinct_cells
        width = int(numbers.max()) + 1 if len(numbers) else 1
        codes, self._group = np.unique(cell * width + numbers, return_inverse=True)
        self._cells, self._keys = starts[codes // width], codes % width
        self._foldings: dict[int, Folding] = {}
        self._layouts: dict[tuple[int, str], _Layout] = {}

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
                return self._between(column, first, last, measures, counted)
        mine = self._partials.satisfying(conditions)
        if not mine.any():
            return None
        records = {name: tuple(c[mine] for c in self._partials.records(each)) for name, each in measures.items()}
        statistics = {name: measure.statistic for name, measure in measures.items()}
        groups, combined = folded(self._group[mine], records, statistics)
        return Cellwise(self._cells[groups], self._keys[groups], combined)

    def _between(
        self, column: int, first: int, last: int | None, measures: Mapping[str, Measure], counted: str
    ) -> Cellwise | None:
        laid_out = {name: self._layout(column, measure) for name, measure in measures.items()}
        (rows,) = laid_out[counted].between(first, last)
        present = np.flatnonzero(rows)
        if not len(present):
            return None
        records = {
            name: tuple(each[present] for each in layout.between(first, last)) for name, layout in laid_out.items()
        }
        return Cellwise(self._cells[present], self._keys[present], records)

    def _layout(self, column: int, measure: Measure) -> _Layout:
        known = self._layouts.get((column, measure.name))
        if known is None:
            groups, statistic = len(self._cells), measure.statistic
            if column not in self._foldings:
                self._foldings[column] = Folding(self._partials.codes(column) * groups + self._group)
            folding = self._foldings[column]
            dense = statistic.empty(self._partials.widths[column] * groups)
            for into, values in zip(dense, folding.combined(statistic, self._partials.records(measure)), strict=True):
                into[folding.codes] = values
            known = _Layout(statistic, tuple(each.reshape(-1, groups) for each in dense))
            self._layouts[column, measure.name] = known
        return known


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
        total = tuple(column[first] for column in self._records)
        for interval in range(first + 1, last):
            total = self._statistic.combine(total, tuple(column[interval] for column in self._records))
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
        equal = 2 * position + 2
        low, high = {
            "<": (1, equal),
            "<=": (1, equal + 1),
            ">": (equal + 1, None),
            ">=": (equal, None),
            "=": (equal, equal + 1),
        }[kind]
        first = max(first, low)
        last = high if last is None else last if high is None else min(last, high)
    return columns.pop(), first, last
