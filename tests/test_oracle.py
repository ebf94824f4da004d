"""The oracle against examples worked out by hand, one for every sentence of `docs/semantics.md`.

Most of them use a stream with an ordinal clock, so that all arithmetic can be done in one's head.
"""

from __future__ import annotations

import math

import pytest

from tests.oracle import LATE, NULL_CLOCK
from tests.oracle_script import Script
from tests.oracle_values import row_key


def stream(name: str = "s", delay: int = 0, options: str = "") -> str:
    return f"CREATE STREAM {name} (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n - {delay} USING memory {options};"


def query(name: str, select: str) -> str:
    return f"CREATE CONTINUOUS QUERY {name} AS {select};"


def one_query(select: str, delay: int = 0) -> Script:
    return Script(stream(delay=delay) + query("q", select))


def in_order(rows: list) -> list:
    return sorted(rows, key=row_key)


COUNT_10 = "SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10]"


class TestTime:
    def test_window_closes_when_largest_clock_minus_delay_reaches_its_end(self) -> None:
        script = one_query(COUNT_10, delay=2)
        assert script.cycle(s=[(3, "a", 1), (11, "a", 1)])["q"] == []  # the watermark is 9
        assert script.cycle(s=[(12, "a", 1)])["q"] == [(0, 10, 1)]  # now it is 10

    def test_heartbeat_raises_the_largest_clock_without_a_row(self) -> None:
        script = one_query(COUNT_10, delay=2)
        script.cycle(s=[(3, "a", 1)])
        assert script.cycle({"s": 11})["q"] == []
        assert script.cycle({"s": 12})["q"] == [(0, 10, 1)]

    def test_heartbeat_never_lowers_it(self) -> None:
        script = one_query(COUNT_10)
        script.cycle(s=[(3, "a", 1), (9, "a", 1)])
        script.cycle({"s": 1})
        assert script.cycle({"s": 10})["q"] == [(0, 10, 2)]

    def test_rows_of_a_cycle_are_judged_by_the_watermark_before_it(self) -> None:
        """The row at 25 takes the watermark past 10, but only for the cycles that follow."""
        script = one_query(COUNT_10)
        assert script.cycle(s=[(25, "a", 1), (4, "a", 1), (3, "a", 1)])["q"] == [(0, 10, 2)]
        assert script.cycle(s=[(5, "a", 1)])["q"] == []

    def test_stream_without_rows_has_no_watermark(self) -> None:
        """A union of two windowed operands waits for both of them, and t has not said anything."""
        script = Script(stream("s") + stream("t"))
        script.run(query("q", "SELECT v FROM s [ROWS 10 SLIDE 10] UNION ALL SELECT v FROM t [ROWS 10 SLIDE 10]"))
        assert script.cycle(s=[(3, "a", 1), (50, "a", 2)])["q"] == []
        assert script.cycle({"t": 10})["q"] == [(0, 10, 1)]

    def test_row_without_clock_goes_to_the_dead_letter(self) -> None:
        script = one_query("SELECT v FROM s")
        assert script.cycle(s=[(None, "a", 1), (1, "a", 2)])["q"] == [(2,)]
        [letter] = script.dead_letters("s")
        assert (letter.values, letter.reason) == ((None, "a", 1), NULL_CLOCK)


