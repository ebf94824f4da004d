"""How a project's parcels are laid out in NATS.

    stream WEFT_<project>           res.<project>.<group>.<bucket>     rows of that bucket, and perhaps of some after it
                                    mark.<project>                     one for each parcel, after its rows
    stream WEFT_<project>_routes    route.<project>.<query>            the newest itinerary of a query
                                    buckets.<project>.<name>           how rows are put into buckets
                                    access.<project>                   who may take what: hashes of tokens

A mark says which messages make up its parcel: by the numbers that NATS gave them. So a message that was stored twice,
because the publisher did not hear that it had been stored, is in the parcel once; and a reader takes from a parcel just
the messages that it needs, whichever order or bucket they are in. A parcel without its mark is not there yet.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import astuple, dataclass
from typing import Any

from weft.delivery.nats.connection import subject_token


@dataclass(frozen=True, slots=True)
class Subjects:
    """The names that a project has in NATS."""

    project: str

    @property
    def rows_stream(self) -> str:
        return f"WEFT_{subject_token(self.project)}"

    @property
    def routes_stream(self) -> str:
        return f"{self.rows_stream}_routes"

    @property
    def mark(self) -> str:
        return f"mark.{subject_token(self.project)}"

    def rows(self, group: str, bucket: int | None) -> str:
        token = "all" if bucket is None else "null" if bucket < 0 else str(bucket)
        return f"res.{subject_token(self.project)}.{subject_token(group)}.{token}"

    def route(self, query: str) -> str:
        return f"route.{subject_token(self.project)}.{subject_token(query)}"

    def buckets(self, name: str) -> str:
        return f"buckets.{subject_token(self.project)}.{name}"

    @property
    def access(self) -> str:
        return f"access.{subject_token(self.project)}"

    def everything(self, kind: str) -> str:
        return f"{kind}.{subject_token(self.project)}.>"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of a parcel as NATS has it, under a number of its own, with rows of buckets from a first to a last.

    Without buckets it has rows of all of them.
    """

    group: str
    epoch: int
    ordinal: int
    watermark: int | None
    number: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """What a parcel consists of. `before` is the number of the mark before it, `buckets` names those of each group."""

    cycle: int
    at: int
    previous: int | None
    before: int | None
    routes: tuple[str, ...]
    buckets: dict[str, str]
    stored: tuple[Stored, ...]


def mark_bytes(mark: Mark) -> bytes:
    """A mark as NATS keeps it."""
    document = {
        "cycle": mark.cycle,
        "at": mark.at,
        "previous": mark.previous,
        "before": mark.before,
        "routes": mark.routes,
        "buckets": mark.buckets,
        "stored": [astuple(each) for each in mark.stored],
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)


def mark_of(data: bytes) -> Mark:
    """The mark that NATS keeps as bytes."""
    document: dict[str, Any] = json.loads(zlib.decompress(data))
    return Mark(
        document["cycle"],
        document["at"],
        document["previous"],
        document["before"],
        tuple(document["routes"]),
        document["buckets"],
        tuple(Stored(*each) for each in document["stored"]),
    )
