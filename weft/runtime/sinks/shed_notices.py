"""What answers say of the rows that were left out before them, wherever they go.

Tables of answers say it in their schema's metadata, under `weft.kept`, for each such stream that a query reads. Windows
that begin later than the clock `until` have lost nothing. Parquet files and subscribers get that with the table; other
sinks say it as they can.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from weft.algebra import Answers, Query, Stream
from weft.algebra.properties import leaves
from weft.plan.query_list import QueryList
from weft.runtime.state.commits import WHOLE, Commit, StreamState

METADATA = b"weft.kept"

#: The `share` of rows that was kept, the clock `until` which some were left out, and how many were `shed` in all.
ShedNotice: TypeAlias = Mapping[str, float | int | None]


def with_notices_of_streams(answers: Mapping[str, pa.Table], plan: QueryList, commit: Commit) -> dict[str, pa.Table]:
    """Answers, each with what was kept of the streams that may shed which its query reads."""
    if not any(each.shed_allowed for each in plan.streams):
        return dict(answers)
    reads = shedding_streams(plan.queries)
    return {name: with_notices(table, notices_of(reads[name], commit.streams)) for name, table in answers.items()}


def notices_of(streams: frozenset[str], states: Mapping[str, StreamState]) -> dict[str, ShedNotice]:
    """What was kept of some streams."""
    return {
        name: {"share": states[name].kept / WHOLE, "until": states[name].shed_until, "shed": states[name].shed}
        for name in sorted(streams)
        if name in states
    }


def with_notices(table: pa.Table, kept: Mapping[str, ShedNotice]) -> pa.Table:
    """A table that says what was kept of the streams that its rows come from, if some may shed."""
    if not kept:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: json.dumps(kept).encode()})


def notices_in(table: pa.Table) -> dict[str, ShedNotice]:
    """What a table of answers says was kept of streams; nothing if none of them may shed."""
    found: dict[str, ShedNotice] = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    return found


def notice_sentences(kept: Mapping[str, ShedNotice]) -> list[str]:
    """What was left out of streams, for people; nothing if all rows have been kept."""
    return [
        f"of stream {stream} the newest cycle kept {each['share']:.3g} of all rows; "
        f"{each['shed']:,} were left out so far, up to {each['until']}"
        for stream, each in kept.items()
        if each["shed"]
    ]


def shedding_streams(queries: Sequence[Query]) -> dict[str, frozenset[str]]:
    """For each query the streams that may shed which its answers come from, through whatever other queries."""
    found: dict[str, frozenset[str]] = {}
    for query in queries:
        names: set[str] = set()
        for leaf in leaves(query.relation):
            if isinstance(leaf, Answers):
                names |= found.get(leaf.query, frozenset())
            elif isinstance(leaf, Stream) and leaf.shed_allowed:
                names.add(leaf.name)
        found[query.name] = frozenset(names)
    return found
