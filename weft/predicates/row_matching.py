"""Which of a thousand predicate sets hold for each row of a table: conditions as data, evaluated with NumPy.

All the constants that a subject is compared with cut its values into elementary intervals (`weft/arrays/ordinals.py`).
A row is no more than the numbers of the intervals that its subjects lie in. Rows with the same numbers satisfy the same
sets, so sets are looked at once for each *distinct* row of numbers (a **kind** of rows):

    rows ── subjects ──> numbers of intervals ── distinct ──> all sets, evaluated ── expanded ──> rows of each set

A set is the conjunction of a node of the shared plan, and has the node's number. The cost is rows · subjects +
distinct rows · clauses. Where nearly every row has numbers of its own and few sets hold for it, as in delivery, an
index of boxes over the same intervals does better (`weft/delivery/subscription_index.py`).

Columns come as Arrow. What cannot be computed here exactly comes as a column that Spark has computed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays.ordinals import (
    Constant,
    ElementaryIntervals,
    Mask,
    Numbers,
    Positions,
    distinct_texts,
    is_text_array,
    ordinals,
    positions_in_ranges,
)
from weft.predicates.domains import FIRST, LAST, Place, ValueSet

#: Numbers of several subjects are put together into one as long as it stays below this.
_ROOM = 1 << 62


@dataclass(frozen=True, slots=True)
class PlainColumn:
    """A column of the rows."""

    column: str


@dataclass(frozen=True, slots=True)
class ColumnCombination:
    """A sum of products of columns with whole numbers: (factor, columns) for each. It fits into 64 bits, or nearly."""

    terms: tuple[tuple[int, tuple[str, ...]], ...]
    scale: int = 0


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """How two columns compare: −1, 0 or 1."""

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class LargestColumn:
    """The largest of some columns with whole numbers."""

    columns: tuple[str, ...]


Value: TypeAlias = PlainColumn | ColumnCombination | ColumnComparison | LargestColumn


@dataclass(frozen=True, slots=True)
class Check:
    """That what is computed of a row is in a set of values."""

    value: Value
    values: ValueSet


@dataclass(frozen=True, slots=True)
class ParentLabel:
    """That a row's parent is in a node: the node's label stands in a text of labels, such as `7.0 12.3`."""

    column: str
    node: int


#: Numbers of intervals, from a first one to a last one, both included.
Ranges: TypeAlias = tuple[tuple[int, int], ...]

#: One of these must hold; and for a node, all of its clauses.
Clause: TypeAlias = tuple[Check | ParentLabel, ...]
Conjunction: TypeAlias = tuple[Clause, ...]


@dataclass(frozen=True)
class RowMatches:
    """The rows of each node, of the rows of one table.

    It has the kind of each row; and for each node, and for each clause by number, which kinds are in it.
    """

    _kinds: Positions
    _satisfied: Mapping[int, Mask]
    _clauses: Sequence[Mask]

    def __len__(self) -> int:
        return len(self._kinds)

    def count(self, node: int) -> int:
        """How many rows are in a node."""
        return int(self._by_kind[2][self._satisfied[node]].sum())

    def satisfying(self, clauses: Sequence[int], rows: Mask | None = None) -> list[int]:
        """How many rows, or how many of some of them, satisfy each of some clauses of the evaluator."""
        if not len(self):
            return [0] * len(clauses)
        kinds = self._kinds if rows is None else self._kinds[rows]
        counts = np.bincount(kinds, minlength=len(self._clauses[0]) if self._clauses else 0)
        return [int(counts[self._clauses[each]].sum()) for each in clauses]

    @cached_property
    def _by_kind(self) -> tuple[Positions, Positions, Positions]:
        """The rows in the order of their kinds, where each kind begins, and how many rows it has."""
        kinds = max((len(each) for each in self._satisfied.values()), default=0)
        counts = np.bincount(self._kinds, minlength=kinds)
        return np.argsort(self._kinds, kind="stable"), np.cumsum(counts) - counts, counts

    def rows(self, node: int) -> Positions:
        order, starts, counts = self._by_kind
        wanted = np.flatnonzero(self._satisfied[node])
        return np.asarray(order[positions_in_ranges(starts[wanted], counts[wanted])])

    def in_any(self, nodes: Iterable[int]) -> Mask:
        """Which rows are in one of some nodes."""
        masks = [self._satisfied[node] for node in nodes]
        if not masks:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(np.logical_or.reduce(masks)[self._kinds])

    def labels(self, labels: Mapping[int, str]) -> pa.Array:
        """For each row the labels of the nodes that it is in, as a text."""
        nodes = list(labels)
        masks = np.array([self._satisfied[node] for node in nodes], dtype=bool)
        patterns, kinds = np.unique(np.packbits(masks, axis=0), axis=1, return_inverse=True)
        listed = np.unpackbits(patterns, axis=0, count=len(nodes)).astype(bool)
        texts = [" ".join(labels[nodes[each]] for each in np.flatnonzero(column)) for column in listed.T]
        return pa.array(texts, pa.string()).take(pa.array(kinds.reshape(-1)[self._kinds]))


@dataclass(frozen=True)
class RowMatcher:
    """The conditions of some nodes, made ready: what does not depend on rows is found out once."""

    nodes: Mapping[int, Conjunction]

    @cached_property
    def clauses(self) -> Mapping[Clause, int]:
        """All clauses, each once, by number."""
        distinct = dict.fromkeys(clause for conjunction in self.nodes.values() for clause in conjunction)
        return {clause: number for number, clause in enumerate(distinct)}

    @cached_property
    def _clauses_of_nodes(self) -> Mapping[int, list[int]]:
        return {node: [self.clauses[each] for each in conjunction] for node, conjunction in self.nodes.items()}

    @cached_property
    def _checks(self) -> list[tuple[int, Check | ParentLabel]]:
        """All checks, each with the number of its clause."""
        return [(number, check) for clause, number in self.clauses.items() for check in clause]

    @cached_property
    def _subjects(self) -> Mapping[Value, SubjectIntervals]:
        found: dict[Value, list[ValueSet]] = {}
        for _, check in self._checks:
            if isinstance(check, Check):
                found.setdefault(check.value, []).append(check.values)
        return {value: SubjectIntervals(value, sets) for value, sets in found.items()}

    @cached_property
    def _truths(self) -> list[tuple[int, Value, Mask]]:
        """The number of each check's clause, its subject, and in which of its intervals the check holds."""
        return [
            (number, check.value, self._subjects[check.value].truth(check.values))
            for number, check in self._checks
            if isinstance(check, Check)
        ]

    def of(self, table: pa.Table, parents: Mapping[int, str] | None = None) -> RowMatches:
        """Which rows of a table are in which nodes. The rows' parents are labelled as `parents` says."""
        numbers = {value: each.numbers(table) for value, each in self._subjects.items()}
        labelled = [(number, check) for number, check in self._checks if isinstance(check, ParentLabel)]
        labels = {column: distinct_texts(table[column]) for column in sorted({each.column for _, each in labelled})}
        kinds, representatives = _kinds([*numbers.values(), *(codes for codes, _ in labels.values())], table.num_rows)
        codes_of_kinds = {value: codes[representatives] for value, codes in numbers.items()}
        clauses = [np.zeros(len(representatives), dtype=bool) for _ in self.clauses]
        for number, subject, truth in self._truths:
            clauses[number] |= truth[codes_of_kinds[subject]]
        sets = {column: [frozenset(text.split()) for text in texts] for column, (_, texts) in labels.items()}
        for number, check in labelled:
            label = (parents or {})[check.node]
            known = np.array([label in listed for listed in sets[check.column]], dtype=bool)
            clauses[number] |= known[labels[check.column][0][representatives]]
        all_kinds = np.ones(len(representatives), dtype=bool)
        satisfied = {
            node: np.logical_and.reduce([all_kinds, *(clauses[number] for number in numbers_of_clauses)])
            for node, numbers_of_clauses in self._clauses_of_nodes.items()
        }
        return RowMatches(kinds, satisfied, clauses)