class TestWindows:
    def test_instances_lie_at_multiples_of_the_slide_from_the_origin(self) -> None:
        """Range 10, slide 5, origin 2: the row at 4 is in [-3, 7) and [2, 12), and nowhere else."""
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 5 ORIGIN 2]")
        script.cycle(s=[(4, "a", 1)])
        assert script.cycle({"s": 100})["q"] == [(-3, 7, 1), (2, 12, 1)]

    def test_start_is_inside_and_end_is_outside(self) -> None:
        script = one_query(COUNT_10, delay=50)
        script.cycle(s=[(0, "a", 1), (9, "a", 1), (10, "a", 1), (-1, "a", 1)])
        assert script.cycle({"s": 100})["q"] == [(-10, 0, 1), (0, 10, 2), (10, 20, 1)]

    def test_slide_above_range_leaves_gaps(self) -> None:
        """Range 3, slide 5: the row at 4 lies between [0, 3) and [5, 8), is counted nowhere, and is not late."""
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 3 SLIDE 5]", delay=50)
        script.cycle(s=[(1, "a", 1), (4, "a", 1), (7, "a", 1)])
        assert script.cycle({"s": 100})["q"] == [(0, 3, 1), (5, 8, 1)]
        script.cycle(s=[(4, "a", 1)])
        assert script.dead_letters("s") == []

    def test_row_too_late_for_one_instance_counts_in_an_open_one(self) -> None:
        """After the first cycle the watermark is 11. The row at 8 is too late for [0, 10), but not for [5, 15)."""
        script = one_query("SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 5]")
        assert script.cycle(s=[(3, "a", 1), (11, "a", 2)])["q"] == [(-5, 5, 1), (0, 10, 1)]
        script.cycle(s=[(8, "a", 4)])
        assert script.cycle({"s": 15})["q"] == [(5, 15, 6)]
        assert script.dead_letters("s") == []

    def test_row_late_for_every_query_goes_to_the_dead_letter(self) -> None:
        """At 11 the row at 4 is too late for [0, 10), but [0, 20) is open; after 20 it is late for both."""
        script = Script(stream() + query("a", COUNT_10) + query("b", COUNT_10.replace("10", "20")))
        script.cycle(s=[(11, "x", 1)])
        script.cycle(s=[(4, "x", 1)])
        assert script.dead_letters("s") == []
        assert script.cycle(s=[(20, "x", 1)])["b"] == [(0, 20, 2)]
        script.cycle(s=[(4, "y", 1)])
        [letter] = script.dead_letters("s")
        assert (letter.values, letter.reason) == ((4, "y", 1), LATE)

    def test_row_is_never_late_for_a_selection(self) -> None:
        script = Script(stream() + query("a", COUNT_10) + query("b", "SELECT v FROM s"))
        script.cycle(s=[(100, "x", 1)])
        assert script.cycle(s=[(4, "x", 7)]) == {"a": [], "b": [(7,)]}
        assert script.dead_letters("s") == []

    def test_a_query_over_a_selection_judges_the_rows_that_pass_it(self) -> None:
        script = one_query("SELECT COUNT(*) AS c FROM (SELECT v FROM s WHERE v > 5) t [ROWS 10 SLIDE 10]")
        script.cycle(s=[(100, "x", 9)])
        script.cycle(s=[(4, "x", 9), (5, "x", 0)])
        assert [letter.values[0] for letter in script.dead_letters("s")] == [4, 5]

    def test_bounds_stand_in_front_unless_the_select_list_names_them(self) -> None:
        script = one_query("SELECT COUNT(*) AS c, window_end AS e, window_start AS b FROM s [ROWS 10 SLIDE 10]")
        script.cycle(s=[(3, "a", 1)])
        assert script.cycle({"s": 10})["q"] == [(1, 10, 0)]

    def test_grouped_query_says_nothing_about_a_group_without_rows(self) -> None:
        script = one_query("SELECT k, COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] GROUP BY k", delay=50)
        script.cycle(s=[(3, "a", 1), (4, "b", 1), (14, "a", 1)])
        assert in_order(script.cycle({"s": 70})["q"]) == [(0, 10, "a", 1), (0, 10, "b", 1), (10, 20, "a", 1)]

    def test_ungrouped_query_says_nothing_about_an_empty_instance(self) -> None:
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] WHERE v > 1")
        script.cycle(s=[(3, "a", 1), (24, "a", 2)])
        assert script.cycle({"s": 100})["q"] == [(20, 30, 1)]

    def test_having_keeps_an_answer_back(self) -> None:
        script = one_query("SELECT k, SUM(v) AS t FROM s [ROWS 10 SLIDE 10] GROUP BY k HAVING COUNT(*) > 1")
        script.cycle(s=[(3, "a", 1), (4, "b", 2), (5, "b", 3)])
        assert script.cycle({"s": 10})["q"] == [(0, 10, "b", 5)]

    def test_window_on_a_select_without_aggregates_gives_each_row_once_per_instance(self) -> None:
        script = one_query("SELECT v FROM s [ROWS 10 SLIDE 5]")
        assert script.cycle(s=[(3, "a", 7)])["q"] == []
        assert script.cycle({"s": 9})["q"] == [(-5, 5, 7)]
        assert script.cycle({"s": 10})["q"] == [(0, 10, 7)]

    def test_now_is_a_window_of_one_tick(self) -> None:
        script = one_query("SELECT v FROM s [NOW]")
        assert script.cycle(s=[(3, "a", 7)])["q"] == []
        assert script.cycle({"s": 4})["q"] == [(3, 4, 7)]

    def test_distinct_with_a_window_applies_to_each_instance(self) -> None:
        script = one_query("SELECT DISTINCT k FROM s [ROWS 10 SLIDE 10]", delay=50)
        script.cycle(s=[(1, "a", 1), (2, "a", 2), (3, None, 1), (4, None, 1), (11, "a", 1)])
        assert in_order(script.cycle({"s": 70})["q"]) == [(0, 10, None), (0, 10, "a"), (10, 20, "a")]

    def test_timestamps_count_in_microseconds(self) -> None:
        script = Script(
            "CREATE STREAM s (ts TIMESTAMP, v BIGINT) WATERMARK FOR ts AS ts - INTERVAL 1 SECOND USING memory;"
            + query("q", "SELECT SUM(v) AS t FROM s GROUP BY window(ts, '10 seconds', '5 seconds')")
        )
        script.cycle(s=[(9_999_999, 1), (10_000_000, 2)])
        assert script.cycle({"s": 10_999_999})["q"] == []
        assert script.cycle({"s": 16_000_000})["q"] == [(0, 10_000_000, 1), (5_000_000, 15_000_000, 3)]


class TestEmitEmpty:
    def test_every_instance_from_the_first_row_on_is_answered(self) -> None:
        """Range 10, slide 5. The smallest clock of the first cycle is 23: the first end after it is 25."""
        script = one_query("SELECT COUNT(*) AS c, SUM(v) AS t FROM s [ROWS 10 SLIDE 5] EMIT EMPTY")
        assert script.cycle(s=[(27, "a", 1), (23, "a", 2)])["q"] == [(15, 25, 1, 2)]
        assert script.cycle({"s": 45})["q"] == [
            (20, 30, 2, 3),
            (25, 35, 1, 1),
            (30, 40, 0, None),
            (35, 45, 0, None),
        ]

    def test_rows_that_where_drops_start_it_too(self) -> None:
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] WHERE v > 5 EMIT EMPTY")
        script.cycle(s=[(3, "a", 1)])
        assert script.cycle({"s": 20})["q"] == [(0, 10, 0), (10, 20, 0)]

    def test_nothing_before_the_first_row(self) -> None:
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] EMIT EMPTY")
        assert script.cycle({"s": 50})["q"] == []
        script.cycle(s=[(55, "a", 1)])
        assert script.cycle({"s": 70})["q"] == [(50, 60, 1), (60, 70, 0)]

    def test_having_applies_to_empty_instances(self) -> None:
        script = one_query("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] HAVING COUNT(*) = 0 EMIT EMPTY")
        script.cycle(s=[(3, "a", 1)])
        assert script.cycle({"s": 20})["q"] == [(10, 20, 0)]


