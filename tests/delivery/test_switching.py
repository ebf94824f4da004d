"""Where a member changes over from one representative to another, in numbers that can be checked by hand."""

from __future__ import annotations

from weft.algebra import Relation
from weft.delivery import Itinerary, Span
from weft.delivery.assignment import Assignment, is_past, joins_at, switch_place
from weft.optimizer.group_results import QueryKind
from weft.plan.event_time import EventTime
from weft.sql.check import check

_STREAMS = """
CREATE STREAM trades (n BIGINT, sym STRING) WATERMARK FOR n AS n - 2 USING memory;
CREATE STREAM quotes (m BIGINT, sym STRING) WATERMARK FOR m AS m - 1 USING memory;
CREATE STREAM history (k BIGINT, sym STRING) WATERMARK FOR k AS k USING memory BACKFILL 20;
"""


def moment_before(cycle: int, largest: dict[str, int]) -> EventTime:
    return EventTime(cycle, largest, largest, {})


def relation(select: str) -> Relation:
    (query,) = check(f"{_STREAMS} CREATE CONTINUOUS QUERY q AS {select}").queries
    return query.relation


SELECTION = relation("SELECT sym FROM trades WHERE sym = 'a'")
WINDOW = relation("SELECT COUNT(*) AS c FROM trades [ROWS 10 SLIDE 5]")
LOOKING_BACK = relation("SELECT COUNT(*) AS c FROM history [ROWS 10 SLIDE 5]")
JOIN = relation("SELECT t.sym FROM trades [ROWS 4] AS t, quotes [ROWS 8] AS q WHERE t.sym = q.sym")

NOTHING_YET = moment_before(0, {})
LATER = moment_before(7, {"trades": 30, "quotes": 40, "history": 50})


def test_rows_of_selections_are_divided_by_cycles() -> None:
    assert switch_place(QueryKind.SELECTION, SELECTION, 0, LATER) == 7
    assert joins_at(QueryKind.SELECTION, SELECTION, LATER) == (True, 7)
    assert is_past(QueryKind.SELECTION, SELECTION, 7, LATER)
    assert not is_past(QueryKind.SELECTION, SELECTION, 8, LATER)


def test_a_window_that_starts_after_all_rows_so_far_is_the_new_ones() -> None:
    assert switch_place(QueryKind.AGGREGATE, WINDOW, 0, LATER) == 31
    assert joins_at(QueryKind.AGGREGATE, WINDOW, LATER) == (True, 31)
    # The last window of the old one starts at 30 and ends at 40; the watermark is the largest clock minus 2.
    assert not is_past(QueryKind.AGGREGATE, WINDOW, 31, moment_before(9, {"trades": 41}))
    assert is_past(QueryKind.AGGREGATE, WINDOW, 31, moment_before(9, {"trades": 42}))


def test_history_is_answered_by_the_new_representative_and_not_again_by_the_old() -> None:
    assert switch_place(QueryKind.AGGREGATE, LOOKING_BACK, 0, LATER) == 51
    assert joins_at(QueryKind.AGGREGATE, LOOKING_BACK, LATER) == (False, None)


def test_what_joins_a_row_from_there_on_has_come_after_the_switch() -> None:
    # Rows are at most 7 ticks apart, and the newest so far has 40: whoever meets a row with 48 has 41 at least.
    assert switch_place(QueryKind.JOIN, JOIN, 7, LATER) == 48
    assert joins_at(QueryKind.JOIN, JOIN, LATER) == (False, None)
    assert not is_past(QueryKind.JOIN, JOIN, 48, moment_before(9, {"trades": 49, "quotes": 60}))
    assert is_past(QueryKind.JOIN, JOIN, 48, moment_before(9, {"trades": 50, "quotes": 49}))


def test_before_the_first_row_nothing_is_divided() -> None:
    for kind, each in ((QueryKind.AGGREGATE, WINDOW), (QueryKind.AGGREGATE, LOOKING_BACK), (QueryKind.JOIN, JOIN)):
        assert switch_place(kind, each, 7, NOTHING_YET) is None
        assert joins_at(kind, each, NOTHING_YET) == (True, None)
        assert not is_past(kind, each, 1, NOTHING_YET)


def test_only_spans_that_are_over_are_forgotten() -> None:
    """However many epochs wait for their last rows, none of them is given up."""
    assignment = Assignment.__new__(Assignment)
    spans = tuple(Span("g", epoch) for epoch in range(40))
    moment = moment_before(77, {})
    assignment.epochs = {("g", 5): None, ("g", 39): None}  # type: ignore[dict-item]
    kept, complete_from = assignment._without_oldest(spans, None, moment)
    assert [span.epoch for span in kept] == list(range(5, 40))
    assert complete_from == 77
    assignment.epochs = {("g", 39): None}  # type: ignore[dict-item]
    kept, _ = assignment._without_oldest(spans, None, moment)
    assert [span.epoch for span in kept] == list(range(8, 40))
    known = Itinerary("q", (), (), complete_from=12)
    assert assignment._without_oldest(spans[:3], known, moment) == (spans[:3], 12)
