"""Overload: rows are left out only if a stream was declared SHED ALLOWED and cycles keep falling behind.

    back-pressure     a cycle takes the next rows when the one before is done, and no more of them than the source's
                      options allow; what has not been taken waits where it is, in files or in a broker
    falling behind    with an interval between cycles (`weft run --every`), a cycle that takes longer puts the next one
                      off. By how much all of them have, is what `weft status` says; shorter cycles make up for it, and
                      so does a time without any, in which nothing waited
    shedding          after three cycles in a row that took longer than the interval, streams that may shed keep so many
                      rows that the next ones should not; when there is time to spare again, they keep more, up to all

Which rows are left out follows from their values and from the cycle, and how many is in the cycle's intent: a cycle
that is run again after a crash leaves out the same rows. What is left out takes part in nothing, as if it had never
come, and queries answer exactly what they would over the rows that were kept. It is counted, though: in cycles that
leave rows out, one more pass over the batch says how many rows came and what their largest clock is.

Answers say what was kept: `kept.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.plan.event_time import Clock
from weft.runtime.columnar.rows import CORRUPT, STREAM, clock_bounds, clock_sql, slots
from weft.runtime.sources.batches import Batch, BatchPart
from weft.runtime.state.commits import WHOLE, Commit, StreamState
from weft.runtime.state.continuity import of_present_streams, states_of
from weft.runtime.state.cycle_spec import CycleSpec

#: However far behind, so many of `WHOLE` rows are kept.
LEAST = 16
#: So many cycles in a row have to fall behind, or to have time to spare, before the rate changes.
PATIENCE = 3
#: A cycle that takes less than this part of the interval has time to spare, and this part is what a new rate aims at.
SPARE, AIM = 0.7, 0.85
#: Seconds that Spark may take between two cycles even if the second one does not wait for rows.
BETWEEN = 1.0
#: A rate grows by so much at once: what cycles cost beside their rows makes it look as if there was more room.
GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class ShedRate:
    """How many of `WHOLE` rows are kept, by how many seconds cycles are late in all, and for how many in a row they
    have fallen behind (or, below 0, had time to spare)."""

    kept: int = WHOLE
    behind: float = 0.0
    in_a_row: int = 0


def rate_after(pace: ShedRate, seconds: float, interval: float | None) -> ShedRate:
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
        return ShedRate(pace.kept, behind, in_a_row)
    change = min(AIM / load, GROWTH) if load > 0 else GROWTH
    return ShedRate(max(LEAST, min(WHOLE, int(pace.kept * change))), behind)


def after_idle(pace: ShedRate, idle: float, interval: float | None) -> ShedRate:
    """The pace after so many seconds without a cycle.

    A cycle begins as soon as it is due and rows wait for it. If none did for longer than the interval, all rows had
    been taken, and nothing is left to make up for: cycles that find few rows need not leave any of them out for that.
    """
    if interval is None or idle <= interval + BETWEEN:
        return pace
    return replace(pace, behind=0.0)


def rate_of(last: Commit) -> ShedRate:
    """The pace that an engine goes on with after a commit."""
    return ShedRate(min((state.kept for state in last.streams.values()), default=WHOLE))


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """How many rows of a stream a batch has, whether they are kept or not, and the largest clock that is believed."""

    rows: int
    latest: Clock


def count_arrived(batch: Batch, spec: CycleSpec) -> dict[str, ArrivedRows]:
    """Count what has come of the streams that leave rows out in a cycle, by name; nothing if none do."""
    streams = spec.plan.streams
    shedding = {at: each for at, each in enumerate(streams) if each.shed_allowed}
    if spec.kept >= WHOLE or not shedding:
        return {}
    found = {each.name: ArrivedRows(0, None) for each in shedding.values()}
    for part in batch.parts:
        found |= _arrived_in(part, {at: each for at, each in part.streams.items() if at in shedding}, spec.latest)
    return found


def _arrived_in(part: BatchPart, streams: Mapping[int, Stream], latest: Clock) -> dict[str, ArrivedRows]:
    measures = []
    for number, stream in streams.items():
        here = f"CASE WHEN {STREAM} = {number}"
        clock, (least, most) = clock_sql(stream, tagged=True), clock_bounds(stream)
        if clock_type(stream) == TIMESTAMP and latest is not None:
            most = min(most, latest)
        measures.append(f"count({here} THEN 1 END) AS rows_{number}")
        measures.append(f"max({here} AND {clock} BETWEEN {least}L AND {most}L THEN {clock} END) AS latest_{number}")
    if not measures:
        return {}
    (found,) = part.frame.selectExpr(*measures).toArrow().to_pylist()
    return {each.name: ArrivedRows(found[f"rows_{at}"], found[f"latest_{at}"]) for at, each in streams.items()}


def without_shed_rows(batch: Batch, kept: int, cycle: int) -> Batch:
    """Return the rows of a batch that take part in a cycle."""
    if kept >= WHOLE:
        return batch
    return Batch([_kept_of(part, kept, cycle) for part in batch.parts])


def _kept_of(part: BatchPart, kept: int, cycle: int) -> BatchPart:
    shedding = {at: each for at, each in part.streams.items() if each.shed_allowed}
    if not shedding:
        return part
    left_out = [f"({STREAM} = {at} AND {_place(each, cycle)} >= {kept})" for at, each in shedding.items()]
    return replace(part, frame=part.frame.where(f"{CORRUPT} IS NOT NULL OR NOT ({' OR '.join(left_out)})"))


def _place(stream: Stream, cycle: int) -> str:
    """A number below `WHOLE` that follows from a row's values, another one in every cycle, as SQL."""
    return f"pmod(xxhash64({', '.join(slots(stream.fields))}, {cycle}L), {WHOLE}L)"


def with_shed_rows(commit: Commit, last: Commit, spec: CycleSpec, came: Mapping[str, ArrivedRows]) -> Commit:
    """A cycle's commit with what was kept of its rows."""
    plan, states = spec.plan, dict(commit.streams)
    shedding = [each.name for each in plan.streams if each.shed_allowed]
    if not shedding:
        return commit
    before = states_of(of_present_streams(last, plan), plan)
    for name in shedding:
        state = replace(states[name], kept=spec.kept)
        states[name] = _less(state, before[name], came[name]) if name in came else state
    return replace(commit, streams=states)


def _less(state: StreamState, before: StreamState, came: ArrivedRows) -> StreamState:
    """A stream's state after a cycle that took in less than what came."""
    shed = came.rows - (_taken(state) - _taken(before))
    if not shed:
        return state
    # The newest row may be one of those that were left out: then the stream's own clock is behind it.
    clocks = [clock for clock in (state.largest, came.latest) if clock is not None]
    return replace(state, shed=state.shed + shed, shed_until=max(clocks, default=None))


def _taken(state: StreamState) -> int:
    return state.rows + state.late + state.bad
