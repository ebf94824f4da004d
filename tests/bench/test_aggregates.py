"""The parts of the aggregate benchmark that need no Spark: its rows, its queries, its arithmetic, its comparisons."""

from __future__ import annotations

from math import isclose, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import aggregates
from bench.aggregate_measurements import against, answers, data, duckdb_again, flatness, limits, machine_floor, model
from bench.aggregate_measurements.arena import WeftRun
from bench.aggregate_measurements.jobs import Job
from bench.aggregate_measurements.workload import FUNCTIONS, READINGS, AggregateQuery, draw, spread_sample, weft_select
from bench.contest import Mark, Spent, plain, warm, warm_of
from weft.algebra import Window

KEYS = [
    "spark_each_over_weft_10",
    "spark_each_over_weft_100",
    "spark_union_over_weft_100",
    "cpu_1000_over_1",
    "cpu_10000_over_1",
    "spark_floor_share_1000",
    "machine_floor_share_1000",
    "flink_over_weft_10",
    "flink_over_weft_100",
    "model_error_mean",
    "cycle_p50_ms_1000",
    "jobs_per_cycle_1",
    "jobs_per_cycle_1000",
    "restart_seconds_1000",
]


def test_the_json_line_has_the_keys_that_were_promised() -> None:
    assert list(aggregates.DEFINITIONS) == KEYS


# --- queries and rows ------------------------------------------------------------------------------------------------


def test_the_first_queries_of_many_are_those_of_few() -> None:
    assert draw(READINGS, 1_000, literals=9)[:10] == draw(READINGS, 10, literals=9)


def test_queries_are_as_the_benchmark_says() -> None:
    drawn = draw(READINGS, 1_000, literals=9)
    assert {query.function for query in drawn} == set(FUNCTIONS)
    assert {query.slide for query in drawn} == set(range(1, 61))
    assert {query.slides for query in drawn} <= set(range(1, 101))
    assert sum(query.above is not None for query in drawn) == 500
    assert {query.above for query in drawn} - {None} == {10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0}


def test_a_sample_is_spread_over_all_overlaps() -> None:
    queries = [AggregateQuery(number, "SUM", 1, slides, None) for number, slides in enumerate(range(100, 0, -1))]
    slides = sorted(queries[number].slides for number in spread_sample(queries, 4))
    assert slides == [13, 38, 63, 88]
    assert spread_sample(queries[:3], 10) == [0, 1, 2]


def test_a_query_as_weft_reads_it() -> None:
    assert weft_select(READINGS, AggregateQuery(1, "AVG", 5, 12, 30.0)) == (
        "SELECT window_end, sensor, AVG(temperature) AS x FROM readings [RANGE 60 SECONDS SLIDE 5 SECONDS] "
        "WHERE humidity > 30.0 GROUP BY sensor"
    )


def test_rows_are_the_same_each_time_and_in_the_order_of_time(tmp_path: Path) -> None:
    first, second = (data.write_readings(tmp_path / name, 2, 50, keys=3) for name in ("first", "second"))
    tables = [pa.concat_tables([pq.read_table(file) for file in data.files_of(folder)]) for folder in (first, second)]
    assert tables[0] == tables[1]
    clocks = tables[0]["ts"].cast(pa.int64()).to_pylist()
    assert clocks == sorted(clocks)
    assert set(tables[0]["sensor"].to_pylist()) == {"s0000000", "s0000001", "s0000002"}
    assert data.rows_in(data.files_of(first)[1]) == 50


def test_files_written_later_go_on_where_the_others_end(tmp_path: Path) -> None:
    at_once = data.write_readings(tmp_path / "at once", 3, 20)
    data.write_readings(tmp_path / "in two", 2, 20)
    in_two = data.write_readings(tmp_path / "in two", 1, 20, first=2)
    for one, other in zip(data.files_of(at_once), data.files_of(in_two), strict=True):
        assert pq.read_table(one) == pq.read_table(other)


def test_text_for_flink_has_the_same_rows(tmp_path: Path) -> None:
    folder = data.write_readings(tmp_path / "rows", 2, 20, keys=3)
    assert data.write_csv(folder, tmp_path / "rows.csv", 1) == 20
    written = [line.split(",") for line in (tmp_path / "rows.csv").read_text().splitlines()]
    table = pq.read_table(data.files_of(folder)[0])
    assert [row[1] for row in written] == table["sensor"].to_pylist()
    assert [float(row[2]) for row in written] == table["temperature"].to_pylist()
    assert [row[0] for row in written] == [f"{each:%Y-%m-%d %H:%M:%S.%f}"[:-3] for each in table["ts"].to_pylist()]


# --- contestants without Spark ---------------------------------------------------------------------------------------


