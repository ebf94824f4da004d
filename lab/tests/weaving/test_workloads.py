from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.plans import collapse
from lab.weaving.workloads import (
    Slides,
    Toward,
    Workload,
    any_slides,
    collapse_table,
    dashboards,
    draw,
    draw_table,
    factor_slides,
    factors_of,
    possible_slides,
)
from weft.algebra import Window

any_workload = st.builds(
    Workload,
    queries=st.integers(0, 60),
    largest_slide=st.integers(1, 400),
    most_overlap=st.integers(1, 50),
    rate=st.fractions(min_value=0, max_value=100),
    skew=st.floats(-2, 3),
    slides=st.sampled_from(Slides),
    toward=st.sampled_from(Toward),
    whole_overlap=st.booleans(),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(workload=any_workload, seed=st.integers(0, 1000))
def test_every_window_is_one_that_the_workload_allows(workload: Workload, seed: int) -> None:
    windows = draw(workload, seed)
    assert len(windows) == workload.queries
    for window in windows:
        assert window.range is not None
        assert window.origin == 0
        assert 1 <= window.slide <= workload.largest_slide
        assert window.slide <= window.range <= workload.most_overlap * window.slide
        if workload.slides is Slides.FACTORS:
            assert workload.largest_slide % window.slide == 0
        if workload.whole_overlap:
            assert window.range % window.slide == 0


@settings(max_examples=50, deadline=None, derandomize=True)
@given(workload=any_workload, seed=st.integers(0, 1000))
def test_the_same_seed_draws_the_same_windows_and_the_rate_has_no_part_in_it(workload: Workload, seed: int) -> None:
    assert draw(workload, seed) == draw(replace(workload, rate=workload.rate + 1), seed)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(workload=any_workload, seed=st.integers(0, 1000))
def test_the_table_holds_the_windows_in_the_same_order(workload: Workload, seed: int) -> None:
    table = draw_table(workload, seed)
    windows = [Window(int(reach), int(slide)) for reach, slide in zip(table.ranges, table.slides, strict=True)]
    assert windows == draw(workload, seed)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(1, 3000))
def test_factors_are_what_divides(number: int) -> None:
    assert factors_of(number) == [each for each in range(1, number + 1) if number % each == 0]


def test_slides_of_the_experiments_are_the_sixteen_factors_of_a_thousand() -> None:
    slides = {window.slide for window in draw(factor_slides(2_000), seed=0)}
    assert slides == {1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000}


@pytest.mark.parametrize("skew", [0.0, 0.6, 1.5])
def test_slides_follow_zipfs_law(skew: float) -> None:
    """Frequencies of a hundred thousand draws lie within six standard deviations of what the law says."""
    queries = 100_000
    workload = any_slides(queries, 1, skew=skew, largest_slide=10)
    counts = Counter(draw_table(workload, seed=5).slides.tolist())
    total = sum(rank**-skew for rank in range(1, 11))
    for rank in range(1, 11):
        share = rank**-skew / total
        assert abs(counts[rank] - queries * share) < 6 * (queries * share * (1 - share)) ** 0.5


def test_overlap_factors_are_drawn_evenly() -> None:
    table = draw_table(factor_slides(100_000, most_overlap=4), seed=6)
    counts = np.bincount(table.ranges // table.slides, minlength=5)
    assert counts[0] == 0
    assert all(abs(count - 25_000) < 6 * (25_000 * 0.75) ** 0.5 for count in counts[1:])


def test_the_direction_of_the_skew() -> None:
    small = any_slides(10, 1, largest_slide=5)
    assert possible_slides(small).tolist() == [1, 2, 3, 4, 5]
    assert possible_slides(replace(small, toward=Toward.LARGE)).tolist() == [5, 4, 3, 2, 1]
    assert possible_slides(replace(small, skew=-0.6)).tolist() == [5, 4, 3, 2, 1]
    assert possible_slides(factor_slides(skew=-1, largest_slide=8)).tolist() == [1, 2, 4, 8]


def test_real_overlap_factors_make_two_edges_per_slide_and_whole_ones_one() -> None:
    whole = any_slides(500, 1)
    real = replace(whole, whole_overlap=False)
    assert not any((window.range or 0) % window.slide for window in draw(whole, seed=1))
    assert sum(bool((window.range or 0) % window.slide) for window in draw(real, seed=1)) > 400


def test_a_workload_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="from 1 on"):
        factor_slides(largest_slide=0)
    with pytest.raises(ValueError, match="rows per tick"):
        factor_slides(rate=Fraction(-1))


def test_dashboards_have_round_periods() -> None:
    windows = dashboards(3_000, seed=2)
    slides = {window.slide for window in windows}
    assert {1, 60, 3_600, 86_400} <= slides
    assert all(86_400 % slide == 0 for slide in slides)
    assert all(window.slide <= (window.range or 0) <= 10_000 * window.slide for window in windows)


def test_dashboards_on_a_finer_clock_are_the_same_dashboards() -> None:
    seconds = dashboards(200, seed=3)
    microseconds = dashboards(200, seed=3, second=1_000_000)
    assert microseconds == [Window((each.range or 0) * 1_000_000, each.slide * 1_000_000) for each in seconds]


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=40))
def test_tables_collapse_like_lists(rows: list[tuple[int, int]]) -> None:
    ranges, slides = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    assert collapse_table(ranges, slides) == collapse([Window(*row) for row in rows])
