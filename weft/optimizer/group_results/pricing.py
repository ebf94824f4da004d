"""Prices of the forms and trees of one family, and the group that a new query gains most from joining.

Links are of two sorts, and it depends on them whether a merge pays:

    a broker    carries what a group publishes: the rows that some member wants, each with the columns of all members,
                those of their conditions included, since it is the reader who tells whose a row is
    told        edges tell for each row who takes it (`weft/delivery/matching/sharing.py`), and send it with the columns
                that these show, and two bytes that name them; the columns of conditions stay where they are

There may be thousands of groups of one family, and a new query has to be held against all of them. What the benefit
depends on is kept in arrays, one line per root: the rows of the sample that its members want, the columns they need,
its windows, its cost. One pass over the arrays computes the cost of all merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.algebra import Aggregate, Expression
from weft.optimizer.group_results import forms
from weft.optimizer.group_results.forms import Form, QueryFamily, Region, union_of_ends
from weft.optimizer.group_results.query_trees import MemberSums, TreeNode, original
from weft.optimizer.group_results.representatives import Wanted, wanted_by
from weft.optimizer.group_results.shapes import QueryShape
from weft.optimizer.group_results.traffic_estimates import FamilyRates, Sample, TrafficStatistics, column_width, flow_of
from weft.predicates.normal_forms import Box
from weft.windows.join_windows import JoinWindows

_FEW_LINES, _FEW_COLUMNS = 2, 8

#: Bytes that say whose a row is: a number of 16 bits for a set of members.
TAG_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How late rows may be, how much more processing is tolerated, and whether links carry rows with their takers."""

    most_delay: int = 0
    overhead: float = 0.0
    told: bool = False


@dataclass(slots=True)
class ForestMember:
    """A query in a forest: what it wants, the columns that its user sees as bits, and its node."""

    shape: QueryShape
    wanted: Wanted
    shown: int
    node: TreeNode


class Pricing:
    """The prices of one family. Columns are numbered as they come, so that a set of them is a number's bits."""

    def __init__(self, family: QueryFamily, policy: Policy, sample: Sample) -> None:
        self.family, self.policy = family, policy
        self.aggregates: dict[str, Aggregate] = {}
        self.columns: dict[str, int] = {}
        self._expressions: list[Expression] = []
        self.measure(sample)

    def measure(self, sample: Sample) -> None:
        """Use other statistics from now on. The screen has no lines then."""
        self._sample = sample
        flow = flow_of(sample.statistics, self.family)
        self.screen = Screen(flow, sample.size, len(flow.rates), self.policy.told)
        for expression in self._expressions:
            self.screen.add_column(column_width(sample.statistics, self.family, expression))

    @property
    def statistics(self) -> TrafficStatistics:
        """What is known of streams, columns and links."""
        return self._sample.statistics

    # Forms

    def rows(self, box: Box) -> int:
        """The rows of the sample in a box."""
        return self._sample.rows(self.family, box)

    def merged(self, several: Sequence[Form]) -> Form:
        return forms.merge(several, self.rows, self.policy.most_delay)

    def contains(self, inner: Form, outer: Form) -> bool:
        """Whether a form has all rows of another one, as timely as the policy demands."""
        return forms.contains(inner, outer, self.policy.most_delay)

    def form_of(self, shape: QueryShape) -> Form:
        regions = tuple(Region(box, self.rows(box)) for box in shape.boxes)
        return Form(regions, shape.windows, None if shape.end is None else frozenset({shape.end}))

    # Members

    def member(self, name: str, shape: QueryShape) -> ForestMember:
        """A query as a tree of its own, which is not in the forest yet."""
        wanted = wanted_by(shape)
        self.aggregates.update(shape.aggregates)
        for published, expression in wanted.columns.items():
            self._column(published, expression)
        shown = sum({1 << self.columns[published] for _, published in wanted.shown})
        needed = sum(1 << self.columns[published] for published in wanted.columns)
        form = self.form_of(shape)
        return ForestMember(shape, wanted, shown, original(name, form, self._sums(form, needed, shown)))

    def measured_anew(self, member: ForestMember) -> None:
        """A member's form and sums by the statistics of now."""
        node = member.node
        node.form = self.form_of(member.shape)
        node.own = self._sums(node.form, node.own.columns, member.shown)

    def _sums(self, form: Form, needed: int, shown: int) -> MemberSums:
        rows = 0
        for region in form.regions:
            rows |= region.rows
        told = self.screen.told(rows, shown) if self.policy.told else 0
        return MemberSums(rows, needed, self.screen.work(form, rows), told, 1)

    def _column(self, name: str, expression: Expression) -> None:
        if name not in self.columns:
            self.columns[name] = len(self.columns)
            self._expressions.append(expression)
            self.screen.add_column(column_width(self._sample.statistics, self.family, expression))

    def named_columns(self, columns: int) -> dict[str, Expression]:
        names = list(self.columns)
        return {names[number]: self._expressions[number] for number in bits_of(columns)}

    # Prices

    def cost(self, node: TreeNode) -> float:
        """What it costs to send what a tree publishes over a link with all its members behind it."""
        return self._carried(node.form, node.sums)

    def line(self, node: TreeNode, cost: float) -> Line:
        """What has to be known of a tree to screen it."""
        return Line(node.form, node.sums, cost)

    def traffic(self, members: Sequence[ForestMember]) -> float:
        """Bytes per tick that some members of one tree need together, each row once, without what others want."""
        sums = members[0].node.own
        for member in members[1:]:
            sums = sums | member.node.own
        together = self._carried(forms.met([member.node.form for member in members]), sums)
        if not self.policy.told or len(members) == 1:
            return together
        # Rows of a join that meet in the windows of none are not sent: there are no more than the members have.
        return min(together, sum(self._carried(each.node.form, each.node.own, tagged=True) for each in members))

    def traffic_alone(self, member: ForestMember) -> float:
        """Bytes per tick of a member's answers, if they are sent alone: with the columns that its user sees."""
        form, own = member.node.form, member.node.own
        if self.policy.told:
            # The same price as of a group of one, also if no row of the sample is among its answers.
            return self._carried(form, own)
        return self.screen.rate(form) * self.screen.share(own.rows) * self.screen.width(member.shown)

    def _carried(self, form: Form, sums: MemberSums, tagged: bool = False) -> float:
        if self.policy.told:
            return self.screen.rate(form) * self.screen.told_width(sums, tagged or sums.weight > 1)
        return self.screen.rate(form) * self.screen.share(sums.rows) * self.screen.width(sums.columns)


