"""What one cycle did, for people and dashboards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from weft.plan.event_time import EventTime, RunningQuery
from weft.plan.plan import Plan
from weft.runtime.state.commits import Commit


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
    #: Counts the open windows, on request only: there may be thousands of queries.
    count_open_windows: Callable[[], int] = field(repr=False, compare=False)

    @cached_property
    def open_windows(self) -> int:
        """How many window instances have begun and not yet closed, over all queries."""
        return self.count_open_windows()


def progress_of(
    commit: Commit,
    last: Commit,
    plan: Plan | None,
    delays: Mapping[str, int],
    *,
    answers: int,
    seconds: float,
    overrun: float,
) -> Progress:
    """Return what the cycle of a commit did after the `last` one. `delays` has the watermark delay of each stream."""

    def grown(field: str) -> int:
        before = sum(int(getattr(each, field)) for each in last.streams.values())
        return sum(int(getattr(each, field)) for each in commit.streams.values()) - before

    return Progress(
        cycle=commit.cycle,
        seconds=seconds,
        rows=grown("rows"),
        answers=answers,
        late=grown("late"),
        bad=grown("bad"),
        shed=grown("shed"),
        missing_files=grown("missing_files"),
        bad_files=grown("bad_files"),
        watermarks={
            name: None if state.largest is None else state.largest - delays.get(name, 0)
            for name, state in commit.streams.items()
        },
        overrun=overrun,
        count_open_windows=partial(_open_windows, commit, plan),
    )


def _open_windows(commit: Commit, plan: Plan | None) -> int:
    """How many window instances have begun and not yet closed, over all queries."""
    if plan is None:
        return 0
    largest = {name: state.largest for name, state in commit.streams.items()}
    registered = {
        each.name: RunningQuery(each, commit.queries[each.name].start)
        for each in plan.queries
        if each.name in commit.queries
    }
    event_time = EventTime(commit.cycle, largest, largest, registered)
    return sum(event_time.open_instances(each.query.relation) for each in registered.values())
