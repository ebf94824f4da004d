"""Queries, streams and what was measured of them, as the coordinator's substreams and interests.

Streams are cut by the conditions of the queries that there are, so that each query wants all of a substream or nothing
of it. How much flows in each follows from samples that the owners of streams send. A stream that nothing was heard of
yet flows at a rate of one, so that sharing it still counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from weft.algebra import Column, Query
from weft.federation.live.ledger import Ledger, Standing
from weft.federation.model.derived import StreamSplit, interest_in, split_of, wanted_of
from weft.federation.model.queries import QuerySet, query_set
from weft.federation.model.substreams import Substreams
from weft.predicates.intervals import Place, floating
from weft.predicates.subjects import Subject, Sum, Term

#: Bytes per second of a stream that nobody has measured.
_UNKNOWN_RATE = 1.0
#: The part of what a query reads that it answers, and the seconds of it that are fed again when it moves.
_ANSWERED = 0.1
_FED_AGAIN = 60.0
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Measured:
    """What the owner of a stream has told: bytes per second, and some rows."""

    rate: float
    sample: pa.Table


@dataclass(frozen=True)
class Flow:
    """All substreams, and those that each of some queries wants."""

    substreams: Substreams
    interests: list[list[int]]

    def queries(self, load: Sequence[float], home: Sequence[int]) -> QuerySet:
        """The queries as they are placed, with loads and the numbers of their homes.

        What a query answers and what moves along with it are guessed from what it reads: a tenth of it comes out, and
        a minute of it is fed again where the query goes to.
        """
        reads = [float(self.substreams.rate[each].sum()) for each in self.interests]
        return query_set(
            self.interests, load, home, [_ANSWERED * rate for rate in reads], [_FED_AGAIN * rate for rate in reads]
        )


def flow_of(
    ledger: Ledger, queries: Sequence[Standing | Query], sources: Sequence[str], measured: Mapping[str, Measured]
) -> Flow:
    """The substreams of all streams, by what some queries want of them; `sources` are the sites that have streams."""
    texts = [each.query if isinstance(each, Standing) else each for each in queries]
    others = {each.query.name: each.query for each in ledger.running()} | {each.name: each for each in texts}
    wanted = [wanted_of(each, others) for each in texts]
    interests: list[list[int]] = [[] for _ in texts]
    owners: list[int] = []
    rates: list[float] = []
    for name, record in ledger.streams.items():
        split = split_of(name, [each for one in wanted for each in one.get(name, ())])
        for number, one in enumerate(wanted):
            if name in one:
                interests[number] += [len(rates) + place for place in interest_in(split, one[name])]
        owners += [sources.index(record.owner)] * len(split)
        rates += _rates(split, measured.get(name))
    return Flow(Substreams(np.array(owners, np.int32), np.array(rates, np.float64)), interests)


def _rates(split: StreamSplit, known: Measured | None) -> list[float]:
    """The bytes per second in each substream: as in the sample, and a little where it has nothing."""
    rate = known.rate if known is not None else _UNKNOWN_RATE
    column = _column_of(split.subject)
    if known is None or column is None or column not in known.sample.column_names or not known.sample.num_rows:
        return [rate / len(split)] * len(split)
    counts = np.full(len(split), 0.5)
    for value in known.sample[column].to_pylist():
        counts[split.position(_place(value))] += 1
    return [float(each) for each in rate * counts / counts.sum()]


def _column_of(subject: Subject | None) -> str | None:
    expression = None
    if isinstance(subject, Sum) and subject.atom is not None:
        expression = subject.atom.expression
    elif isinstance(subject, Term):
        expression = subject.expression
    return expression.name if isinstance(expression, Column) else None


def _place(value: Any) -> Place | None:
    """A value of a sample as the cuts have it."""
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, float):
        return floating(value)
    if isinstance(value, datetime):
        return Fraction(round(value.timestamp() * 1_000_000))
    if isinstance(value, date):
        return Fraction((value - _EPOCH).days)
    return Fraction(value) if isinstance(value, int | Decimal) else None