class TestUnboundedAggregates:
    def test_every_group_that_got_a_row_is_emitted_with_its_new_value(self) -> None:
        script = one_query("SELECT k, SUM(v) AS t FROM s GROUP BY k")
        assert in_order(script.cycle(s=[(1, "a", 1), (2, "b", 2), (3, "a", 3)])["q"]) == [("a", 4), ("b", 2)]
        assert script.cycle(s=[(4, "b", 5)])["q"] == [("b", 7)]
        assert script.cycle({"s": 100})["q"] == []

    def test_no_row_is_ever_late(self) -> None:
        script = one_query("SELECT SUM(v) AS t FROM s")
        script.cycle(s=[(100, "a", 1)])
        assert script.cycle(s=[(1, "a", 2)])["q"] == [(3,)]

    def test_group_whose_having_does_not_hold_is_not_emitted(self) -> None:
        script = one_query("SELECT k, SUM(v) AS t FROM s GROUP BY k HAVING SUM(v) > 3")
        assert script.cycle(s=[(1, "a", 1), (2, "b", 4)])["q"] == [("b", 4)]
        assert script.cycle(s=[(3, "a", 3)])["q"] == [("a", 4)]

    def test_rows_that_where_drops_change_no_group(self) -> None:
        script = one_query("SELECT k, COUNT(*) AS c FROM s WHERE v > 0 GROUP BY k")
        script.cycle(s=[(1, "a", 1)])
        assert script.cycle(s=[(2, "a", 0)])["q"] == []

    def test_holistic_aggregates_say_unbounded(self) -> None:
        script = one_query("SELECT COUNT(DISTINCT k) AS c, MEDIAN(v) AS m FROM s [RANGE UNBOUNDED]")
        assert script.cycle(s=[(1, "a", 1), (2, "a", 4)])["q"] == [(1, 2.5)]
        assert script.cycle(s=[(3, "b", 100)])["q"] == [(2, 4.0)]


class TestJoins:
    PAIRS = "SELECT a.n AS x, b.n AS y FROM s {0} a JOIN t {1} b ON a.k = b.k"

    def pairs(self, left: str, right: str, delay: int = 0) -> Script:
        return Script(stream("s", delay) + stream("t", delay) + query("q", self.PAIRS.format(left, right)))

    def test_two_rows_meet_iff_both_are_in_their_windows_at_some_instant(self) -> None:
        """Ranges 3 and 2: −3 < t1 − t2 < 2. With t1 = 10, t2 may be 9, 10, 11 and 12."""
        script = self.pairs("[ROWS 3]", "[ROWS 2]")
        answers = script.cycle(s=[(10, "a", 0)], t=[(n, "a", 0) for n in range(6, 16)])["q"]
        assert in_order(answers) == [(10, 9), (10, 10), (10, 11), (10, 12)]

    def test_with_slide_only_its_multiples_are_instants(self) -> None:
        """Instants 0, 5, 10. With range 3, rows at 8, 9 and 10 are inside at 10; 6 and 7 are inside nowhere."""
        script = self.pairs("[ROWS 3 SLIDE 5]", "[ROWS 3 SLIDE 5]")
        answers = script.cycle(s=[(n, "a", 0) for n in (6, 8)], t=[(n, "a", 0) for n in range(5, 12)])["q"]
        assert in_order(answers) == [(8, 8), (8, 9), (8, 10)]

    def test_origin_moves_the_instants(self) -> None:
        """Instants 2, 7, 12: with range 3, rows at 5, 6 and 7 are inside at 7."""
        script = self.pairs("[ROWS 3 SLIDE 5 ORIGIN 2]", "[ROWS 3 SLIDE 5 ORIGIN 2]")
        answers = script.cycle(s=[(5, "a", 0)], t=[(n, "a", 0) for n in range(3, 10)])["q"]
        assert in_order(answers) == [(5, 5), (5, 6), (5, 7)]

    def test_now_meets_equal_clocks(self) -> None:
        script = self.pairs("[NOW]", "[NOW]")
        assert script.cycle(s=[(10, "a", 0)], t=[(n, "a", 0) for n in (9, 10, 11)])["q"] == [(10, 10)]

    def test_one_instant_must_serve_all_of_three_rows(self) -> None:
        """Range 3 each: the three clocks must lie within three ticks of each other."""
        script = one_query(
            "SELECT a.n AS x, b.n AS y, c.n AS z FROM s [ROWS 3] a, s [ROWS 3] b, s [ROWS 3] c "
            "WHERE a.v < b.v AND b.v < c.v"
        )
        answers = script.cycle(s=[(1, "", 1), (3, "", 2), (4, "", 3), (5, "", 4)])["q"]
        assert answers == [(3, 4, 5)]  # 1, 3 and 4 spread over four ticks

    def test_row_meets_itself_in_a_self_join(self) -> None:
        script = one_query("SELECT a.v AS x, b.v AS y FROM s [ROWS 2] a, s [ROWS 2] b")
        assert in_order(script.cycle(s=[(1, "a", 1), (2, "a", 2)])["q"]) == [(1, 1), (1, 2), (2, 1), (2, 2)]

    def test_unbounded_input_remembers_every_row_up_to_the_instant(self) -> None:
        """b leaves its window at t2 + 2, so a row of a that is newer than that never meets it."""
        script = self.pairs("[RANGE UNBOUNDED]", "[ROWS 2]")
        answers = script.cycle(s=[(n, "a", 0) for n in (1, 10, 11, 12)], t=[(10, "a", 0)])["q"]
        assert in_order(answers) == [(1, 10), (10, 10), (11, 10)]

    def test_predicates_on_clocks_bound_inputs_without_windows(self) -> None:
        script = Script(stream("s") + stream("t"))
        script.run(query("q", "SELECT a.n AS x, b.n AS y FROM s a, t b WHERE a.n BETWEEN b.n - 1 AND b.n + 2"))
        answers = script.cycle(s=[(10, "a", 0)], t=[(n, "a", 0) for n in range(7, 14)])["q"]
        assert in_order(answers) == [(10, 8), (10, 9), (10, 10), (10, 11)]

    def test_any_condition_joins(self) -> None:
        script = Script(stream("s") + stream("t"))
        script.run(query("q", "SELECT a.v AS x, b.v AS y FROM s [ROWS 5] a JOIN t [ROWS 5] b ON a.v * a.v > b.v"))
        answers = script.cycle(s=[(1, "", 2), (1, "", -3)], t=[(1, "", 3), (1, "", 8)])["q"]
        assert in_order(answers) == [(-3, 3), (-3, 8), (2, 3)]

    def test_combination_is_emitted_once_when_its_last_row_arrives(self) -> None:
        script = self.pairs("[ROWS 5]", "[ROWS 5]", delay=10)
        assert script.cycle(s=[(10, "a", 0)])["q"] == []
        assert script.cycle(t=[(8, "a", 0)])["q"] == [(10, 8)]
        assert script.cycle(s=[(9, "a", 0)])["q"] == [(9, 8)]

    def test_clock_of_a_combination_is_its_largest_and_its_watermark_the_least(self) -> None:
        """(10, 12) has clock 12 and lies in [10, 20), which closes when both streams have reached 20."""
        script = Script(stream("s") + stream("t"))
        script.run(
            query(
                "q",
                "SELECT COUNT(*) AS c FROM s [ROWS 5] a JOIN t [ROWS 5] b ON a.k = b.k "
                "GROUP BY window(GREATEST(a.n, b.n), 10)",
            )
        )
        script.cycle(s=[(8, "a", 0)], t=[(12, "a", 0), (9, "a", 0)])
        assert script.cycle({"s": 25, "t": 19})["q"] == [(0, 10, 1)]
        assert script.cycle({"t": 20})["q"] == [(10, 20, 1)]

    def test_row_below_its_own_watermark_takes_no_part(self) -> None:
        """s has watermark 20 and t has 10: a row at 15 is late on s, on time on t."""
        script = self.pairs("[ROWS 9]", "[ROWS 9]")
        script.cycle(s=[(20, "z", 0), (14, "a", 0)], t=[(10, "z", 0)])
        assert script.cycle(s=[(15, "b", 0)], t=[(15, "a", 0), (16, "b", 0)])["q"] == [(14, 15)]
        assert [letter.values for letter in script.dead_letters("s")] == [(15, "b", 0)]

    def test_nothing_is_late_where_no_input_is_bounded(self) -> None:
        script = self.pairs("[RANGE UNBOUNDED]", "[RANGE UNBOUNDED]")
        script.cycle(s=[(100, "z", 0)], t=[(100, "a", 0)])
        assert script.cycle(s=[(1, "a", 0)])["q"] == [(1, 100)]

    def test_unbounded_aggregate_over_a_join(self) -> None:
        script = Script(stream("s") + stream("t"))
        script.run(
            query(
                "q",
                "SELECT a.k AS k, SUM(b.v) AS t FROM s [RANGE UNBOUNDED] a JOIN t [RANGE UNBOUNDED] b ON a.k = b.k "
                "GROUP BY a.k",
            )
        )
        assert script.cycle(s=[(1, "a", 0), (2, "b", 0)], t=[(1, "a", 5)])["q"] == [("a", 5)]
        assert script.cycle(t=[(9, "b", 7)])["q"] == [("b", 7)]


