"""What each cycle did: for the people who watch it, and in the catalog, where any process reads it.

The records in the catalog are described in `stages/statistics.py`. No answer depends on them: what goes wrong with them
is logged, and the cycle goes on. All of them together cost a cycle about a millisecond.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from pyspark.sql import SparkSession

from weft.algebra import Stream
from weft.algebra.properties import clock_type
from weft.algebra.types import TIMESTAMP
from weft.catalog import Catalog
from weft.plan.facts import StreamFacts, key_set
from weft.plan.query_list import QueryList
from weft.runtime.cycle import Answered
from weft.runtime.stages.joins.network_records import Numbers
from weft.runtime.stages.statistics import CYCLE, facts
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.signatures import satisfying
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import event_time_after

#: So many of the newest cycles are kept.
KEPT: Final = 100

#: The rate of a stream is that of this many newest cycles in which its clock went on.
_PACED_BY = 5

#: A cycle estimates selectivities from at most this many partials, for at most this many conditions in turn.
_SAMPLE = 4_096
_CONDITIONS = 64

_SECOND = 1_000_000
#: Steps that are one stage to a user.
_STAGES = {"rename": "commit", "after commit": "tidy"}
#: Numbers of a stream's state that grow from cycle to cycle.
_OF_STREAM = ("rows", "late", "bad", "shed")

_log = logging.getLogger("weft")


@dataclass(frozen=True)
class Progress:
    """What one cycle did, for people and dashboards."""

    cycle: int
    seconds: float
    rows: int
    answers: int
    late: int
    bad: int
    #: Rows left out, of streams that may shed.
    shed: int
    #: Files that were gone before they were read.
    missing_files: int
    #: Files that were set aside, because they cannot be read as declared.
    bad_files: int
    watermarks: Mapping[str, int | None]
    #: By how many seconds the cycle took longer than the interval between cycles.
    overrun: float
    _commit: Commit = field(repr=False, compare=False)
    _plan: QueryList | None = field(repr=False, compare=False)

    @cached_property
    def open_windows(self) -> int:
        """How many window instances have begun and not yet closed; counted on request, over all queries."""
        if self._plan is None:
            return 0
        event_time, known = event_time_after(self._commit, self._plan), self._commit.queries
        return sum(event_time.open_instances(each.relation) for each in self._plan.queries if each.name in known)


def progress_of(
    commit: Commit,
    last: Commit,
    plan: QueryList | None,
    delays: Mapping[str, int],
    answers: int,
    seconds: float,
    overrun: float,
) -> Progress:
    """Return what the cycle of a commit did after the `last` one. `delays` has the watermark delay of each stream."""

    def total(of: Commit, name: str) -> int:
        return sum(int(getattr(each, name)) for each in of.streams.values())

    numbers = (*_OF_STREAM, "missing_files", "bad_files")
    grown: dict[str, Any] = {name: total(commit, name) - total(last, name) for name in numbers}
    return Progress(
        cycle=commit.cycle,
        seconds=seconds,
        answers=answers,
        **grown,
        watermarks={
            name: None if state.largest is None else state.largest - delays.get(name, 0)
            for name, state in commit.streams.items()
        },
        overrun=overrun,
        _commit=commit,
        _plan=plan,
    )


# -- statistics -------------------------------------------------------------------------------------------------------


class Recorder:
    """Times the stages of cycles and records what each of them measured."""

    def __init__(self, catalog: Catalog, spark: SparkSession, on_step: Callable[[str, int], None]) -> None:
        self._catalog, self._spark, self._on_step = catalog, spark, on_step
        self._steps: list[tuple[str, float]] = []
        self._jobs: int | None = None
        self._ended: float | None = None
        self._facts: dict[str, StreamFacts] | None = None
        #: The rows and ticks of each stream in the newest cycles, by the stream's number.
        self._pace: dict[int, deque[tuple[int, int]]] = {}

    def begin(self) -> None:
        self._steps = [("begin", time.monotonic())]
        self._jobs = _jobs_so_far(self._spark)

    def facts(self) -> dict[str, StreamFacts]:
        """What is known of the streams: by now, or, if nothing has run yet, when the engine last ran."""
        if self._facts is None:
            self._facts = facts(self._catalog)
        return self._facts

    def step(self, step: str, cycle: int) -> None:
        """A cycle has come to a step: what the engine's parts call."""
        self._steps.append((step, time.monotonic()))
        self._on_step(step, cycle)

    def end(
        self,
        answered: Answered,
        last: Commit,
        streams: tuple[Stream, ...],
        of_network: Callable[[], Numbers] = dict,
        behind: float = 0.0,
    ) -> None:
        """Record what a committed cycle measured, whatever fails. The next one is late by `behind` seconds."""
        now = time.monotonic()
        try:
            numbers = {CYCLE: {**self._of_cycle(answered, now), "behind": behind}} | self._of_streams(
                answered, last, streams, now
            )
            numbers |= of_network()
            self._catalog.record_statistics(answered.commit.cycle, numbers, keep=KEPT)
        except Exception:
            _log.warning("the statistics of cycle %d are lost", answered.commit.cycle, exc_info=True)
        self._ended = now

    def _of_cycle(self, answered: Answered, now: float) -> dict[str, int | float]:
        numbers: dict[str, int | float] = {
            "seconds": now - self._steps[0][1],
            "answers": sum(table.num_rows for table in answered.answers.values()),
        }
        jobs = _jobs_so_far(self._spark)
        if jobs is not None and self._jobs is not None:
            numbers["jobs"] = jobs - self._jobs
        for (step, begun), (_, ended) in zip(self._steps, [*self._steps[1:], ("", now)], strict=True):
            stage = _STAGES.get(step, step)
            numbers[stage] = numbers.get(stage, 0.0) + ended - begun
        return numbers

    def _of_streams(self, answered: Answered, last: Commit, streams: tuple[Stream, ...], now: float) -> Numbers:
        since = self._ended if self._ended is not None else self._steps[0][1]
        numbers: Numbers = {}
        for stream in streams:
            name = stream.name
            measured = _grown(stream, answered.commit, last)
            if now > since:
                measured["rows_per_second"] = measured["rows"] / (now - since)
            reduced = answered.reduced.get(name)
            keys: dict[str, int] = {}
            if reduced is not None:
                measured["partials"] = len(reduced.partials)
                # Without keys there is one group, which says nothing.
                keys = {key_set(of): count for of, count in reduced.weave.key_counts().items() if of}
                numbers[f"keys:{name}"] = dict(keys)
                numbers[f"conditions:{name}"] = dict(selectivities(reduced.partials, answered.commit.cycle))
            numbers[f"stream:{name}"] = measured
            pace = self._pace.setdefault(int(measured["number"]), deque(maxlen=_PACED_BY))
            if measured["ticks"] > 0:
                pace.append((int(measured["rows"]), int(measured["ticks"])))
            learnt = self.facts()[name] = self.facts().get(name, StreamFacts()).seen(pace, keys)
            numbers[f"facts:{name}"] = dict(learnt.numbers())
        return {key: each for key, each in numbers.items() if each}


