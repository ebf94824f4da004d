"""Which nodes a row belongs to: a thousand conditions as data.

Every comparison with a constant is a set of values of one **subject**, and all the constants that a subject is compared
with cut its values into elementary intervals. A row is no more than the numbers of the intervals that its subjects lie
in. Rows with the same numbers belong to the same nodes, so nodes are looked at once for each *distinct* row of numbers:

    rows ── subjects ──> numbers of intervals ── distinct ──> conditions of all nodes ── expanded ──> rows of each node

Nothing here knows Spark: columns come as Arrow. What cannot be computed here exactly comes as a column that Spark has
computed (`conditions.py`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weft.predicates.intervals import FIRST, LAST, Cut, Place, ValueSet
from weft.runtime.columnar.ordinals import Mask, Numbers, first_not_below, ordinals, within_64_bits

Positions = NDArray[np.int64]

#: Numbers of several subjects are put together into one as long as it stays below this.
_ROOM = 1 << 62


@dataclass(frozen=True, slots=True)
class Plain:
    """A column of the rows, with so many digits after the point."""

    column: str
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Combination:
    """A sum of products of columns with whole numbers: (factor, columns) for each. It fits into 64 bits, or nearly."""

    terms: tuple[tuple[int, tuple[str, ...]], ...]
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two columns of one type compare: −1, 0 or 1."""

    left: str
    right: str


Value: TypeAlias = Plain | Combination | Comparison


@dataclass(frozen=True)
class Check:
    """That a subject has a value in a set: `subject operator bound`, or a test for NULL without a bound."""

    value: Value
    operator: str
    bound: Place | None
    values: ValueSet = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Labelled:
    """That a row's parent is in a node: the node's label stands in a text of labels, such as `7.0 12.3`."""

    column: str
    node: int


#: One of these must hold; and for a node, all of its clauses.
Clause: TypeAlias = tuple[Check | Labelled, ...]
Conjunction: TypeAlias = tuple[Clause, ...]


class Membership:
    """The rows of each node, of the rows of one table."""

    def __init__(
        self, rows: int, kinds: Positions, satisfied: Mapping[int, Mask], clauses: Sequence[Mask] = ()
    ) -> None:
        #: The kind of each row, and for each node, and for each clause by number, which kinds are in it.
        self._kinds, self._satisfied, self._clauses = kinds, satisfied, clauses
        self._count = rows

    def __len__(self) -> int:
        return self._count

    def count(self, node: int) -> int:
        """How many rows are in a node."""
        return int(self._by_kind[2][self._satisfied[node]].sum())

    def satisfying(self, clauses: Sequence[int], rows: Mask | None = None) -> list[int]:
        """How many rows, or how many of some of them, satisfy each of some clauses of the evaluator."""
        if not self._count:
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
        """The positions of the rows in a node."""
        order, starts, counts = self._by_kind
        wanted = np.flatnonzero(self._satisfied[node])
        lengths = counts[wanted]
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return np.asarray(order[np.repeat(starts[wanted], lengths) + within])

    def in_any(self, nodes: Iterable[int]) -> Mask:
        """Which rows are in one of some nodes."""
        masks = [self._satisfied[node] for node in nodes]
        if not masks:
            return np.zeros(self._count, dtype=bool)
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
class Evaluator:
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
    def _subjects(self) -> tuple[Intervals, ...]:
        """The intervals of every subject."""
        found: dict[Value, dict[Check, None]] = {}
        for clause in self.clauses:
            for check in clause:
                if isinstance(check, Check):
                    found.setdefault(check.value, {})[check] = None
        return tuple(Intervals(value, tuple(checks)) for value, checks in found.items())

    @cached_property
    def _truths(self) -> tuple[tuple[tuple[int, Mask], ...], ...]:
        """For each clause its checks: the number of the subject, and in which of its intervals the check holds."""
        numbers = {intervals.value: number for number, intervals in enumerate(self._subjects)}
        return tuple(
            tuple(
                (numbers[check.value], self._subjects[numbers[check.value]].truth(check))
                for check in clause
                if isinstance(check, Check)
            )
            for clause in self.clauses
        )

    @cached_property
    def _labelled(self) -> tuple[tuple[int, Labelled], ...]:
        """The checks of labels, each with the number of its clause."""
        return tuple(
            (number, check)
            for clause, number in self.clauses.items()
            for check in clause
            if isinstance(check, Labelled)
        )

    def of(self, table: pa.Table, parents: Mapping[int, str] | None = None) -> Membership:
        """Which rows of a table are in which nodes. The rows' parents are labelled as `parents` says."""
        numbers = [each.numbers(table) for each in self._subjects]
        labels = {column: _distinct(table[column]) for column in sorted({each.column for _, each in self._labelled})}
        kinds, representatives = _kinds([*numbers, *(codes for codes, _ in labels.values())], table.num_rows)
        seen = [codes[representatives] for codes in numbers]
        held = []
        for checks in self._truths:
            holds = np.zeros(len(representatives), dtype=bool)
            for subject, truth in checks:
                holds |= truth[seen[subject]]
            held.append(holds)
        sets = {column: [frozenset(text.split()) for text in texts] for column, (_, texts) in labels.items()}
        for number, check in self._labelled:
            label = (parents or {})[check.node]
            known = np.array([label in listed for listed in sets[check.column]], dtype=bool)
            held[number] |= known[labels[check.column][0][representatives]]
        satisfied = {
            node: _all([held[clause] for clause in clauses], len(representatives))
            for node, clauses in self._clauses_of_nodes.items()
        }
        return Membership(table.num_rows, kinds, satisfied, held)


