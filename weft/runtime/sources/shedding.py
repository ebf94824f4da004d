"""Load shedding: rows are left out only of streams declared SHED ALLOWED, and only while cycles keep falling behind.

When cycles are behind, and when streams shed and stop shedding, is in `docs/adaptation.md` ("Overload"). Which rows are
left out follows from their values and from the cycle, and their share is in the cycle's intent: a second attempt leaves
out the same rows. They take part in nothing, but one more pass over the batch counts them. Answers say so:
`sinks/shed_notices.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import Stream
from weft.plan.event_time import Clock
from weft.runtime.sources.batches import Batch, BatchPart
from weft.runtime.spark.rows import CORRUPT, STREAM, clock_bounds, clock_sql, slots
from weft.runtime.state.commits import WHOLE, Commit
from weft.runtime.state.continuity import CycleSpec, of_present_streams, states_of

#: The least rows out of `WHOLE` that are taken, however far behind.
LEAST = 16
#: The cycles in a row that fall behind, or have time to spare, before the rate changes.
PATIENCE = 3
#: A cycle that takes less than this part of the interval has time to spare, and this part is what a new rate aims at.
SPARE, AIM = 0.7, 0.85
#: Seconds that Spark may take between two cycles even if the second one does not wait for rows.
BETWEEN = 1.0
#: The most a rate grows at once: the fixed cost of cycles makes it look as if there was more room.
GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class ShedRate:
    """The rows taken out of `WHOLE`, the seconds that cycles are late in all, and the number of cycles in a row that
    have fallen behind (or, below 0, had time to spare)."""

    kept: int = WHOLE
    behind: float = 0.0
    in_a_row: int = 0


def rate_after(rate: ShedRate, seconds: float, interval: float | None) -> ShedRate:
    """The rate after a cycle that took some seconds. Without an interval nothing is late."""
    if interval is None:
        return replace(rate, behind=0.0, in_a_row=0)
    load, behind = seconds / interval, max(0.0, rate.behind + seconds - interval)
    if load > 1:
        in_a_row = max(rate.in_a_row, 0) + 1
    elif load < SPARE and not behind:
        in_a_row = min(rate.in_a_row, 0) - 1
    else:
        in_a_row = 0
    if abs(in_a_row) < PATIENCE:
        return ShedRate(rate.kept, behind, in_a_row)
    change = min(AIM / load, GROWTH) if load > 0 else GROWTH
    return ShedRate(max(LEAST, min(WHOLE, int(rate.kept * change))), behind)


def after_idle(rate: ShedRate, idle: float, interval: float | None) -> ShedRate:
    """The rate after some idle seconds without a cycle: with none for longer than the interval, no rows had waited."""
    if interval is None or idle <= interval + BETWEEN:
        return rate
    return replace(rate, behind=0.0)


def rate_of(last: Commit) -> ShedRate:
    """The rate that an engine continues with after a commit."""
    return ShedRate(min((state.kept for state in last.streams.values()), default=WHOLE))


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """The number of rows of a stream in a batch, taken or shed, and the largest clock that is believed."""

    rows: int
    latest: Clock


def count_arrived(batch: Batch, spec: CycleSpec) -> dict[str, ArrivedRows]:
    """Count the rows that have come of the streams that shed rows in a cycle, by name; empty if none do."""
    if spec.intent.kept >= WHOLE:
        return {}
    arrived = {each.name: ArrivedRows(0, None) for each in spec.plan.streams if each.shed_allowed}
    for part in batch.parts:
        measures = []
        for at, stream in _shedding(part).items():
            here = f"CASE WHEN {STREAM} = {at}"
            clock, (least, most) = clock_sql(stream, tagged=True), clock_bounds(stream, spec.intent.latest)
            measures.append(f"count({here} THEN 1 END) AS rows_{at}")
            measures.append(f"max({here} AND {clock} BETWEEN {least}L AND {most}L THEN {clock} END) AS latest_{at}")
        for found in part.frame.selectExpr(*measures).toArrow().to_pylist() if measures else ():
            for at, stream in _shedding(part).items():
                arrived[stream.name] = ArrivedRows(found[f"rows_{at}"], found[f"latest_{at}"])
    return arrived


def _shedding(part: BatchPart) -> dict[int, Stream]:
    return {at: each for at, each in part.streams.items() if each.shed_allowed}


def without_shed_rows(batch: Batch, kept: int, cycle: int) -> Batch:
    """The rows of a batch that take part in a cycle."""

    def rows(part: BatchPart) -> BatchPart:
        # A number below `WHOLE` follows from a row's values, another one in every cycle.
        left_out = " OR ".join(
            f"({STREAM} = {at} AND pmod(xxhash64({', '.join(slots(each.fields))}, {cycle}L), {WHOLE}L) >= {kept})"
            for at, each in _shedding(part).items()
        )
        taken = f"{CORRUPT} IS NOT NULL OR NOT ({left_out})"
        return replace(part, frame=part.frame.where(taken)) if left_out else part

    return batch if kept >= WHOLE else Batch([*map(rows, batch.parts)])


def with_shed_rows(commit: Commit, last: Commit, spec: CycleSpec, came: Mapping[str, ArrivedRows]) -> Commit:
    """A cycle's commit with the share of rows that it took."""
    plan, states = spec.plan, dict(commit.streams)
    shedding = [each.name for each in plan.streams if each.shed_allowed]
    if not shedding:
        return commit
    before = states_of(of_present_streams(last, plan), plan)
    for name in shedding:
        state, earlier = replace(states[name], kept=spec.intent.kept), before[name]
        if name in came:
            taken = state.rows + state.late + state.bad - (earlier.rows + earlier.late + earlier.bad)
            if came[name].rows != taken:
                # The newest row may be one of those left out: then the stream's own clock is behind it.
                clocks = [clock for clock in (state.largest, came[name].latest) if clock is not None]
                shed = state.shed + came[name].rows - taken
                state = replace(state, shed=shed, shed_until=max(clocks, default=None))
        states[name] = state
    return replace(commit, streams=states)
