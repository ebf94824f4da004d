"""How a project's parcels are laid out in NATS.

    stream WEFT_<project>           res.<project>.<group>.<bucket>     rows of that bucket, and perhaps of some after it
                                    mark.<project>                     one for each parcel, after its rows
    stream WEFT_<project>_routes    route.<project>.<query>            the newest itinerary of a query
                                    access.<project>                   the grants: hashes of tokens

A mark says which messages make up its parcel: by the numbers that NATS gave them. So a message that was stored twice,
because the publisher did not hear that it had been stored, is in the parcel once; and a reader takes just the messages
that it needs. A parcel without its mark is not there yet.

**Buckets** are coarse routing by content, since a broker knows subjects and nothing of rows. A group's rows are put
into buckets by the column that most of its members restrict. A reader that wants only some of its values takes only the
buckets that these can be in, and still tests every row.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from weft.algebra.expressions import Value
from weft.delivery.delivery_errors import BrokerError
from weft.delivery.itinerary import Itinerary, Span
from weft.delivery.nats_connection import subject_token
from weft.delivery.subscription_index import box_of, numbers_of, place_of
from weft.plan.subscription import Comparison, Conjunction, constant_as_json, constant_from_json
from weft.predicates.domains import EVERYTHING, ValueSet, satisfying
from weft.predicates.row_matching import PlainColumn, SubjectIntervals


class Subjects:
    """The names that a project has in NATS."""

    def __init__(self, project: str) -> None:
        self._project = subject_token(project)
        self.rows_stream = f"WEFT_{self._project}"
        self.routes_stream = f"{self.rows_stream}_routes"
        self.mark = f"mark.{self._project}"
        self.access = f"access.{self._project}"

    def rows(self, group: str, bucket: int | None) -> str:
        return f"res.{self._project}.{subject_token(group)}.{'all' if bucket is None else bucket}"

    def route(self, query: str) -> str:
        return f"route.{self._project}.{subject_token(query)}"

    def everything(self, kind: str) -> str:
        return f"{kind}.{self._project}.>"


class Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A message of a parcel, by its number in NATS: with rows of buckets from a first to a last, or of all."""

    group: str
    epoch: int
    watermark: int | None
    number: int
    first: int | None = None
    last: int | None = None


class ParcelMark(msgspec.Struct, frozen=True):
    """What a parcel consists of. `buckets` are those of each group whose rows are divided."""

    cycle: int
    at: int
    previous: int | None
    routes: tuple[str, ...]
    buckets: dict[str, tuple[str, list[Any]]]
    stored: tuple[Stored, ...]


def mark_bytes(mark: ParcelMark) -> bytes:
    return zlib.compress(msgspec.json.encode(mark), 1)


def mark_of(data: bytes) -> ParcelMark:
    """The mark that bytes hold. Raises BrokerError for one that another release has written."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=ParcelMark)
    except msgspec.ValidationError as error:
        raise BrokerError(
            "NATS has parcels of another release of weft; delete its streams of the project, which fills them again"
        ) from error


#: n bounds make 2n + 1 buckets, and there is one for NULL: 64 in all.
_MOST_BOUNDS: Final = 31
_ANYTHING: Final = ValueSet(EVERYTHING.spans, null=True)
_ALL: Final = Span("", 0)

_NARROWING: Final = ("<", "<=", "=", ">", ">=", "in")


@dataclass(frozen=True, slots=True)
class Buckets:
    """The column by whose values rows are put into buckets, and the values that divide them."""

    column: str
    bounds: tuple[Value, ...]

    def split(self, rows: pa.Table, at_least: int) -> Iterator[tuple[tuple[int, int], pa.Table]]:
        """Rows by buckets, from a first to a last: neighbours are put together until they have enough rows."""
        found = numbers_of(self._intervals(), rows)
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
        intervals = self._intervals()
        met = np.zeros(intervals.null + 1, dtype=bool)
        for conjunction in conjunctions:
            here = tuple(each for each in conjunction if each.column == self.column and each.other is None)
            box = box_of(here, _ALL)
            if box is not None:
                met |= intervals.truth(box.get(intervals.value, _ANYTHING))
        return frozenset(np.flatnonzero(met).tolist())

    def _intervals(self) -> SubjectIntervals:
        """The buckets: one for each bound and each gap beside one, and the last for NULL."""
        return SubjectIntervals(PlainColumn(self.column), [satisfying("=", place_of(each)) for each in self.bounds])

    def as_json(self) -> tuple[str, list[Any]]:
        return self.column, [constant_as_json(each) for each in self.bounds]

    @classmethod
    def from_json(cls, column: str, bounds: list[Any]) -> Buckets:
        return cls(column, tuple(constant_from_json(each) for each in bounds))


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
    listed = sorted((each for each in values[column] if each is not None), key=place_of)
    step = max(1, -(-len(listed) // _MOST_BOUNDS))
    return Buckets(column, tuple(listed[step // 2 :: step][:_MOST_BOUNDS]))


def _narrows(each: Comparison) -> bool:
    return each.other is None and each.op in _NARROWING and each.value is not None