class TestDistinct:
    def test_selection_passes_rows_however_old(self) -> None:
        script = one_query("SELECT v + 1 AS w FROM s WHERE k = 'a'")
        assert script.cycle(s=[(100, "a", 1), (90, "b", 2)])["q"] == [(2,)]
        assert script.cycle(s=[(1, "a", 5)])["q"] == [(6,)]

    def test_a_row_finds_its_value_for_the_retained_time(self) -> None:
        """5 − 1 and 14 − 5 are below 10, 24 − 14 is not: what counts is the last row, emitted or not."""
        script = one_query("SELECT DISTINCT k FROM s RETAIN 10")
        assert script.cycle(s=[(1, "a", 0)])["q"] == [("a",)]
        assert script.cycle(s=[(5, "a", 0)])["q"] == []
        assert script.cycle(s=[(14, "a", 0), (15, "b", 0)])["q"] == [("b",)]
        assert script.cycle(s=[(24, "a", 0)])["q"] == [("a",)]

    def test_rows_of_a_cycle_are_taken_in_the_order_of_their_clocks(self) -> None:
        """In order 1, 12, 13 the row at 12 does not find the one at 1, and the one at 13 finds it."""
        script = one_query("SELECT DISTINCT k FROM s RETAIN 10")
        assert script.cycle(s=[(13, "a", 0), (1, "a", 0), (12, "a", 0)])["q"] == [("a",), ("a",)]

    def test_older_row_finds_a_newer_one(self) -> None:
        script = one_query("SELECT DISTINCT k FROM s RETAIN 10", delay=50)
        script.cycle(s=[(60, "a", 0)])
        assert script.cycle(s=[(20, "a", 0)])["q"] == []

    def test_row_below_the_watermark_takes_no_part(self) -> None:
        """The row at 4 is late: it is neither emitted nor remembered, so that the one at 11 does not find it."""
        script = one_query("SELECT DISTINCT k FROM s RETAIN 10")
        script.cycle(s=[(10, "z", 0)])
        assert script.cycle(s=[(4, "a", 0)])["q"] == []
        assert [letter.reason for letter in script.dead_letters("s")] == [LATE]
        assert script.cycle(s=[(11, "a", 0)])["q"] == [("a",)]

    def test_unbounded_finds_every_value_ever_seen_and_nothing_is_late(self) -> None:
        script = one_query("SELECT DISTINCT k FROM s RETAIN UNBOUNDED")
        assert script.cycle(s=[(1_000, "a", 0)])["q"] == [("a",)]
        assert script.cycle(s=[(1, "b", 0), (1_000_000, "a", 0)])["q"] == [("b",)]

    def test_nulls_are_equal_and_so_are_nans_and_zeros(self) -> None:
        script = Script("CREATE STREAM s (n BIGINT, x DOUBLE) WATERMARK FOR n AS n USING memory;")
        script.run(query("q", "SELECT DISTINCT x FROM s RETAIN UNBOUNDED"))
        rows = [(1, None), (2, math.nan), (3, 0.0), (4, None), (5, math.nan), (6, -0.0)]
        assert len(script.cycle(s=rows)["q"]) == 3


