"""What each new row is judged by, what one pass over rows measures of streams, and clocks that go on in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from weft.algebra import Field, Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.expressions.spark_expressions import column
from weft.plan.event_time import Clock, EventTime, RunningQuery
from weft.runtime.columnar.packed_selects import Packed
from weft.runtime.columnar.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT, STREAM, TICK, clock_bounds, clock_sql
from weft.runtime.sources.batches import BatchPart
from weft.runtime.sources.late_rows import late_everywhere
from weft.runtime.stages.stage import SeenRows
from weft.runtime.state.commits import StreamState

#: The name of the select that measures streams.
MEASURES = "measures"


def judged_rows(
    part: BatchPart,
    layout: Mapping[str, str],
    latest: Clock,
    event_time: EventTime,
    queries: Mapping[str, RunningQuery],
) -> DataFrame:
    """Return rows in all slots of a batch, with their clock, what they are judged by, and why they are set aside."""
    clocks, reasons, judged = [], [], []
    for index, each in part.streams.items():
        here = f"WHEN {STREAM} = {index}"
        is_instant = clock_type(each) == TIMESTAMP
        clocks.append(f"{here} THEN {clock_sql(each, tagged=True)}")
        least, most = clock_bounds(each)
        reasons.append(f"{here} AND {CLOCK} NOT BETWEEN {least}L AND {most}L THEN 'clock out of range'")
        if is_instant and latest is not None:
            reasons.append(f"{here} AND {CLOCK} > {latest}L THEN 'clock ahead of time'")
        watermark = event_time.watermark(each, after=False)
        judged.append(f"{here} THEN {'CAST(NULL AS BIGINT)' if watermark is None else f'{watermark}L'}")
        late = late_everywhere(each, event_time, queries)
        if late is not None:
            reasons.append(f"{here} AND {late} THEN 'late'")
    with_clock = part.frame.withColumn(CLOCK, F.expr(_first_that_holds(clocks)))
    ticks = f"WHEN {TICK} IS NOT NULL THEN 'tick'"
    bad = f"{ticks} WHEN {CORRUPT} IS NOT NULL THEN 'malformed' WHEN {CLOCK} IS NULL THEN 'no clock'"
    return with_clock.selectExpr(
        *part.values(layout),
        CORRUPT,
        TICK,
        CLOCK,
        f"{event_time.cycle}L AS {ARRIVAL}",
        f"{_first_that_holds(judged)} AS {BEFORE}",
        f"{STREAM} AS stream",
        f"CASE {bad} {' '.join(reasons)} ELSE 'none' END AS reason",
    )


def _first_that_holds(cases: Sequence[str]) -> str:
    """The number of the first case that holds; a part that has only ticks has no cases."""
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS BIGINT)"


def measures_of_part(numbers: Iterable[int]) -> str:
    """What one pass over the rows tells of streams, by their numbers, as one struct."""
    good, seen, late = "reason = 'none'", "reason IN ('none', 'late')", "reason = 'late'"
    bad = "reason NOT IN ('none', 'late', 'tick')"
    measured = {
        "rows": ("count", good, "1"),
        "min": ("min", good, CLOCK),
        "max": ("max", seen, CLOCK),
        "least": ("min", seen, CLOCK),
        "late": ("count", late, "1"),
        "bad": ("count", bad, "1"),
    }
    measures = [
        f"{function}(CASE WHEN stream = {index} AND {which} THEN {value} END) AS {name}_{index}"
        for index in numbers
        for name, (function, which, value) in measured.items()
    ]
    return f"struct({', '.join([f'max({TICK}) AS tick', *measures])})"


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


def measures_of(streams: Mapping[int, Stream], views: Mapping[int, str]) -> Packed:
    """Return the select that tells what is seen of some streams, by number, from views of their rows.

    Without constants that change from cycle to cycle, Spark compiles it once; for aggregates without groups, it would
    run a job of its own.
    """
    readable = {index: f"CASE WHEN {CORRUPT} IS NULL THEN {clock_sql(each)} END" for index, each in streams.items()}
    clocks = [f"SELECT {index}L AS stream, {text} AS clock FROM {views[index]}" for index, text in readable.items()]
    measures = {"stream": "stream", "all": "count(*)", "good": "count(clock)", "min": "min(clock)", "max": "max(clock)"}
    listed = ", ".join(f"{text} AS {column(at)}" for at, text in enumerate(measures.values()))
    fields = tuple(Field(name, BIGINT) for name in measures)
    return Packed(MEASURES, fields, f"SELECT {listed} FROM ({' UNION ALL '.join(clocks)}) GROUP BY stream")


def seen_in(measured: pa.Table) -> dict[int, SeenRows]:
    """What the measures tell of streams, by number; nothing of those that have no rows."""
    return {
        row["stream"]: SeenRows(row["good"], row["all"] - row["good"], row["min"], row["max"])
        for row in measured.to_pylist()
    }
