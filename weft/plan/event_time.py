"""Watermarks, horizons and closing windows: the arithmetic of time in a cycle (docs/semantics.md, "Time", "Windows").

Everything here follows from three facts: the largest clock that each stream had seen before and after the cycle, and
what it was when each query was created. A clock of None means that nothing has been seen yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.algebra import Answers, Query, Relation, Select, SetOperation, SetOperator, Source, Stream, Window
from weft.algebra.properties import flows

Clock = int | None


@dataclass(frozen=True, slots=True)
class QueryStart:
    """When a query was created: its number, its first cycle, and the largest clock of each stream before it.

    `backlog` says whether instances that had closed before the first cycle are answered in it, as far as history
    reaches. So it is for the query itself; for the relations that it is made of, see `below`.
    """

    number: int
    first: int
    largest: Mapping[str, Clock]
    backlog: bool = True

    def below(self, relation: Relation, source: Source) -> QueryStart:
        """The start of what a relation reads that starts like this.

        Windows look back, and selections pass on what had closed. Whatever else puts rows together begins with the
        query, and what had closed before is none of its rows.
        """
        backlog = looks_back(source) if answers_instances(relation) else self.backlog and passes_rows(relation)
        return self if backlog == self.backlog else replace(self, backlog=backlog)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query that runs, and when it was created."""

    query: Query
    start: QueryStart


@dataclass(frozen=True)
class EventTime:
    """Time in one cycle: the largest clocks before and after it, and the queries whose answers others read."""

    cycle: int
    before: Mapping[str, Clock]
    after: Mapping[str, Clock]
    queries: Mapping[str, RunningQuery]

    def watermark(self, source: Source, *, after: bool = True) -> Clock:
        """A relation's watermark after the cycle, or after the one before it."""
        if isinstance(source, Stream):
            largest = (self.after if after else self.before).get(source.name)
            return None if largest is None else largest - source.delay
        if isinstance(source, Answers):
            return self.watermark(self.queries[source.query].query.relation, after=after)
        marks = [self.watermark(below, after=after) for below in flows(source)]
        return None if None in marks else min(mark for mark in marks if mark is not None)

    def closing(self, relation: Relation, start: QueryStart) -> tuple[Clock, Clock]:
        """The window instances whose end lies in (after, until] close in this cycle; no `until` means none do."""
        is_first = self.cycle <= start.first
        closed = None if is_first and start.backlog else self.watermark(relation, after=False)
        horizon = self.horizon(relation, start)
        bounds = [each for each in (closed, horizon) if each is not None]
        return (max(bounds) if bounds else None), self.watermark(relation)

    def open_instances(self, relation: Relation) -> int:
        """How many instances of a relation's window have begun and not closed."""
        window, watermark = relation.window, self.watermark(relation)
        newest = self.largest_under(relation, self.after)
        if window is None or window.range is None or watermark is None or newest is None:
            return 0
        started = (newest - window.origin) // window.slide
        closed = (watermark - window.origin - window.range) // window.slide
        return max(0, started - closed)

    def horizon(self, source: Source, start: QueryStart) -> Clock:
        """The clock after which a relation lacks none of its rows, although the query was not always there.

        A stream lacks what came before the query was created and is older than its history. Who does not look back
        lacks everything up to the largest clock seen then. An answer lacks nothing if the whole instance does not.
        """
        if isinstance(source, Stream):
            largest = start.largest.get(source.name)
            return None if largest is None else largest - source.backfill
        if isinstance(source, Answers):
            parent = self.queries[source.query]
            return _latest(self.horizon(parent.query.relation, parent.start), self.largest_under(source, start.largest))
        lacking = _latest(*(self.horizon(below, start) for below in flows(source)))
        if not looks_back(source):
            lacking = _latest(lacking, self.largest_under(source, start.largest))
        if isinstance(source, Select) and is_windowed(source):
            assert source.window is not None
            assert source.window.range is not None
            return None if lacking is None else lacking + source.window.range
        return lacking

    def largest_under(self, source: Source, largest: Mapping[str, Clock]) -> Clock:
        """The largest clock of the streams under a relation."""
        if isinstance(source, Stream):
            return largest.get(source.name)
        if isinstance(source, Answers):
            return self.largest_under(self.queries[source.query].query.relation, largest)
        return _latest(*(self.largest_under(below, largest) for below in flows(source)))


def _latest(*clocks: Clock) -> Clock:
    return max((clock for clock in clocks if clock is not None), default=None)


def is_windowed(select: Select) -> bool:
    """Whether a select answers window instances."""
    return select.window is not None and not select.window.is_unbounded


def passes_rows(source: Source) -> bool:
    """Whether rows pass one by one, without waiting: a stream, a selection, perhaps with tables, UNION ALL."""
    if isinstance(source, Stream):
        return True
    if isinstance(source, Select):
        return len(source.flowing) == 1 and not (is_windowed(source) or source.is_grouped or source.distinct)
    return (
        isinstance(source, SetOperation)
        and source.operator is SetOperator.UNION
        and source.all
        and source.window is None
    )


def answers_instances(source: Source) -> bool:
    """Whether a relation has a window that closes."""
    if isinstance(source, SetOperation):
        return source.window is not None
    return isinstance(source, Select) and is_windowed(source)


def looks_back(source: Source) -> bool:
    """Whether rows from before the query's first cycle count, as far as they are kept: in window instances they do.

    All that puts rows together in other ways begins with the query: joins, those with tables too, UNION ALL, UNBOUNDED
    aggregates, sets over history.
    """
    if isinstance(source, Select) and len(source.inputs) > 1:
        return False
    return answers_instances(source) or (passes_rows(source) and not isinstance(source, SetOperation))


def gives_answers(source: Source) -> bool:
    """Whether all rows of a relation are answers of window instances, perhaps filtered and put together."""
    if isinstance(source, (Select, SetOperation)) and passes_rows(source):
        return all(gives_answers(below) for below in flows(source))
    return answers_instances(source)


def first_open_start(window: Window, watermark: Clock) -> Clock:
    """The start of the oldest instance that is still open; the window does not need older rows."""
    if watermark is None or window.range is None:
        return None
    return window.origin + ((watermark - window.origin - window.range) // window.slide + 1) * window.slide
