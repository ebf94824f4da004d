"""Taking rows in: what each row is judged by, what one pass over a batch tells, and clocks that go on in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.algebra import Field, Stream
from weft.algebra.clocks import clock_type
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.engine.answers import Packed
from weft.engine.commits import StreamState
from weft.engine.lateness import late_everywhere
from weft.engine.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, TICK, clock_bounds, clock_sql, column
from weft.plan.clockwork import Clock, Clockwork, Registered

#: What the select goes by that tells of the rows of a batch.
MEASURES = "measures"


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


@dataclass(frozen=True)
class Seen:
    """What is seen of the rows that a stream has in a batch: those with a clock, and those without or malformed."""

    rows: int
    bad: int
    #: The smallest clock, unless nobody asks for it, and the largest one.
    least: Clock
    latest: Clock

    def is_before(self, watermark: Clock) -> bool:
        """Whether some row is older than a watermark."""
        return watermark is not None and self.least is not None and self.least < watermark

    def is_good(self, stream: Stream, latest: Clock) -> bool:
        """Whether every clock can be believed; see `judged_batch`."""
        first, last = clock_bounds(stream)
        if clock_type(stream) == TIMESTAMP and latest is not None:
            last = min(last, latest)
        clocks = [each for each in (self.least, self.latest) if each is not None]
        return not self.bad and all(first <= each <= last for each in clocks)


def measures_of_rows(streams: Mapping[int, Stream], batch: str) -> Packed:
    """The select that tells what is seen of some streams, by number, in a batch.

    It has no constants that change from cycle to cycle, so that Spark compiles it once.
    """
    measures = []
    for index, each in streams.items():
        here = f"{STREAM} = {index}"
        clock = f"CASE WHEN {here} AND {CORRUPT} IS NULL THEN {clock_sql(each, f's{index}.')} END"
        measures += [f"count(CASE WHEN {here} THEN 1 END)", f"count({clock})", f"min({clock})", f"max({clock})"]
    listed = ", ".join(f"{text} AS {column(position)}" for position, text in enumerate(measures))
    names = [f"{measure}_{index}" for index in streams for measure in ("all", "good", "min", "max")]
    return Packed(MEASURES, tuple(Field(name, BIGINT) for name in names), f"SELECT {listed} FROM {batch}")


def seen_in(measured: pa.Table, index: int) -> Seen:
    """What the measures tell of a stream."""
    every, good, least, latest = (
        measured[f"{measure}_{index}"][0].as_py() for measure in ("all", "good", "min", "max")
    )
    return Seen(good, every - good, least, latest)