class TestSetOperatorsOverHistory:
    def operation(self, operator: str, retain: str = "10", delay: int = 0) -> Script:
        script = Script(stream("l", delay) + stream("r", delay))
        script.run(query("q", f"SELECT k FROM l {operator} SELECT k FROM r RETAIN {retain}"))
        return script

    def test_union_is_distinct_over_both_operands(self) -> None:
        script = self.operation("UNION")
        assert script.cycle(l=[(1, "a", 0)], r=[(2, "a", 0), (3, "b", 0)])["q"] == [("a",), ("b",)]
        assert script.cycle(r=[(11, "a", 0)])["q"] == []
        assert script.cycle(l=[(21, "a", 0)])["q"] == [("a",)]

    def test_intersect_emits_a_row_that_finds_its_value_on_the_other_side(self) -> None:
        """a at 5 finds a at 1; b at 30 does not find b at 2. Matches are made DISTINCT: a at 6 says nothing new."""
        script = self.operation("INTERSECT")
        assert script.cycle(l=[(1, "a", 0), (2, "b", 0)])["q"] == []
        assert script.cycle(r=[(5, "a", 0), (6, "a", 0), (30, "b", 0)])["q"] == [("a",)]

    def test_intersect_takes_both_sides_in_the_order_of_their_clocks(self) -> None:
        """The left row at 1 comes first and finds nothing; the right one at 100 is too new to find it."""
        script = self.operation("INTERSECT")
        assert script.cycle(l=[(1, "a", 0)], r=[(100, "a", 0)])["q"] == []

    def test_intersect_takes_the_left_row_first_at_equal_clocks(self) -> None:
        """Whichever comes second is the match; there is one in any case."""
        script = self.operation("INTERSECT")
        assert script.cycle(l=[(7, "a", 0)], r=[(7, "a", 0)])["q"] == [("a",)]

    def test_except_remembers_the_right_rows_of_the_cycle_first(self) -> None:
        script = self.operation("EXCEPT")
        assert script.cycle(l=[(1, "a", 0), (2, "b", 0)], r=[(5, "a", 0)])["q"] == [("b",)]

    def test_except_takes_nothing_back(self) -> None:
        """b was emitted; that it appears on the right afterwards keeps it back only from then on, for ten ticks."""
        script = self.operation("EXCEPT")
        assert script.cycle(l=[(1, "b", 0)])["q"] == [("b",)]
        assert script.cycle(r=[(12, "b", 0)])["q"] == []
        assert script.cycle(l=[(21, "b", 0)])["q"] == []
        assert script.cycle(l=[(22, "b", 0)])["q"] == [("b",)]

    def test_except_makes_kept_rows_distinct(self) -> None:
        """Kept rows remember one another; the row that was not kept at 11 does not count among them."""
        script = self.operation("EXCEPT")
        assert script.cycle(l=[(1, "a", 0), (3, "a", 0)])["q"] == [("a",)]
        script.cycle(r=[(4, "a", 0)])
        script.cycle(l=[(11, "a", 0)])
        assert script.cycle(l=[(14, "a", 0)])["q"] == [("a",)]

    def test_late_is_below_the_least_watermark_of_both_operands(self) -> None:
        """l has watermark 20, r has 5: the row at 10 on l is on time."""
        script = self.operation("UNION")
        script.cycle(l=[(20, "x", 0)], r=[(5, "x", 0)])
        assert script.cycle(l=[(10, "a", 0), (4, "b", 0)])["q"] == [("a",)]

    def test_union_all_passes_both_operands_through(self) -> None:
        script = Script(stream("l") + stream("r") + query("q", "SELECT k FROM l UNION ALL SELECT k FROM r"))
        assert script.cycle(l=[(9, "a", 0), (1, "a", 0)], r=[(1, "a", 0)])["q"] == [("a",), ("a",), ("a",)]

    def test_operators_nest(self) -> None:
        script = Script(stream("l") + stream("r"))
        script.run(query("q", "(SELECT k FROM l UNION SELECT k FROM r) EXCEPT SELECT 'b' AS k FROM l RETAIN UNBOUNDED"))
        assert script.cycle(l=[(1, "a", 0)], r=[(2, "b", 0), (3, "c", 0)])["q"] == [("a",), ("c",)]


