"""Overload: rows are left out only if a stream was declared SHED ALLOWED and cycles keep falling behind.

    back-pressure     a cycle takes the next rows when the one before is done, and no more of them than the source's
                      options allow; what has not been taken waits where it is, in files or in a broker
    falling behind    with an interval between cycles (`weft run --every`), a cycle that takes longer puts the next one
                      off. By how much all of them have, is what `weft status` says; shorter cycles make up for it
    shedding          after three cycles in a row that took longer than the interval, streams that may shed keep so many
                      rows that the next ones should not; when there is time to spare again, they keep more, up to all

Which rows are left out follows from their values and from the cycle, and how many is in the cycle's intent: a cycle
that is run again after a crash leaves out the same rows. What is left out takes part in nothing, as if it had never
come, and queries answer exactly what they would over the rows that were kept. Tables of answers say in their schema's
metadata, under `weft.kept`, for each such stream that a query reads: the share that was kept in the cycle, and the
largest clock after the last cycle that left rows out (null if none has). Windows that begin later have lost nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.algebra import Answers, Query, Stream
from weft.algebra.sources import leaves
from weft.engine.commits import WHOLE, Commit, StreamState
from weft.engine.rows import CORRUPT, STREAM, column
from weft.plan.plan import Plan

#: However far behind, so many of `WHOLE` rows are kept.
LEAST = 16
#: So many cycles in a row have to fall behind, or to have time to spare, before the rate changes.
PATIENCE = 3
#: A cycle that takes less than this part of the interval has time to spare, and this part is what a new rate aims at.
SPARE, AIM = 0.7, 0.85
#: A rate grows by so much at once: what cycles cost beside their rows makes it look as if there was more room.
GROWTH = 1.5

METADATA = b"weft.kept"

#: The `share` of rows that was kept, and the clock `until` which some were left out.
Kept: TypeAlias = Mapping[str, float | int | None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How many of `WHOLE` rows are kept, by how many seconds cycles are late in all, and for how many in a row they
    have fallen behind (or, below 0, had time to spare)."""

    kept: int = WHOLE
    behind: float = 0.0
    in_a_row: int = 0


def following(pace: Pace, seconds: float, interval: float | None) -> Pace:
    """The pace after a cycle that took so long. Without an interval nothing is late."""
    if interval is None:
        return replace(pace, behind=0.0, in_a_row=0)
    load, behind = seconds / interval, max(0.0, pace.behind + seconds - interval)
    if load > 1:
        in_a_row = max(pace.in_a_row, 0) + 1
    elif load < SPARE and not behind:
        in_a_row = min(pace.in_a_row, 0) - 1
    else:
        in_a_row = 0
    if abs(in_a_row) < PATIENCE:
        return Pace(pace.kept, behind, in_a_row)
    change = min(AIM / load, GROWTH) if load > 0 else GROWTH
    return Pace(max(LEAST, min(WHOLE, int(pace.kept * change))), behind)


def pace_of(last: Commit) -> Pace:
    """The pace that an engine goes on with after a commit."""
    return Pace(min((state.kept for state in last.streams.values()), default=WHOLE))


def kept_rows(batch: DataFrame, streams: Sequence[Stream], kept: int, cycle: int) -> DataFrame:
    """The rows of a batch that take part in a cycle."""
    shedding = [number for number, each in enumerate(streams) if each.shed_allowed]
    if kept >= WHOLE or not shedding:
        return batch
    left_out = [f"({STREAM} = {number} AND {_place(streams[number], number, cycle)} >= {kept})" for number in shedding]
    return batch.where(f"{CORRUPT} IS NOT NULL OR NOT ({' OR '.join(left_out)})")


def _place(stream: Stream, number: int, cycle: int) -> str:
    """A number below `WHOLE` that follows from a row's values, another one in every cycle, as SQL."""
    columns = ", ".join(f"s{number}.{column(position)}" for position in range(len(stream.fields)))
    return f"pmod(xxhash64({columns}, {cycle}L), {WHOLE}L)"


def with_kept(commit: Commit, streams: Sequence[Stream], kept: int) -> Commit:
    """A cycle's commit with what was kept of its rows."""
    states = dict(commit.streams)
    for each in streams:
        if each.shed_allowed:
            state = states[each.name]
            until = state.shed_until if kept >= WHOLE else state.largest
            states[each.name] = replace(state, kept=kept, shed_until=until)
    return replace(commit, streams=states)


def told(answers: Mapping[str, pa.Table], plan: Plan, commit: Commit) -> dict[str, pa.Table]:
    """Answers, each with what was kept of the streams that may shed which its query reads."""
    if not any(each.shed_allowed for each in plan.streams):
        return dict(answers)
    reads = shedding_streams(plan.queries)
    return {name: with_metadata(table, kept_of(reads[name], commit.streams)) for name, table in answers.items()}


def kept_of(streams: frozenset[str], states: Mapping[str, StreamState]) -> dict[str, Kept]:
    """What was kept of some streams."""
    return {
        name: {"share": states[name].kept / WHOLE, "until": states[name].shed_until}
        for name in sorted(streams)
        if name in states
    }


def with_metadata(table: pa.Table, kept: Mapping[str, Kept]) -> pa.Table:
    """A table that says what was kept of the streams that its rows come from, if some may shed."""
    if not kept:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), METADATA: json.dumps(kept).encode()})


def kept_by(table: pa.Table) -> dict[str, Kept]:
    """What a table of answers says was kept of streams; nothing if none of them may shed."""
    found: dict[str, Kept] = json.loads((table.schema.metadata or {}).get(METADATA, b"{}"))
    return found


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