def _naive(job: Job) -> answers.Answers:
    """The answers by definition: for every window, the rows in it."""
    table = pa.concat_tables([pq.read_table(file) for file in data.files_of(job.small)])
    clocks = table["ts"].cast(pa.int64()).to_pylist()
    rows = list(zip(clocks, *(table[name].to_pylist() for name in ("sensor", "temperature", "humidity")), strict=True))
    until = answers.closed_until(job)
    found: answers.Answers = {}
    for query in job.checked():
        slide, reach = query.slide * 1_000_000, query.range * 1_000_000
        for end in range((clocks[0] // slide + 1) * slide, until + 1, slide):
            groups: dict[str, list[float]] = {}
            for clock, key, value, compared in rows:
                if end - reach <= clock < end and (query.above is None or compared > query.above):
                    groups.setdefault(key, []).append(value)
            for key, values in groups.items():
                found[query.number, end, key] = _folded(query.function, values)
    return found


def _folded(function: str, values: list[float]) -> float | None:
    mean = sum(values) / len(values)
    if function == "STDDEV":
        return None if len(values) == 1 else sqrt(sum((x - mean) ** 2 for x in values) / (len(values) - 1))
    return {"SUM": sum(values), "AVG": mean, "MAX": max(values)}[function]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = data.write_readings(tmp_path / "small", 3, 120, keys=3, seed=5)
    return Job(str(folder), str(folder), str(tmp_path / "answers.parquet"), count=2)


@pytest.mark.parametrize("contestant", [machine_floor, duckdb_again])
def test_contestants_answer_what_the_windows_hold(contestant: object, job: Job) -> None:
    result = contestant.contestant(job)  # type: ignore[attr-defined]
    assert [mark["rows"] for mark in result["runs"][0]] == [120, 120, 120]
    expected = _naive(job)
    found = pq.read_table(job.answers).to_pydict()
    given = dict(zip(zip(found["query"], found["end"], found["key"], strict=True), found["x"], strict=True))
    assert given.keys() == expected.keys()
    for place, value in expected.items():
        assert (given[place] is None) == (value is None), place
        assert value is None or isclose(given[place], value, rel_tol=1e-9, abs_tol=1e-9), place


# --- comparing answers -----------------------------------------------------------------------------------------------


def _write(path: Path, *rows: tuple[int, int, str, float | None]) -> Path:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(columns, names=answers.SCHEMA.names).cast(answers.SCHEMA), path)
    return path


def test_answers_after_the_watermark_and_of_other_queries_do_not_count(tmp_path: Path) -> None:
    ours = _write(tmp_path / "ours", (0, 10, "a", 1.0), (0, 20, "a", None))
    theirs = _write(
        tmp_path / "theirs", (0, 10, "a", 1.0 + 1e-13), (0, 20, "a", None), (0, 30, "a", 5.0), (1, 10, "a", 2.0)
    )
    assert answers.compare(ours, theirs, until=20, queries=1) == 2


@pytest.mark.parametrize("wrong", [(0, 10, "a", 1.001), (0, 10, "b", 1.0), (0, 11, "a", 1.0), (0, 10, "a", None)])
def test_other_answers_are_found(tmp_path: Path, wrong: tuple[int, int, str, float | None]) -> None:
    ours = _write(tmp_path / "ours", (0, 10, "a", 1.0), (0, 20, "a", 2.0))
    theirs = _write(tmp_path / "theirs", wrong, (0, 20, "a", 2.0))
    with pytest.raises(answers.DifferentAnswers):
        answers.compare(ours, theirs, until=20, queries=1)


def test_no_answers_are_not_the_same_answers(tmp_path: Path) -> None:
    ours = _write(tmp_path / "ours", (0, 10, "a", 1.0))
    with pytest.raises(answers.DifferentAnswers):
        answers.compare(ours, ours, until=20, queries=2)


# --- taking the time -------------------------------------------------------------------------------------------------

MARKS = [Mark(cpu, wall, python, 10) for cpu, wall, python in ((5, 2, 1), (7, 3, 2), (8, 3.5, 2.5), (10, 5, 3))]


def test_the_first_two_batches_do_not_count() -> None:
    assert warm(MARKS) == Spent(cpu=3, wall=2, rows=20, python=1)
    with pytest.raises(ValueError, match="2 batches"):
        warm(MARKS[:2])


def test_runs_of_one_query_each_add_up_over_the_same_rows() -> None:
    assert warm_of({"runs": [plain(MARKS), plain(MARKS)]}) == Spent(cpu=6, wall=4, rows=20, python=2)


def test_what_is_extrapolated_says_so() -> None:
    spent = warm(MARKS).times(10)
    assert (spent.cpu, spent.rows, spent.scaled) == (30, 20, 10)
    assert spent.cpu_per_row == 1.5


# --- figures ---------------------------------------------------------------------------------------------------------


def _run(queries: int, cpu: float, jobs: int = 1, compiling: float = 0.0) -> WeftRun:
    """A run of four cycles, the last two of which took so much."""
    cycle = {"seconds": 1.0, "answers": 5, "late": 0, "jobs": jobs, "python_bytes": 100, "partials": 7}
    parts = (0.0, 0.0, 0.5, 1.0)
    marks = tuple(Mark(part * cpu, part * cpu, part * cpu / 4, 50, part * compiling) for part in parts)
    return WeftRun(queries, warm(marks), marks, (cycle,) * 4, 0.1, {})


def test_a_run_has_settled_after_half_of_its_cycles() -> None:
    seconds = [9.0, 12.0, 14.0, 15.0, 15.5, 16.0]
    marks = tuple(Mark(second, second, 0.0, 10) for second in seconds)
    run = WeftRun(1, warm(marks), marks, (), 0.1, {})
    assert (run.spent.cpu, run.spent.rows) == (4.0, 40)
    assert (run.settled.cpu, run.settled.rows) == (2.0, 30)


def test_the_second_half_of_a_run_has_stretches_of_equal_length() -> None:
    seconds = [0.0, 10.0, 20.0, 30.0, 35.0, 39.0, 42.0, 44.0, 50.0]
    marks = tuple(Mark(second, second, 0.0, 10) for second in seconds)
    run = WeftRun(1, warm(marks), marks, (), 0.1, {})
    assert [(each.cpu, each.rows) for each in run.stretches(2)] == [(8.0, 20), (7.0, 20)]
    assert [each.cpu for each in run.stretches(9)] == [6.0, 2.0, 3.0, 4.0, 5.0]


def test_flatness_is_relative_to_one_query_and_null_where_a_size_is_missing() -> None:
    found = flatness.Flatness({1: [_run(1, 2.0, jobs=1)], 1_000: [_run(1_000, 3.0, jobs=2)]}, {})
    assert found.ratios() == {
        "cpu_1000_over_1": 1.5,
        "cpu_10000_over_1": None,
        "jobs_per_cycle_1": 1,
        "jobs_per_cycle_1000": 2,
    }


def test_contestants_are_compared_by_cpu_per_row() -> None:
    weft, each = Spent(2.0, 1.0, 100), Spent(30.0, 9.0, 50)
    found = against.Against({10: {against.WEFT: weft, against.EACH: each}, 100: {against.WEFT: weft}}, {}, {})
    assert found.ratios()["spark_each_over_weft_10"] == 30.0
    assert found.ratios()["flink_over_weft_100"] is None


def test_the_parts_of_a_cycle_add_up_to_it() -> None:
    floors = {"scan": Spent(0.1, 1, 100), "aggregation": Spent(0.3, 1, 100), "with_signatures": Spent(0.4, 1, 100)}
    found = limits.Limits(_run(1_000, 2.0, compiling=0.2), _run(1, 0.4, compiling=0.1), floors, Spent(0.2, 1, 100))
    assert isclose(sum(found.parts().values()), 1_000.0)
    assert isclose(found.parts()["Spark's overhead of a cycle"], 1e3 * (0.4 - 0.1 - 0.1) / 2)
    assert isclose(found.parts()["not accounted for"], 1e3 * (1.0 - 0.2 - 0.1 - 0.1 - 0.25))


def test_shares_of_limits_are_taken_at_the_largest_cycles() -> None:
    floors = {"scan": Spent(0.1, 1, 100), "aggregation": Spent(0.3, 1, 100), "with_signatures": Spent(0.4, 1, 100)}
    small, large = (limits.Limits(_run(1_000, cpu), _run(1, 0.4), floors, Spent(0.2, 1, 100)) for cpu in (4.0, 2.0))
    found = limits.LimitsBySize({500_000: small, 10_000_000: large})
    assert isclose(found.ratios()["machine_floor_share_1000"] or 0, 0.1)
    assert isclose(found.ratios()["spark_floor_share_1000"] or 0, 0.15)
    assert isclose(found.details()["500000"]["shares"]["one plain Spark batch"], 0.075)


def test_of_several_rounds_the_median_run_counts() -> None:
    found = flatness.Flatness(
        {1: [_run(1, 9.0), _run(1, 2.0), _run(1, 1.0)], 1_000: [_run(1_000, 3.0), _run(1_000, 8.0), _run(1_000, 2.0)]},
        {},
    )
    assert found.growth(1_000) == 1.5
    assert found.details()["settled_cpu"] == {"1": [9.0, 2.0, 1.0], "1000": [3.0, 8.0, 2.0]}


def test_flatness_is_also_told_without_the_compilers() -> None:
    found = flatness.Flatness({1: [_run(1, 2.0, compiling=1.0)], 1_000: [_run(1_000, 3.0, compiling=1.0)]}, {})
    assert found.compiled_growth(1_000) == 2.0


def test_the_tree_of_the_model_finds_where_windows_begin() -> None:
    """Edges every 2 and every 3 ticks: 2, 3, 4, 6 | 8, 9, 10, 12 | …; fragments begin at 0, 2, 3, 4, 6, 8, …"""
    tree = model._TreeRun([Window(6, 2), Window(9, 3)], "prefix", keys=1)
    begins = [0, 2, 3, 4, 6, 8, 9, 10, 12]
    instants = np.arange(-3, 13)
    expected = [sum(begin < instant for begin in begins) for instant in instants.tolist()]
    assert tree._first_from(instants).tolist() == expected
