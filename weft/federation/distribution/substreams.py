"""Which data real queries want: substreams found from their conditions.

The constants that queries compare an attribute of a stream with cut its values into elementary intervals. An interval
is a substream: every query wants all of it or nothing of it, as far as this attribute goes. One attribute per stream
is enough to send rows where they may be wanted, and not elsewhere; the rest of a condition is tested where the query
runs.

    trades by symbol      Q1: symbol = 'A'      Q2: symbol IN ('A', 'B')      Q3: price > 10
    substreams            …(A  [A]  (A…B)  [B]  B)…  NULL
    wanted by             3     1 2 3   3    2 3   3     3

What is wanted is never less than what a query needs. Where a condition cannot be read, all of the stream is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.algebra import Answers, Column, Expression, Input, Query, Relation, Select, SetOperation, Stream, Table
from weft.predicates.domains import EVERYTHING, LAST, ValueSet, union
from weft.predicates.normal_forms import Box, by_sources, conjunctive_form, disjunctive_form
from weft.predicates.operations import under
from weft.predicates.row_matching import PlainColumn, SubjectIntervals
from weft.predicates.terms import Subject, Sum, Term

#: The most substreams of a stream; of more cuts some are left out, and queries want a little more.
MOST_SUBSTREAMS = 1_000

_ALL = ValueSet(EVERYTHING.spans, null=True)

#: What a query wants of a stream: by subject the values it may have. Subjects that are not named may have any.
Wanted = Mapping[Subject, ValueSet]


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
    found: dict[str, list[Wanted]] = {}
    for select, item, stream, _ in stream_reads(query.relation, others or {}):
        found.setdefault(stream.name, []).append(_wanted(boxes_of(select, item.alias, stream)))
    return {stream: tuple(each) for stream, each in found.items()}


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


def stream_reads(
    relation: Relation, others: Mapping[str, Query], emits_empty: bool = False
) -> Iterator[tuple[Select, Input, Stream, bool]]:
    """Each time that a stream is read: by which select, as which input, and whether for a window that may be empty."""
    if isinstance(relation, SetOperation):
        yield from stream_reads(relation.left, others, emits_empty)
        yield from stream_reads(relation.right, others, emits_empty)
        return
    counted = emits_empty or relation.emit_empty
    for each in relation.inputs:
        if isinstance(each.source, Stream):
            yield relation, each, each.source, counted
        elif isinstance(each.source, Answers):
            if each.source.query in others:
                yield from stream_reads(others[each.source.query].relation, others)
        elif not isinstance(each.source, Table):
            yield from stream_reads(each.source, others, counted)


def boxes_of(select: Select, alias: str, stream: Stream) -> tuple[Box, ...] | None:
    """The conditions of a select on one of its inputs alone, as boxes; None if they cannot be read."""
    alone = by_sources(conjunctive_form(select.where)).get(frozenset({alias}))
    return None if alone is None else disjunctive_form(under({alias: stream.name}, alone))


def column_of(subject: Subject | None) -> Column | None:
    """The column that a subject is, if it is one."""
    expression: Expression | None = None
    if isinstance(subject, Sum) and subject.atom is not None:
        expression = subject.atom.expression
    elif isinstance(subject, Term):
        expression = subject.expression
    return expression if isinstance(expression, Column) else None


def _wanted(boxes: tuple[Box, ...] | None) -> Wanted:
    if boxes is None:
        return {}
    subjects = {subject for box in boxes for subject in box}
    # A subject counts if every box says something of it; a box that does not would take any value.
    return {
        subject: union(box[subject] for box in boxes)
        for subject in sorted(subjects, key=lambda each: each.text)
        if all(subject in box for box in boxes)
    }
