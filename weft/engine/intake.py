"""Taking rows in: what each row is judged by, what one pass over a batch tells, and clocks that go on in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.algebra import Stream
from weft.algebra.clocks import clock_type
from weft.algebra.types import TIMESTAMP
from weft.engine.commits import StreamState
from weft.engine.lateness import late_everywhere
from weft.engine.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, TICK, clock_bounds, clock_sql
from weft.plan.clockwork import Clock, Clockwork, Registered


def judged_batch(
    batch: DataFrame,
    streams: Sequence[Stream],
    latest: Clock,
    clockwork: Clockwork,
    queries: Mapping[str, Registered],
) -> DataFrame:
    """The batch with every row's clock, what it is judged by, and the reason if it cannot take part in anything."""
    clocks, reasons, judged = [], [], []
    for index, each in enumerate(streams):
        here = f"WHEN {STREAM} = {index}"
        is_instant = clock_type(each) == TIMESTAMP
        clocks.append(f"{here} THEN {clock_sql(each, f's{index}.')}")
        least, most = clock_bounds(each)
        reasons.append(f"{here} AND {CLOCK} NOT BETWEEN {least}L AND {most}L THEN 'clock out of range'")
        if is_instant and latest is not None:
            reasons.append(f"{here} AND {CLOCK} > {latest}L THEN 'clock ahead of time'")
        watermark = clockwork.watermark(each, after=False)
        judged.append(f"{here} THEN {'CAST(NULL AS BIGINT)' if watermark is None else f'{watermark}L'}")
        late = late_everywhere(each, clockwork, queries)
        if late is not None:
            reasons.append(f"{here} AND {late} THEN 'late'")
    with_clock = batch.withColumn(CLOCK, F.expr(f"CASE {' '.join(clocks)} END"))
    ticks = f"WHEN {TICK} IS NOT NULL THEN 'tick'"
    bad = f"{ticks} WHEN {CORRUPT} IS NOT NULL THEN 'malformed' WHEN {CLOCK} IS NULL THEN 'no clock'"
    return with_clock.selectExpr(
        *(f"s{index}" for index in range(len(streams))),
        CORRUPT,
        TICK,
        CLOCK,
        f"{clockwork.cycle}L AS {ARRIVAL}",
        f"CASE {' '.join(judged)} END AS {BEFORE}",
        f"{STREAM} AS stream",
        f"CASE {bad} {' '.join(reasons)} ELSE 'none' END AS reason",
    )


def measures_of_batch(streams: Sequence[Stream]) -> str:
    """What one pass over the rows tells of every stream, as one struct."""
    measures = [f"max({TICK}) AS tick"]
    for index in range(len(streams)):
        good = f"stream = {index} AND reason = 'none'"
        seen = f"stream = {index} AND reason IN ('none', 'late')"
        late = f"stream = {index} AND reason = 'late'"
        bad = f"stream = {index} AND reason NOT IN ('none', 'late', 'tick')"
        measures += [
            f"count(CASE WHEN {good} THEN 1 END) AS rows_{index}",
            f"min(CASE WHEN {good} THEN {CLOCK} END) AS min_{index}",
            f"max(CASE WHEN {seen} THEN {CLOCK} END) AS max_{index}",
            f"min(CASE WHEN {seen} THEN {CLOCK} END) AS least_{index}",
            f"count(CASE WHEN {late} THEN 1 END) AS late_{index}",
            f"count(CASE WHEN {bad} THEN 1 END) AS bad_{index}",
        ]
    return f"struct({', '.join(measures)})"


def advanced(state: StreamState, stream: Stream, tick: int | None, has_rows: bool, patience: int | None) -> StreamState:
    """A stream's clock moved on by the time that has passed in silence, once that is longer than the patience.

    Ticks come from Spark's source of them and are replayed like rows, so a second attempt sees the same time.
    """
    if tick is None or patience is None or clock_type(stream) != TIMESTAMP:
        return state
    if has_rows or state.touched is None or state.largest is None:
        return replace(state, touched=tick)
    if tick - state.touched < patience:
        return state
    return replace(state, largest=state.largest + tick - state.touched, touched=tick)