# -- all roots side by side -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of a root, or of what is to be merged with one. `cost` is its cost alone."""

    form: Form
    sums: MemberSums
    cost: float


class Screen:
    """Lines by number, for one family. What links carry depends on whether they are `told` whose rows are."""

    def __init__(self, flow: FamilyRates, sample: int, inputs: int, is_told: bool = False) -> None:
        self._flow, self._sample, self._is_told = flow, sample, is_told
        self._lines: list[Line] = []
        self._words = -(-sample // 64)
        self._rows: npt.NDArray[np.uint64] = np.zeros((_FEW_LINES, self._words), dtype=np.uint64)
        self._columns: npt.NDArray[np.bool_] = np.zeros((_FEW_LINES, _FEW_COLUMNS), dtype=bool)
        self._widths: npt.NDArray[np.float64] = np.zeros(_FEW_COLUMNS)
        # The rows that are shown of each column.
        shape = (_FEW_LINES, _FEW_COLUMNS, self._words) if is_told else (_FEW_LINES, 0, 0)
        self._told: npt.NDArray[np.uint64] = np.zeros(shape, dtype=np.uint64)
        self._ranges: npt.NDArray[np.float64] = np.ones((_FEW_LINES, inputs))
        # Slide and origin of windows; bytes of a row or of the sample, cost, work of the members.
        self._instants: npt.NDArray[np.int64] = np.ones((_FEW_LINES, 2), dtype=np.int64)
        self._figures: npt.NDArray[np.float64] = np.zeros((_FEW_LINES, 3))

    def __len__(self) -> int:
        return len(self._lines)

    def add_column(self, width: float) -> None:
        """A column that was not known before; they are numbered as they come."""
        known = int(np.count_nonzero(self._widths))
        if known == len(self._widths):
            self._widths = _doubled(self._widths)
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
            self._told = np.concatenate([self._told, np.zeros_like(self._told)], axis=1)
        self._widths[known] = max(width, 1e-9)

    def width(self, columns: int) -> float:
        return float(self._widths[bits_of(columns)].sum())

    def share(self, rows: int) -> float:
        """The share of rows that some bits are; what is not in the sample at all is rare."""
        return max(rows.bit_count(), 0.5) / self._sample

    def told(self, rows: int, shown: int) -> int:
        """The rows of which some columns are shown, for each column in a place of its own."""
        return sum(rows << (64 * self._words * column) for column in bits_of(shown))

    def told_width(self, sums: MemberSums, tagged: bool) -> float:
        """Bytes, by row of the sample, of what members are shown of the rows that they take."""
        found = self._told_words(sums.told)
        counts = np.bitwise_count(found).sum(axis=1, dtype=np.int64)
        size = float(counts @ self._widths[: len(counts)]) + tagged * TAG_BYTES * sums.rows.bit_count()
        return max(size, 0.5) / self._sample

    def _told_words(self, told: int) -> npt.NDArray[np.uint64]:
        columns = -(-told.bit_length() // (64 * self._words))
        data = told.to_bytes(8 * self._words * columns, "little")
        return np.frombuffer(data, dtype=np.uint64).reshape(columns, self._words)

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
        self._lines.append(line)
        if len(self._lines) > len(self._figures):
            for name in ("_rows", "_columns", "_told", "_ranges", "_instants", "_figures"):
                setattr(self, name, _doubled(getattr(self, name)))
        self._write(len(self._lines) - 1)

    def put(self, number: int, line: Line) -> None:
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
        self._rows[number] = self._as_words(line.sums.rows)
        self._columns[number] = False
        self._columns[number, bits_of(line.sums.columns)] = True
        if line.form.windows is not None:
            self._ranges[number] = line.form.windows.ranges
            self._instants[number] = line.form.windows.slide, line.form.windows.origin
        size = self.width(line.sums.columns)
        if self._is_told:
            found = self._told_words(line.sums.told)
            self._told[number] = 0
            self._told[number, : len(found)] = found
            size = float(np.bitwise_count(found).sum(axis=1, dtype=np.int64) @ self._widths[: len(found)])
        self._figures[number] = size, line.cost, line.sums.work

    def _as_words(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(rows.to_bytes(8 * self._words, "big"), dtype=np.uint64)

    def best(self, new: Line, overhead: float, besides: int | None = None) -> tuple[int, float] | None:
        """The number of the root, `besides` one, that it is best to merge with, and the gain; None if there is no gain.

        Merging may increase processing by no more than the overhead, relative to what the members would need.
        """
        count = len(self._lines)
        if not count:
            return None
        wanted = np.bitwise_count(self._rows[:count] | self._as_words(new.sums.rows)).sum(axis=1, dtype=np.int64)
        shares = np.maximum(wanted, 0.5) / self._sample
        rates = self._merged_rates(new.form, count)
        sizes = self._told_sizes(new, wanted) if self._is_told else shares * self._published_widths(new, count)
        gains = self._figures[:count, 1] + new.cost - rates * sizes
        works = sum(self._flow.rates) + rates * shares
        gains[works > (1.0 + overhead) * (self._figures[:count, 2] + new.sums.work) * (1.0 + 1e-12)] = -np.inf
        if besides is not None:
            gains[besides] = -np.inf
        number = int(gains.argmax())
        return (number, float(gains[number])) if gains[number] > 1e-12 * new.cost else None

    def _published_widths(self, new: Line, count: int) -> npt.NDArray[np.float64]:
        """Bytes of a row of each root merged with what is new, as a broker carries it."""
        needed = bits_of(new.sums.columns)
        missing = ~self._columns[:count, needed] @ self._widths[needed]
        return np.asarray(self._figures[:count, 0] + missing)

    def _told_sizes(self, new: Line, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Bytes, by row of the sample, of each root merged with what is new, as links carry it if edges mark rows."""
        found = self._told_words(new.sums.told)
        columns = np.flatnonzero(found.any(axis=1))
        before = self._told[: len(wanted), columns]
        more = np.bitwise_count(found[columns] & ~before).sum(axis=2, dtype=np.int64) @ self._widths[columns]
        return np.asarray((self._figures[: len(wanted), 0] + more + TAG_BYTES * wanted) / self._sample)

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
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def _doubled(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([array, np.zeros_like(array)])