class TestSetOperatorsOnWindows:
    def operation(self, operator: str) -> Script:
        script = Script(stream("l") + stream("r"))
        script.run(query("q", f"SELECT k FROM l [ROWS 10 SLIDE 10] {operator} SELECT k FROM r [ROWS 10 SLIDE 10]"))
        return script

    LEFT = ((1, "a", 0), (2, "a", 0), (3, "b", 0), (4, None, 0))
    RIGHT = ((5, "a", 0), (6, None, 0), (7, "c", 0))

    @pytest.mark.parametrize(
        ("operator", "expected"),
        [
            ("UNION", [None, "a", "b", "c"]),
            ("UNION ALL", [None, None, "a", "a", "a", "b", "c"]),
            ("INTERSECT", [None, "a"]),
            ("INTERSECT ALL", [None, "a"]),
            ("EXCEPT", ["b"]),
            ("EXCEPT ALL", ["a", "b"]),
        ],
    )
    def test_operator_applies_to_each_instance(self, operator: str, expected: list[str | None]) -> None:
        script = self.operation(operator)
        script.cycle(l=self.LEFT, r=self.RIGHT)
        answers = script.cycle({"l": 10, "r": 10})["q"]
        assert in_order(answers) == [(0, 10, k) for k in expected]

    def test_instance_is_answered_when_it_has_closed_for_both(self) -> None:
        """The left operand's instance closes first, and with that its rows are fixed: the one at 6 comes too late."""
        script = self.operation("UNION ALL")
        assert script.cycle(l=[(1, "a", 0), (10, "x", 0)], r=[(2, "b", 0)])["q"] == []
        assert script.cycle(l=[(6, "late", 0)], r=[(7, "c", 0)])["q"] == []
        assert in_order(script.cycle({"r": 10})["q"]) == [(0, 10, "a"), (0, 10, "b"), (0, 10, "c")]

    def test_aggregates_are_operands_too(self) -> None:
        script = Script(stream("l") + stream("r"))
        count = "SELECT k, COUNT(*) AS c FROM {0} [ROWS 10 SLIDE 10] GROUP BY k"
        script.run(query("q", f"{count.format('l')} EXCEPT {count.format('r')}"))
        script.cycle(l=[(1, "a", 0), (2, "a", 0), (3, "b", 0)], r=[(4, "a", 0), (5, "b", 0)])
        assert script.cycle({"l": 10, "r": 10})["q"] == [(0, 10, "a", 2)]