def _grown(stream: Stream, commit: Commit, last: Commit) -> dict[str, int | float]:
    """What a stream has grown by in a cycle."""
    state, before = commit.streams[stream.name], last.streams.get(stream.name)
    known = before if before is not None and before.number == state.number else None
    numbers: dict[str, int | float] = {
        name: getattr(state, name) - (getattr(known, name) if known else 0) for name in _OF_STREAM
    }
    numbers["number"] = state.number
    largest = known.largest if known else None
    numbers["ticks"] = 0 if state.largest is None or largest is None else state.largest - largest
    if clock_type(stream) == TIMESTAMP and numbers["ticks"]:
        numbers["rows_per_event_second"] = numbers["rows"] * _SECOND / numbers["ticks"]
    return numbers


def selectivities(partials: Partials, cycle: int) -> dict[str, float]:
    """The share of rows that satisfies a condition, for the conditions of this cycle."""
    texts = list(partials.layout.decoders)
    if not texts or not len(partials):
        return {}
    first = cycle * _CONDITIONS % len(texts) if len(texts) > _CONDITIONS else 0
    chosen = [*texts[first:], *texts[:first]][:_CONDITIONS]
    every = -(-len(partials) // _SAMPLE)
    rows = partials.row_counts[::every]
    # Many partials have one and the same number in a column of signatures: conditions are read off the distinct ones.
    columns = []
    for number in range(partials.layout.signature_columns):
        codes = np.asarray(partials.table[f"g{number}"].to_numpy())[::every].astype(np.int64)
        distinct, which = np.unique(codes, return_inverse=True)
        columns.append((distinct, np.bincount(which, weights=rows)))
    shares = {}
    for text in chosen:
        codes, counts = columns[partials.layout.decoders[text][0]]
        holds = satisfying(partials.layout.decoders, [each for each, _ in columns], [text], len(codes))
        shares[text] = float(counts[holds].sum() / rows.sum())
    return shares


def _jobs_so_far(spark: SparkSession) -> int | None:
    """How many jobs the Spark application has run; None where it does not tell."""
    try:
        return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
    except Exception:
        return None
