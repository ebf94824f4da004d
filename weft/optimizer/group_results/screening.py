"""The roots of many trees of one family, side by side: which of them a new query would gain most from.

There may be thousands of groups of one family, and a new query has to be held against all of them. What the benefit
depends on is kept in arrays, one line per root: the rows of the sample that its members want, the columns they need,
its windows, what it costs. One pass over the arrays tells what all merges would cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.optimizer.group_results.cost import Flow
from weft.optimizer.group_results.forms import Form, union_of_ends
from weft.windows.containment import JoinWindows

_FEW = 8


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of a root, or of what is to be merged with one.

    `rows` and `columns` have a bit for each row of the sample that members want and for each column they need. `cost`
    is what it costs by itself, `work` what its members' own processing comes to.
    """

    form: Form
    rows: int
    columns: int
    cost: float
    work: float


class Screen:
    """Lines by number, for one family."""

    def __init__(self, flow: Flow, sample: int, inputs: int) -> None:
        self._flow, self._sample = flow, sample
        self._lines: list[Line] = []
        self._words = -(-sample // 64)
        self._rows: npt.NDArray[np.uint64] = np.zeros((_FEW, self._words), dtype=np.uint64)
        self._columns: npt.NDArray[np.bool_] = np.zeros((_FEW, _FEW), dtype=bool)
        self._widths: npt.NDArray[np.float64] = np.zeros(_FEW)
        self._ranges: npt.NDArray[np.float64] = np.ones((_FEW, inputs))
        # Slide and origin of windows, width of the needed columns, cost, work of the members.
        self._instants: npt.NDArray[np.int64] = np.ones((_FEW, 2), dtype=np.int64)
        self._figures: npt.NDArray[np.float64] = np.zeros((_FEW, 3))

    def __len__(self) -> int:
        return len(self._lines)

    def add_column(self, width: float) -> None:
        """A column that was not known before; they are numbered as they come."""
        known = int(np.count_nonzero(self._widths))
        if known == len(self._widths):
            self._widths = _doubled(self._widths)
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
        self._widths[known] = max(width, 1e-9)

    def width(self, columns: int) -> float:
        """Bytes of some columns."""
        return float(self._widths[bits_of(columns)].sum())

    def share(self, rows: int) -> float:
        """The share of rows that some bits stand for; what is not in the sample at all is rare."""
        return max(rows.bit_count(), 0.5) / self._sample

    def rate(self, form: Form) -> float:
        """Rows per tick, before any condition."""
        if form.ends is not None:
            return self._flow.answers(form.ends)
        if form.windows is None:
            return self._flow.rates[0] * self._flow.share
        ranges = np.array([form.windows.ranges], dtype=np.float64)
        return float(self._flow.combinations(ranges, np.array([form.windows.slide], dtype=np.float64))[0])

    def work(self, form: Form, rows: int) -> float:
        """What the engine has to do for a form, per tick: read rows, and make answers."""
        return sum(self._flow.rates) + self.rate(form) * self.share(rows)

    def append(self, line: Line) -> None:
        """Adds a line with the next number."""
        self._lines.append(line)
        if len(self._lines) > len(self._figures):
            for name in ("_rows", "_columns", "_ranges", "_instants", "_figures"):
                setattr(self, name, _doubled(getattr(self, name)))
        self._write(len(self._lines) - 1)

    def put(self, number: int, line: Line) -> None:
        """Replaces a line."""
        self._lines[number] = line
        self._write(number)

    def remove(self, number: int) -> None:
        """Removes a line; the last one gets its number."""
        self._lines[number] = self._lines[-1]
        self._lines.pop()
        if number < len(self._lines):
            self._write(number)

    def _write(self, number: int) -> None:
        line = self._lines[number]
        self._rows[number] = self._as_words(line.rows)
        self._columns[number] = False
        self._columns[number, bits_of(line.columns)] = True
        if line.form.windows is not None:
            self._ranges[number] = line.form.windows.ranges
            self._instants[number] = line.form.windows.slide, line.form.windows.origin
        self._figures[number] = self.width(line.columns), line.cost, line.work

    def _as_words(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(rows.to_bytes(8 * self._words, "big"), dtype=np.uint64)

    def best(self, new: Line, overhead: float) -> tuple[int, float] | None:
        """The number of the root that it is best to merge with, and the gain; None if there is no gain.

        Merging may increase processing by no more than the overhead, relative to what the members would need.
        """
        count = len(self._lines)
        if not count:
            return None
        wanted = np.bitwise_count(self._rows[:count] | self._as_words(new.rows)).sum(axis=1, dtype=np.int64)
        shares = np.maximum(wanted, 0.5) / self._sample
        needed = bits_of(new.columns)
        widths = self._figures[:count, 0] + (~self._columns[:count, needed]) @ self._widths[needed]
        rates = self._merged_rates(new.form, count)
        gains = self._figures[:count, 1] + new.cost - rates * shares * widths
        works = sum(self._flow.rates) + rates * shares
        gains[works > (1.0 + overhead) * (self._figures[:count, 2] + new.work) * (1.0 + 1e-12)] = -np.inf
        number = int(gains.argmax())
        return (number, float(gains[number])) if gains[number] > 1e-12 * new.cost else None

    def _merged_rates(self, form: Form, count: int) -> npt.NDArray[np.float64]:
        """Rows per tick of each root merged with a form."""
        if form.ends is not None:
            sets = ((line.form.ends, form.ends) for line in self._lines)
            return np.array([self._flow.answers(union_of_ends([e for e in pair if e])) for pair in sets])
        if form.windows is None:
            return np.full(count, self._flow.rates[0] * self._flow.share)
        ranges = np.maximum(self._ranges[:count], np.array(form.windows.ranges, dtype=np.float64))
        return np.asarray(self._flow.combinations(ranges, self._merged_slides(form.windows, count)))

    def _merged_slides(self, windows: JoinWindows, count: int) -> npt.NDArray[np.float64]:
        slides, origins = self._instants[:count, 0], self._instants[:count, 1]
        common = np.gcd(np.gcd(slides, windows.slide), np.abs(origins - windows.origin))
        return np.asarray(common, dtype=np.float64)


def bits_of(bits: int) -> list[int]:
    """The numbers of the bits that are set."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def _doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