class SubjectIntervals:
    """The elementary intervals that some sets of a subject's values cut these into."""

    def __init__(self, value: Value, sets: Iterable[ValueSet]) -> None:
        self.value = value
        self.cuts = sorted({cut for each in sets for span in each.spans for cut in span} - {FIRST, LAST})
        self._intervals = ElementaryIntervals([(_constant(place), side) for _, place, side in self.cuts])
        #: The number of NULL, after those of all intervals.
        self.null = self._intervals.null

    def ranges(self, values: ValueSet) -> Ranges:
        """The intervals that have a part in a set, from a first one to a last one, in ascending order."""
        spans = ((bisect_right(self.cuts, low), bisect_left(self.cuts, high)) for low, high in values.spans)
        return (*spans, *([(self.null, self.null)] if values.null else ()))

    def truth(self, values: ValueSet) -> Mask:
        """Which intervals are in a set; the last entry is NULL's."""
        truth = np.zeros(self.null + 1, dtype=bool)
        for first, last in self.ranges(values):
            truth[first : last + 1] = True
        return truth

    def numbers(self, table: pa.Table | pa.RecordBatch) -> Positions:
        """The number of the interval that each row's value lies in."""
        if isinstance(self.value, PlainColumn):
            return self._intervals.of(table[self.value.column])
        if isinstance(self.value, ColumnComparison):
            return self._intervals.of_ordinals(*_compared(table[self.value.left], table[self.value.right]), scale=0)
        if isinstance(self.value, LargestColumn):
            found = [ordinals(table[name]) for name in self.value.columns]
            numbers, nulls = np.max([each for each, _ in found], axis=0), np.any([each for _, each in found], axis=0)
            return self._intervals.of_ordinals(numbers, nulls, scale=0)
        return self._intervals.of_ordinals(*_combined(self.value, table), scale=self.value.scale)


