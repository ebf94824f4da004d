"""The parts of the network's benchmark that need no Spark: its keys, its arithmetic, its SQL over tables."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from bench import network
from bench.contest import PerCycle, per_cycle
from bench.network_measurements import chains, fed_statistics, registration
from bench.network_measurements.arena import spread
from bench.network_measurements.table_sql import for_duckdb, over_a_table
from bench.network_measurements.tasks import Task
from bench.network_workloads.files import FED, MED
from bench.network_workloads.query import WorkloadQuery
from bench.network_workloads.sets import SETS
from weft.optimizer.network.sizes import SizeKey, SizeKind

KEYS = [
    "qns_768_all",
    "qns_768_matchplan",
    "qns_768_noncanon",
    "qns_768_nonjoin",
    "nonjoin_over_all_seconds",
    "rerun_over_all_seconds",
    "spark_refused_share",
    "ti_over_noti_q1",
    "ti_over_noti_q3",
    "ti_over_noti_cycle_q1",
    "ti_over_noti_cycle_q3",
    "incremental_aggregation_gain",
    "incremental_aggregation_gain_350",
    "shared_aggregates_gain_350",
    "med_aggregates_gain",
    "selections_1000_over_10_cpu",
    "spark_each_over_weft_100_selections",
    "register_10000th_over_100th",
    "jobs_per_cycle_10",
    "jobs_per_cycle_768",
    "join_levels",
]


def test_the_json_line_has_the_keys_that_were_promised() -> None:
    assert list(network.DEFINITIONS) == KEYS


def _mark(cpu: float, wall: float) -> dict[str, float]:
    return {"cpu": cpu, "wall": wall, "python": 0.0, "rows": 0}


def test_cold_cycles_do_not_count() -> None:
    marks = [_mark(10, 100), _mark(12, 103), _mark(13, 105), _mark(16, 113)]
    assert per_cycle(marks, cold=2) == PerCycle(cpu=2.0, wall=5.0, cycles=2)
    with pytest.raises(ValueError, match="nothing to measure"):
        per_cycle(marks[:2], cold=2)


def test_a_sample_says_what_it_is_scaled_by() -> None:
    assert PerCycle(2.0, 3.0, 4).times(96) == PerCycle(192.0, 288.0, 4, scaled=96)
    task = Task("t", "", [WorkloadQuery("q", "SELECT 1")] * 8, total=768)
    assert task.scale == 96
    assert Task("t", "", task.queries).scale == 1


def test_a_sample_is_spread_evenly() -> None:
    assert spread(range(768), 4) == [96, 288, 480, 672]
    assert spread(range(3), 10) == [0, 1, 2]


def test_the_median_of_neighbours_stands_for_a_registration() -> None:
    seconds = [1.0] * 50 + [2.0] * 101 + [50.0] + [9.0] * 200
    assert registration.around(seconds, 100) == 2.0


def test_refused_forms_count_for_all_their_queries() -> None:
    everything = {name: {query.name: "" for query in chains.forms(name)} for name in chains.FORMS}
    assert chains.refused_queries(everything) == {name: SETS[name].size for name in chains.FORMS}
    assert chains.refused_queries({"QAggreFed": {"a320": "no"}}) == {"QAggreFed": 30}


def test_a_day_of_a_stream_is_a_group_of_a_table() -> None:
    text = "SELECT b, SUM(x) AS s FROM fed [RANGE 1 DAY SLIDE 1 DAY] GROUP BY b HAVING SUM(x) > 5"
    assert over_a_table(text) == (
        "SELECT tran_date AS window_start, b, SUM(x) AS s FROM fed GROUP BY tran_date, b HAVING SUM(x) > 5"
    )
    assert over_a_table("SELECT r.b FROM v [NOW] r, w [NOW] s WHERE r.b = s.b") == (
        "SELECT r.b FROM v r, w s WHERE r.window_start = s.window_start AND r.b = s.b"
    )
    assert for_duckdb("SELECT a FROM m [RANGE UNBOUNDED] t WHERE a < b + INTERVAL 40 DAYS RETAIN UNBOUNDED") == (
        "SELECT a FROM m t WHERE a < b + INTERVAL '40 days'"
    )


@pytest.mark.parametrize("name", ["QIEFed-Manual", "QAggreFed", "QAggreMed"])
def test_queries_over_tables_are_sql(name: str) -> None:
    """DuckDB takes them, windows of days and all."""
    chosen = SETS[name]
    connection = duckdb.connect()
    connection.register("few", {"fed": FED, "med": MED}[chosen.stream.name].rows(50))
    connection.execute(f"CREATE TABLE {chosen.stream.name} AS SELECT * FROM few")
    for query in spread(chosen.queries(), 21):
        connection.sql(for_duckdb(query.select)).fetchall()


def test_shares_are_those_of_the_rows() -> None:
    statistics = fed_statistics.statistics_of(FED, 5_000)
    log = ("stream fed",)
    assert statistics.rows("stream fed") == 5_000
    assert statistics.rows("stream other") is None
    assert statistics.step(SizeKey(SizeKind.VALUES, log, "tranid")) == 5_000
    common = statistics.step(SizeKey(SizeKind.SHARE, log, "T1.type_code = 1000"))
    assert common is not None
    assert abs(common - Fraction(8, 10)) < Fraction(1, 20)
    larger = statistics.step(SizeKey(SizeKind.SHARE, log * 2, "T1.amount - T2.amount > 0"))
    assert larger is not None
    assert abs(larger - Fraction(1, 2)) < Fraction(1, 20)
    assert statistics.step(SizeKey(SizeKind.SHARE, log, "what no database reads")) is None