class TestQueriesOverQueries:
    def test_answers_are_read_in_the_cycle_that_produces_them_and_their_clock_is_the_end(self) -> None:
        """Ends 10 and 20: the instance [0, 20) holds the first answer only."""
        script = Script(stream() + query("p", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 10]"))
        script.run(query("q", "SELECT SUM(t) AS u FROM p [ROWS 20 SLIDE 20]"))
        script.cycle(s=[(3, "a", 1), (13, "a", 2), (23, "a", 4)])
        answers = script.cycle({"s": 40})
        assert answers["p"] == [(20, 30, 4)]
        assert answers["q"] == [(20, 40, 6)]

    def test_watermark_is_the_parents(self) -> None:
        """At watermark 20 the parent's answer with end 20 comes out, and [0, 20) of the child closes."""
        script = Script(stream() + query("p", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 10]"))
        script.run(query("q", "SELECT SUM(t) AS u FROM p [ROWS 20 SLIDE 20]"))
        script.cycle(s=[(3, "a", 1), (13, "a", 2)])
        assert script.cycle({"s": 20}) == {"p": [(10, 20, 2)], "q": [(0, 20, 1)]}

    def test_selection_keeps_the_rows_own_clock(self) -> None:
        script = Script(stream() + query("p", "SELECT v FROM s WHERE v > 1"))
        script.run(query("q", "SELECT COUNT(*) AS c FROM p [ROWS 10 SLIDE 10]"))
        script.cycle(s=[(3, "a", 1), (4, "a", 2)])
        assert script.cycle({"s": 10})["q"] == [(0, 10, 1)]

    def test_view_and_subquery_mean_the_same(self) -> None:
        script = Script(stream() + "CREATE VIEW w AS SELECT k, v * 2 AS d FROM s WHERE v > 1;")
        script.run(query("a", "SELECT SUM(d) AS t FROM w [ROWS 10 SLIDE 10]"))
        script.run(query("b", "SELECT SUM(d) AS t FROM (SELECT k, v * 2 AS d FROM s WHERE v > 1) j [ROWS 10 SLIDE 10]"))
        script.cycle(s=[(3, "a", 1), (4, "a", 2), (5, "b", 3)])
        assert script.cycle({"s": 10}) == {"a": [(0, 10, 10)], "b": [(0, 10, 10)]}

    def test_join_of_aggregates(self) -> None:
        """Both answers carry the clock 10 and meet at that instant."""
        script = Script(stream("s") + stream("t"))
        count = "SELECT k, COUNT(*) AS c FROM {0} [ROWS 10 SLIDE 10] GROUP BY k"
        script.run(query("a", count.format("s")) + query("b", count.format("t")))
        script.run(query("q", "SELECT a.k AS k, a.c AS x, b.c AS y FROM a [NOW] JOIN b [NOW] ON a.k = b.k"))
        script.cycle(s=[(1, "x", 0), (2, "x", 0), (3, "y", 0)], t=[(4, "x", 0)])
        assert script.cycle({"s": 10, "t": 10})["q"] == [("x", 2, 1)]

    def test_parent_of_a_query_is_not_dropped(self) -> None:
        script = Script(stream() + query("p", COUNT_10) + query("q", "SELECT c FROM p"))
        with pytest.raises(ValueError, match="q read the answers of p"):
            script.oracle.drop("p")


class TestQueriesThatComeAndGo:
    def test_instances_that_start_after_the_largest_clock_seen_are_answered(self) -> None:
        """Created at 12: [10, 20) starts too early, [15, 25) is the first."""
        script = Script(stream())
        script.cycle(s=[(12, "a", 1)])
        script.run(query("q", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 5]"))
        script.cycle(s=[(13, "a", 2), (16, "a", 4)])
        assert script.cycle({"s": 30})["q"] == [(15, 25, 4)]

    def test_an_instance_that_starts_at_the_largest_clock_is_not(self) -> None:
        script = Script(stream())
        script.cycle(s=[(10, "a", 1)])
        script.run(query("q", COUNT_10))
        script.cycle(s=[(11, "a", 1), (20, "a", 1)])
        assert script.cycle({"s": 30})["q"] == [(20, 30, 1)]

    def test_a_heartbeat_counts_as_seen(self) -> None:
        script = Script(stream())
        script.cycle({"s": 10})
        script.run(query("q", COUNT_10))
        script.cycle(s=[(15, "a", 1), (25, "a", 1)])
        assert script.cycle({"s": 30})["q"] == [(20, 30, 1)]

    def test_query_on_a_stream_without_rows_answers_everything(self) -> None:
        script = Script(stream())
        script.cycle()
        script.run(query("q", COUNT_10))
        script.cycle(s=[(3, "a", 1)])
        assert script.cycle({"s": 10})["q"] == [(0, 10, 1)]

    def test_all_else_begins_with_the_rows_of_the_first_cycle(self) -> None:
        script = Script(stream("s", delay=5) + stream("t", delay=5))
        script.cycle(s=[(1, "a", 1)], t=[(1, "a", 1)])
        script.run(query("selection", "SELECT v FROM s"))
        script.run(query("total", "SELECT SUM(v) AS t FROM s"))
        script.run(query("values_of_k", "SELECT DISTINCT k FROM s RETAIN 100"))
        script.run(query("pairs", "SELECT a.n AS x, b.n AS y FROM s [ROWS 9] a JOIN t [ROWS 9] b ON a.k = b.k"))
        assert script.cycle(s=[(2, "a", 10)]) == {
            "selection": [(10,)],
            "total": [(10,)],
            "values_of_k": [("a",)],
            "pairs": [],
        }

    def test_backfill_answers_the_instances_that_lie_in_the_history(self) -> None:
        """Created at 27 with a history of 20 ticks: rows from 8 on are kept, so [10, 20) and [20, 30) are complete.

        [10, 20) has closed already and is answered in the first cycle.
        """
        script = Script(stream(options="BACKFILL 20"))
        script.cycle(s=[(5, "a", 1), (9, "a", 2), (12, "a", 4)])
        script.cycle(s=[(27, "a", 8)])
        script.run(query("q", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 10]"))
        assert script.cycle(s=[(28, "a", 16)])["q"] == [(10, 20, 4)]
        assert script.cycle({"s": 30})["q"] == [(20, 30, 24)]

    def test_backfill_answers_as_if_the_query_had_been_there(self) -> None:
        """The row at 14 came after [10, 20) had closed: it does not count there for a new query, either."""
        script = Script(stream(options="BACKFILL 50"))
        script.run(query("old", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 10]"))
        script.cycle(s=[(12, "a", 1), (20, "a", 2)])
        script.cycle(s=[(14, "a", 4)])
        script.run(query("new", "SELECT SUM(v) AS t FROM s [ROWS 10 SLIDE 10]"))
        assert script.cycle() == {"old": [], "new": [(10, 20, 1)]}

    def test_backfill_reaches_windows_through_selections_only(self) -> None:
        script = Script(stream(options="BACKFILL 20"))
        script.cycle(s=[(12, "a", 1), (13, "a", 2), (21, "a", 1)])
        script.run(query("through", "SELECT COUNT(*) AS c FROM (SELECT v FROM s WHERE v > 1) t [ROWS 10 SLIDE 10]"))
        script.run(query("selection", "SELECT v FROM s"))
        assert script.cycle() == {"through": [(10, 20, 1)], "selection": []}

    def test_window_over_windows_answers_what_lacks_nothing(self) -> None:
        """Created at 12: the inner instances [20, 30), [30, 40), … are answered, with clocks 30, 40, …

        The outer [20, 40) would lack the inner answer with clock 20; [40, 60) lacks nothing.
        """
        script = Script(stream())
        script.cycle(s=[(12, "a", 1)])
        script.run(
            query("q", "SELECT SUM(c) AS t FROM (SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10]) j [ROWS 20 SLIDE 20]")
        )
        script.cycle(s=[(n, "a", 1) for n in range(13, 60)])
        assert script.cycle({"s": 60})["q"] == [(40, 60, 20)]

    def test_query_over_a_running_query_starts_like_any_other(self) -> None:
        """The parent has long been there. Created at 12, the child's first instance is [20, 40): ends 20 and 30."""
        script = Script(stream() + query("p", COUNT_10))
        script.cycle(s=[(3, "a", 1), (12, "a", 1)])
        script.run(query("q", "SELECT SUM(c) AS t FROM p [ROWS 20 SLIDE 20]"))
        script.cycle(s=[(25, "a", 1), (26, "a", 1)])
        assert script.cycle({"s": 40})["q"] == [(20, 40, 3)]

    def test_emit_empty_starts_with_the_rows_of_the_query(self) -> None:
        """Created at 12; its first row is at 45. [20, 30) and [30, 40) end before that."""
        script = Script(stream())
        script.cycle(s=[(12, "a", 1)])
        script.run(query("q", "SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 10] EMIT EMPTY"))
        script.cycle(s=[(45, "a", 1)])
        assert script.cycle({"s": 60})["q"] == [(40, 50, 1), (50, 60, 0)]

    def test_dropped_query_is_gone_and_its_name_is_free(self) -> None:
        script = Script(stream() + query("q", "SELECT SUM(v) AS t FROM s"))
        script.cycle(s=[(1, "a", 1)])
        script.run("DROP CONTINUOUS QUERY q")
        assert script.cycle(s=[(2, "a", 2)]) == {}
        script.run(query("q", "SELECT SUM(v) AS t FROM s"))
        assert script.cycle(s=[(3, "a", 4)])["q"] == [(4,)]


class TestTables:
    GIVEN = stream() + stream("t") + "CREATE TABLE r (k STRING, w BIGINT) USING memory;"

    def joined(self, select: str) -> Script:
        script = Script(self.GIVEN + query("q", select))
        script.load(r=[("a", 1), ("a", 2), ("b", 3)])
        return script

    def test_a_row_meets_all_rows_of_a_table_in_the_cycle_in_which_it_arrives(self) -> None:
        script = self.joined("SELECT s.n, r.w FROM s, r WHERE s.k = r.k")
        assert in_order(script.cycle(s=[(5, "a", 1), (6, "c", 1)])["q"]) == [(5, 1), (5, 2)]
        assert script.cycle()["q"] == []

    def test_any_condition_may_say_which_rows_meet(self) -> None:
        script = self.joined("SELECT s.n, r.w FROM r JOIN s ON r.w < s.v AND r.k <> s.k")
        assert script.cycle(s=[(5, "b", 3)])["q"] == [(5, 1), (5, 2)]

    def test_a_row_is_never_too_late_to_meet_a_table(self) -> None:
        script = self.joined("SELECT s.n, r.w FROM s, r WHERE s.k = r.k")
        script.cycle(s=[(100, "a", 1)])
        assert script.cycle(s=[(5, "b", 1)])["q"] == [(5, 3)]
        assert script.dead_letters("s") == []

    def test_a_query_that_is_created_later_sees_the_whole_table(self) -> None:
        script = self.joined("SELECT n FROM s")
        script.cycle(s=[(1, "b", 1)])
        script.run(query("p", "SELECT s.n, r.w FROM s, r WHERE s.k = r.k"))
        assert script.cycle(s=[(2, "b", 1)])["p"] == [(2, 3)]

    def test_new_rows_of_a_table_hold_from_the_next_cycle_on_and_nothing_is_taken_back(self) -> None:
        script = self.joined("SELECT s.n, r.w FROM s, r WHERE s.k = r.k")
        assert script.cycle(s=[(1, "b", 1)])["q"] == [(1, 3)]
        script.load(r=[("b", 4)])
        assert script.cycle()["q"] == []
        assert script.cycle(s=[(2, "b", 1), (2, "a", 1)])["q"] == [(2, 4)]

    def test_where_two_streams_meet_the_table_has_the_rows_of_the_cycle_of_the_last_of_them(self) -> None:
        script = self.joined("SELECT s.n, t.n AS m, r.w FROM s [ROWS 10], r, t [ROWS 10] WHERE s.k = r.k AND s.k = t.k")
        assert script.cycle(s=[(1, "b", 1)])["q"] == []
        script.load(r=[("b", 4)])
        assert script.cycle(t=[(3, "b", 1)])["q"] == [(1, 3, 4)]

    def test_a_table_has_no_part_in_which_rows_of_two_streams_meet_or_are_late(self) -> None:
        script = self.joined("SELECT s.n, t.n AS m FROM s [ROWS 3], t [ROWS 3], r WHERE r.w = 3")
        assert script.cycle(s=[(1, "a", 1), (5, "a", 1)], t=[(3, "a", 1)])["q"] == [(1, 3), (5, 3)]
        assert script.cycle(s=[(4, "a", 1)])["q"] == []  # below the watermark of s
        assert [letter.reason for letter in script.dead_letters("s")] == [LATE]

    def test_a_join_with_tables_has_the_clock_and_watermark_of_its_stream(self) -> None:
        script = Script(
            self.GIVEN
            + query("p", "SELECT s.n, r.w FROM s, r WHERE s.k = r.k")
            + query("q", "SELECT COUNT(*) AS c FROM TUMBLE(p, n, 10)")
        )
        script.load(r=[("a", 1), ("a", 2), ("b", 3)])
        assert script.cycle(s=[(4, "a", 1), (6, "b", 1)])["q"] == []
        assert script.cycle(s=[(10, "c", 1)])["q"] == [(0, 10, 3)]

    def test_a_window_on_the_only_stream_is_the_window_of_the_select(self) -> None:
        script = self.joined("SELECT r.k, SUM(r.w) AS w FROM s [ROWS 10 SLIDE 10], r WHERE s.k = r.k GROUP BY r.k")
        assert script.cycle(s=[(4, "a", 1), (7, "a", 1), (8, "b", 1), (9, "c", 1)])["q"] == []
        assert in_order(script.cycle(s=[(12, "a", 1)])["q"]) == [(0, 10, "a", 6), (0, 10, "b", 3)]

    def test_a_row_that_is_late_for_one_window_counts_in_those_that_are_open(self) -> None:
        script = self.joined("SELECT COUNT(*) AS c FROM s [ROWS 10 SLIDE 5], r WHERE s.k = r.k")
        assert script.cycle(s=[(12, "b", 1)])["q"] == []
        assert script.cycle(s=[(7, "a", 1)])["q"] == []  # [0, 10) has closed, [5, 15) has not
        assert script.cycle({"s": 15})["q"] == [(5, 15, 3)]

    def test_an_aggregate_without_a_window_never_closes(self) -> None:
        script = self.joined("SELECT r.k, COUNT(*) AS c FROM s, r WHERE s.k = r.k GROUP BY r.k")
        assert script.cycle(s=[(1, "a", 1)])["q"] == [("a", 2)]
        assert script.cycle(s=[(2, "a", 1), (3, "b", 1)])["q"] == [("a", 4), ("b", 1)]