def _constant(place: Place) -> Constant:
    if isinstance(place, tuple):
        is_nan, number = place
        return math.nan if is_nan else number
    return place


def _combined(value: ColumnCombination, table: pa.Table) -> tuple[Numbers, Mask]:
    total = np.zeros(table.num_rows, dtype=np.int64)
    nulls = np.zeros(table.num_rows, dtype=bool)
    for factor, columns in value.terms:
        product = np.full(table.num_rows, factor, dtype=np.int64)
        for column in columns:
            numbers, missing = ordinals(table[column])
            product = product * np.where(missing, 0, numbers)
            nulls |= missing
        total = _saturated_sum(total, product)
    return total, nulls


def _saturated_sum(left: Numbers, right: Numbers) -> Numbers:
    """The sum, or the number next to it: two clocks of 62 bits are just one too far apart."""
    total = left + right
    total[(left > 0) & (right > 0) & (total < 0)] = np.iinfo(np.int64).max
    total[(left < 0) & (right < 0) & (total >= 0)] = np.iinfo(np.int64).min
    return total


def _compared(left: pa.ChunkedArray | pa.Array, right: pa.ChunkedArray | pa.Array) -> tuple[Numbers, Mask]:
    nulls = np.asarray(pc.or_(pc.is_null(left), pc.is_null(right)))
    if is_text_array(left.type):
        left, right = (
            each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in (left, right)
        )
        less, equal = pc.less(left, right), pc.equal(left, right)
        signs = 1 - np.asarray(pc.fill_null(equal, False)) - 2 * np.asarray(pc.fill_null(less, False)).astype(np.int64)
        return signs, nulls
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        # Numbers of two kinds compare as DOUBLEs, as SQL has it.
        left, right = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
    scales = [each.type.scale if pa.types.is_decimal(each.type) else 0 for each in (left, right)]
    first, second = (
        ordinals(each)[0] if scale == max(scales) else ordinals(each)[0].astype(object) * 10 ** (max(scales) - scale)
        for each, scale in zip((left, right), scales, strict=True)
    )
    return (first > second).astype(np.int64) - (first < second).astype(np.int64), nulls


def _kinds(numbers: Sequence[Positions], rows: int) -> tuple[Positions, Positions]:
    """Rows that have the same numbers are of one kind: the kind of each row, and a row of each kind."""
    kinds, room = np.zeros(rows, dtype=np.int64), 1
    for codes in numbers:
        size = int(codes.max(initial=0)) + 1
        if room * size >= _ROOM:
            distinct, kinds = np.unique(kinds, return_inverse=True)
            room = len(distinct)
        kinds, room = kinds * size + codes, room * size
    _, representatives, kinds = np.unique(kinds, return_index=True, return_inverse=True)
    return kinds, representatives
