"""The interface of the stages. Each evaluates some kinds of nodes, and all go through a cycle in the same way.

    prepare   take the nodes of the plan, and bring what is in memory to the state of the last commit
    take      take new rows of streams while they are scanned: reduce them, or select from them. Nothing else changes,
              since a scan may be refused and the rows scanned again
    run       evaluate relations whose inputs are there; once or more in a cycle
    finish    give the last answers, and hand over the state that later cycles need
    commit    the cycle's record is written: what is in memory is the state after it

`runtime/cycle.py` is the loop over the stages, and the only place that calls these methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.algebra import Stream
from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.plan.nodes import Evaluator, RelationNode
from weft.runtime.spark.rows import Packed, clock_bounds
from weft.runtime.stages.cycle_state import CycleState
from weft.runtime.stages.running_plan import RunningPlan
from weft.runtime.state.commits import Commit
from weft.runtime.state.continuity import CycleSpec
from weft.runtime.state.store import MemoryUse


class Stage(Protocol):
    """Evaluates the relations that the plan leaves to it, and the nodes below them."""

    @property
    def kind(self) -> Evaluator:
        """What the plan calls it."""

    @property
    def step(self) -> str:
        """The step of a cycle that its runs are part of, for statistics."""

    def prepare(self, spec: CycleSpec, planned: RunningPlan, last: Commit) -> None:
        """Take the nodes of a cycle's plan, and bring what is in memory to the state of the last commit."""

    def memory(self) -> Iterable[MemoryUse]:
        """What is in memory, part by part. By default nothing is."""
        return ()

    def takes(self, log: LogId) -> bool:
        """Whether it needs the new rows of a log only while they are scanned. By default it reads them from the log."""
        return False

    def take(self, scan: Scan) -> None:
        """Take rows while they are scanned: by default none. Rows of a scan before this one have been refused."""
        return  # an empty body would make it abstract

    def run(self, cycle: CycleState, relations: Sequence[RelationNode]) -> Mapping[str, pa.Table]:
        """Evaluate relations whose inputs are there: their rows by the text of their ids, with clocks in the end."""

    def finish(self, cycle: CycleState) -> None:
        """Give the last answers, and hand over the state that later cycles need."""

    def commit(self, cycle: int) -> None:
        """The cycle's record is written: what is in memory is the state after it."""


class Scan(Protocol):
    """The new rows of a cycle while they are read: from the batch itself, or from the logs after they are written."""

    @property
    def is_direct(self) -> bool:
        """Whether rows come from the batch itself. It is refused unless all of them can take part in the cycle."""

    @property
    def streams(self) -> Mapping[int, Stream]:
        """The streams that may have new rows, by number in the plan."""

    @property
    def logged(self) -> Collection[LogId]:
        """The logs whose rows later cycles read again."""

    def rows(self, index: int) -> DataFrame:
        """The new rows of a stream: its columns by position, and the text of what could not be read."""

    def has_files(self, index: int) -> bool:
        """Whether the rows are read from files, so that Spark sees how many there are."""

    def watermark(self, stream: Stream) -> Clock:
        """A stream's watermark before the cycle."""

    def see(self, stream: Stream, seen: SeenRows) -> None:
        """Report what a reduction has seen of a stream."""

    # Only of a direct scan: other rows are in their logs already.

    def refuse(self) -> None:
        """Refuse the scan: some row cannot take part in the cycle as it is."""
        raise AssertionError("the rows are in their logs")

    def select(self, index: int) -> str:
        """A select of the new rows of a stream, with their clocks."""
        raise AssertionError("the rows are in their logs")

    def ask(self, text: Packed, then: Callable[[pa.Table], None]) -> None:
        """Evaluate a select in the one job for all of them; `then` gets its rows, if there are any."""
        raise AssertionError("the rows are in their logs")

    def keep(self, log: LogId, rows: pa.Table) -> None:
        """Write rows to a log."""
        raise AssertionError("the rows are in their logs")

    def count_late(self, query: str, rows: int) -> None:
        """Count rows that are late for one query and not for all."""


@dataclass(frozen=True)
class SeenRows:
    """What is seen of the new rows of a stream: how many have a clock, how many have none or are malformed."""

    rows: int = 0
    bad: int = 0
    #: The smallest clock, if it is of use, and the largest one.
    least: Clock = None
    latest: Clock = None

    def is_before(self, watermark: Clock) -> bool:
        """Whether some row is older than a watermark."""
        return watermark is not None and self.least is not None and self.least < watermark

    def is_good(self, stream: Stream, latest: Clock) -> bool:
        """Whether every clock can be believed; `latest` is the largest TIMESTAMP that can."""
        first, last = clock_bounds(stream, latest)
        clocks = [each for each in (self.least, self.latest) if each is not None]
        return not self.bad and all(first <= each <= last for each in clocks)
