"""What queries want of streams: the rows and columns to send for them, and the substreams to place them by.

Both are found from the queries' conditions on a stream alone, as boxes that the wanted rows lie in. They are never less
than what a query needs: where conditions cannot be read, all rows are wanted, and also for windows that may be EMPTY,
which count from the first row that the stream has.

An **interest** is what is sent: all boxes, as far as they are about columns. For placement one attribute per stream is
enough, the one that most queries constrain: the constants that they compare it with cut its values into elementary
intervals. An interval is a **substream**, and each query wants all of it or nothing of it.

    trades by symbol      Q1: symbol = 'A'      Q2: symbol IN ('A', 'B')      Q3: price > 10
    substreams            …(A  [A]  (A…B)  [B]  B)…  NULL
    wanted by             3     1 2 3   3    2 3   3     3
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import Answers, Column, Input, Query, Relation, SetOperation, Stream, Table
from weft.predicates.domains import EVERYTHING, LAST, ValueSet, union
from weft.predicates.normal_forms import Box, by_sources, conjunctive_form, disjunctive_form
from weft.predicates.operations import under
from weft.predicates.row_matching import Check, PlainColumn, RowMatcher, SubjectIntervals
from weft.predicates.subjects import Subject
from weft.predicates.terms import Term

#: The most substreams of a stream; of more cuts some are left out, and queries want a little more.
MOST_SUBSTREAMS = 1_000

#: With more boxes than this, to test them takes longer than to send unwanted rows.
MOST_BOXES = 256

_ALL = ValueSet(EVERYTHING.spans, null=True)

#: The values that a row must have, by column; and the box that every row lies in.
ColumnBox: TypeAlias = tuple[tuple[str, ValueSet], ...]
ALL_ROWS: tuple[ColumnBox, ...] = ((),)

#: What a query wants of a stream: by subject the values it may have. Subjects that are not named may have any.
Wanted: TypeAlias = Mapping[Subject, ValueSet]


@dataclass(frozen=True, slots=True)
class Interest:
    """The rows that lie in one of some boxes, and of these some columns."""

    columns: frozenset[str]
    any_of: tuple[ColumnBox, ...] = ALL_ROWS

    def mask(self, rows: pa.Table) -> NDArray[np.bool_]:
        """For each row whether it is wanted."""
        if self.any_of == ALL_ROWS:
            return np.ones(rows.num_rows, bool)
        matcher = RowMatcher(
            {
                at: tuple((Check(PlainColumn(name), values),) for name, values in box)
                for at, box in enumerate(self.any_of)
            }
        )
        return matcher.of(rows).in_any(matcher.nodes)


def united(interests: Iterable[Mapping[str, Interest]]) -> dict[str, Interest]:
    """By stream what all of some queries need."""
    listed: defaultdict[str, list[Interest]] = defaultdict(list)
    for each in interests:
        for stream, interest in each.items():
            listed[stream].append(interest)
    found = {}
    for stream, of_stream in listed.items():
        any_of = tuple(dict.fromkeys(box for each in of_stream for box in each.any_of))
        columns = frozenset().union(*(each.columns for each in of_stream))
        found[stream] = Interest(columns, ALL_ROWS if () in any_of or len(any_of) > MOST_BOXES else any_of)
    return found


def interests_of(query: Query) -> dict[str, Interest]:
    """By stream what is sent for a query. What it needs of other queries' answers, those need themselves."""
    found = []
    for stream, columns, boxes in _reads(query.relation, {}):
        named = ([(column_of(subject), values) for subject, values in box.items()] for box in boxes)
        any_of = tuple(tuple((column.name, values) for column, values in box if column is not None) for box in named)
        found.append({stream.name: Interest(columns.union(name for box in any_of for name, _ in box), any_of)})
    return united(found)


