"""Buckets: coarse routing by content, for brokers that know subjects and nothing of rows.

A group's rows are put into buckets by one column, the one that most of its members restrict. Who wants only some of its
values takes only the buckets that these can be in. Buckets are no promise: every row is still tested exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from weft.algebra.expressions import Value
from weft.delivery.itinerary import Itinerary
from weft.delivery.matching.places import NULL_PIECE, constants, pieces
from weft.plan.subscription import Comparison, Conjunction, constant_as_json, constant_from_json

#: n bounds make 2n + 1 buckets, and there is one for NULL: 64 in all.
_MOST_BOUNDS: Final = 31

_NARROWING: Final = ("<", "<=", "=", ">", ">=", "in")


@dataclass(frozen=True, slots=True)
class Buckets:
    """The column by whose values rows are put into buckets, and the values that divide them."""

    column: str
    bounds: tuple[Value, ...]

    def split(self, rows: pa.Table, at_least: int) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        """Rows by buckets, from a first to a last: neighbours are put together until they have so many rows."""
        found = pieces(rows.column(self.column).combine_chunks(), constants(self.bounds))
        buckets, counts = np.unique(found, return_counts=True)
        first, gathered = 0, 0
        for at, count in enumerate(counts.tolist()):
            gathered += count
            if gathered >= at_least or at + 1 == len(buckets):
                inside = (found >= buckets[first]) & (found <= buckets[at])
                yield (int(buckets[first]), int(buckets[at])), rows.take(pa.array(np.flatnonzero(inside)))
                first, gathered = at + 1, 0

    def met(self, conjunctions: Iterable[Conjunction]) -> frozenset[int]:
        """The buckets in which rows can be for which one of some conjunctions holds."""
        return frozenset().union(*(self._met_by_all(each) for each in conjunctions))

    def _met_by_all(self, conjunction: Conjunction) -> frozenset[int]:
        every = frozenset(range(NULL_PIECE, 2 * len(self.bounds) + 1))
        here = [self._met(each) for each in conjunction if each.column == self.column and each.other is None]
        return every.intersection(*here)

    def _met(self, each: Comparison) -> frozenset[int]:
        last = 2 * len(self.bounds)
        if each.op == "is null":
            return frozenset({NULL_PIECE})
        if each.op == "in":
            assert isinstance(each.value, tuple)
            return frozenset(self._bucket(one) for one in each.value if one is not None)
        if each.value is None or each.op in ("!=", "is not null"):
            return frozenset(range(last + 1))
        bucket = self._bucket(each.value)
        # A bucket between two bounds has values on both sides of a constant in it; that of a bound has only the bound.
        beside = bucket % 2
        return {
            "<": lambda: frozenset(range(bucket - beside + 1)),
            "<=": lambda: frozenset(range(bucket + 1)),
            "=": lambda: frozenset({bucket}),
            ">=": lambda: frozenset(range(bucket, last + 1)),
            ">": lambda: frozenset(range(bucket + beside, last + 1)),
        }[each.op]()

    def _bucket(self, value: Any) -> int:
        among = constants(self.bounds)
        (constant,) = constants([value])
        return bisect_left(among, constant) + bisect_right(among, constant)

    def as_json(self) -> dict[str, Any]:
        """Buckets as plain data."""
        return {"column": self.column, "bounds": [constant_as_json(each) for each in self.bounds]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Buckets:
        """The buckets that plain data describe."""
        return cls(document["column"], tuple(constant_from_json(each) for each in document["bounds"]))


def choose(group: str, routes: Sequence[Itinerary]) -> Buckets | None:
    """Buckets by the column that most members restrict, divided where they divide it; None if few restrict any."""
    restricting: Counter[str] = Counter()
    values: dict[str, set[Value]] = {}
    for route in routes:
        conjunctions = [one for each in route.subscriptions if each.stream == group for one in each.any_of]
        restricted = [{each.column for each in one if _narrows(each)} for one in conjunctions]
        for column in set.intersection(*restricted) if restricted else ():
            restricting[column] += 1
        for each in (each for one in conjunctions for each in one if _narrows(each)):
            values.setdefault(each.column, set()).update(each.value if isinstance(each.value, tuple) else (each.value,))
    column, members = max(restricting.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    if 2 * members < len(routes) or members < 2:
        return None
    listed = sorted((each for each in values[column] if each is not None), key=lambda each: constants([each])[0])
    step = max(1, -(-len(listed) // _MOST_BOUNDS))
    return Buckets(column, tuple(listed[step // 2 :: step][:_MOST_BOUNDS]))


def _narrows(each: Comparison) -> bool:
    return each.other is None and each.op in _NARROWING and each.value is not None