class Intervals:
    """The elementary intervals of a subject: how values get their numbers, and in which of them a check holds.

    With cuts 0, 1, …, m − 1 in ascending order, a value between cuts i − 1 and i has the number i; NULL has m + 1.
    """

    def __init__(self, value: Value, checks: Sequence[Check]) -> None:
        self.value = value
        scale = value.scale if isinstance(value, Plain | Combination) else 0
        ends = {cut for check in checks for span in check.values.spans for cut in span if cut not in (FIRST, LAST)}
        self._places: dict[Cut, Any] = {cut: first_not_below(cut[1], cut[2], scale) for cut in ends}
        #: The cuts that a value can lie on either side of.
        self._cuts: list[Any] = sorted({each for each in self._places.values() if not _is_out_of_reach(each)})
        self._positions = {place: position for position, place in enumerate(self._cuts)}

    def truth(self, check: Check) -> Mask:
        """In which intervals a check holds."""
        truth = np.zeros(len(self._cuts) + 2, dtype=bool)
        for low, high in check.values.spans:
            truth[self._first_after(low) : self._first_after(high)] = True
        truth[-1] = check.values.null
        return truth

    def _first_after(self, cut: Cut) -> int:
        """The number of the first interval above a cut."""
        if cut == FIRST:
            return 0
        if cut == LAST:
            return len(self._cuts) + 1
        place = self._places[cut]
        if _is_out_of_reach(place):
            return 0 if place < 0 else len(self._cuts) + 1
        return self._positions[place] + 1

    def numbers(self, table: pa.Table) -> Positions:
        """The number of the interval that each row's value lies in."""
        if isinstance(self.value, Plain) and _is_text(table[self.value.column].type):
            codes, texts = _distinct(table[self.value.column])
            # Just above a text is the place (text, 1); a text itself is at (text, 0), and above the cut just below it.
            found = [bisect_right(self._cuts, (text, 0)) for text in texts]
            return np.append(np.array(found, dtype=np.int64), len(self._cuts) + 1)[codes]
        values, nulls = _evaluated(self.value, table)
        found_here = np.searchsorted(np.array(self._cuts, dtype=np.int64), values, side="right")
        found_here[nulls] = len(self._cuts) + 1
        return found_here


def _is_out_of_reach(place: Any) -> bool:
    return isinstance(place, int) and not within_64_bits(place)


def _is_text(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(each(type_) for each in kinds)


def _distinct(column: pa.ChunkedArray) -> tuple[Positions, list[Any]]:
    """Texts by number, and the texts; NULL has the number after the last."""
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), len(texts))), texts


def _evaluated(value: Value, table: pa.Table) -> tuple[Numbers, Mask]:
    if isinstance(value, Plain):
        return ordinals(table[value.column])
    if isinstance(value, Comparison):
        return _compared(table[value.left], table[value.right])
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


def _compared(left: pa.ChunkedArray, right: pa.ChunkedArray) -> tuple[Numbers, Mask]:
    nulls = np.asarray(pc.or_(pc.is_null(left), pc.is_null(right)))
    if _is_text(left.type):
        less, equal = pc.less(left, right), pc.equal(left, right)
        signs = 1 - np.asarray(pc.fill_null(equal, False)) - 2 * np.asarray(pc.fill_null(less, False)).astype(np.int64)
        return signs, nulls
    first, second = ordinals(left)[0], ordinals(right)[0]
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


def _all(masks: Sequence[Mask], size: int) -> Mask:
    return np.logical_and.reduce(masks) if masks else np.ones(size, dtype=bool)