@dataclass(frozen=True)
class StreamSplit:
    """A stream in substreams: the intervals of a subject in ascending order, and after them NULL.

    A stream that no query constrains has no subject, and is one substream.
    """

    subject: Subject | None
    intervals: SubjectIntervals

    def __len__(self) -> int:
        return self.intervals.null + 1 if self.subject else 1

    def interest(self, wanted: Sequence[Wanted]) -> list[int]:
        """The substreams that a query wants, for what it reads of the stream."""
        if self.subject is None:
            return [0]
        values = union(each.get(self.subject, _ALL) for each in wanted)
        return np.flatnonzero(self.intervals.truth(values)).tolist()

    def rates(self, rate: float, sample: pa.Table) -> list[float]:
        """The bytes per second in each substream: as in a sample, and a little where it has nothing."""
        column = column_of(self.subject)
        counts = np.full(len(self), 0.5)
        if column is not None and column.name in sample.column_names:
            counts += np.bincount(self.intervals.numbers(sample), minlength=len(self))
        found: list[float] = (rate * counts / counts.sum()).tolist()
        return found


def wanted_of(query: Query, others: Mapping[str, Query] | None = None) -> dict[str, tuple[Wanted, ...]]:
    """By stream what a query reads of it, once for each time that it reads it.

    `others` are the queries whose answers it may read: then it wants what they want.
    """
    found: defaultdict[str, tuple[Wanted, ...]] = defaultdict(tuple)
    for stream, _, boxes in _reads(query.relation, others or {}):
        # A subject counts if every box says something of it; a box that does not would take any value.
        subjects = sorted(set(boxes[0]).intersection(*boxes), key=lambda each: each.text) if boxes else ()
        found[stream.name] += ({subject: union(box[subject] for box in boxes) for subject in subjects},)
    return dict(found)


def split_of(wanted: Sequence[Wanted], most: int = MOST_SUBSTREAMS) -> StreamSplit:
    """The substreams of a stream, by the subject that most of its readers constrain."""
    constrained = Counter(subject for each in wanted for subject in each)
    if not constrained:
        return StreamSplit(None, SubjectIntervals(PlainColumn(""), ()))
    subject = min(constrained, key=lambda each: (-constrained[each], each.text))
    cuts = sorted({cut for each in wanted if subject in each for span in each[subject].spans for cut in span})
    inside = [cut for cut in cuts if any(low < cut < high for low, high in subject.domain.whole.spans)]
    if len(inside) >= most:
        inside = inside[:: len(inside) // most + 1]
    column = column_of(subject)
    value = PlainColumn("" if column is None else column.name)
    return StreamSplit(subject, SubjectIntervals(value, [ValueSet(tuple((cut, LAST) for cut in inside))]))


def column_of(subject: Subject | None) -> Column | None:
    """The column that a subject is, if it is one."""
    expression = subject.expression if isinstance(subject, Term) else None
    return expression if isinstance(expression, Column) else None


def _reads(
    relation: Relation, others: Mapping[str, Query], emits_empty: bool = False
) -> Iterator[tuple[Stream, frozenset[str], tuple[Box, ...]]]:
    """Each time that a stream is read: the columns that are computed with, and the boxes that wanted rows lie in."""
    if isinstance(relation, SetOperation):
        yield from _reads(relation.left, others, emits_empty)
        yield from _reads(relation.right, others, emits_empty)
        return
    emits_empty = emits_empty or relation.emit_empty
    for item in relation.inputs:
        source, alias = item.source, item.alias
        if isinstance(source, Stream):
            columns = frozenset(each.name for each in _columns(relation) if each.source == alias)
            alone = by_sources(conjunctive_form(relation.where)).get(frozenset({alias}))
            boxes = None if alone is None else disjunctive_form(under({alias: source.name}, alone))
            yield source, columns | {source.clock}, ({},) if boxes is None or emits_empty else boxes
        elif isinstance(source, Answers):
            if source.query in others:
                yield from _reads(others[source.query].relation, others)
        elif not isinstance(source, Table):
            yield from _reads(source, others, emits_empty)


def _columns(node: object) -> Iterator[Column]:
    """The columns that a select computes with; not those of the relations that it reads."""
    if isinstance(node, Column):
        yield node
    elif isinstance(node, tuple):
        for each in node:
            yield from _columns(each)
    elif is_dataclass(node) and not isinstance(node, Input):
        for field in fields(node):
            yield from _columns(getattr(node, field.name))
