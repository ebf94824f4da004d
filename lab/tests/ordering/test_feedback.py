"""Virtual tuples and selectivities: what comes back to a meta-operator, and what the lottery makes of it."""

from __future__ import annotations

from random import Random

import pytest

from lab.ordering.channels import REPORT_BYTES
from lab.ordering.join_graph import Join, JoinGraph
from lab.ordering.query import plan
from lab.ordering.setting import Change, Feed, Machine, Settings
from lab.ordering.simulator import Run, simulate
from lab.ordering.tickets import Why
from lab.ordering.workload import cardinality, report_bytes, three_streams
from lab.tests.ordering.graphs import RUNNING


def _run(selectivity_1: float, selectivity_3: float, tuples: int = 4_000, **more: object) -> Run:
    feeds = three_streams(Random(5), tuples, selectivity_1, selectivity_3)
    machines = {"2": Machine(speed=1 / 2.4)}
    return simulate(plan(_THREE), feeds, machines, **more)  # type: ignore[arg-type]


_THREE = JoinGraph({"R": "1", "S": "2", "T": "3"}, (Join("R.a", "S.a", "1"), Join("S.a", "T.a", "3")))


def test_feedback_is_paid_by_the_batch() -> None:
    assert report_bytes(selectivity=0.2, tuples=100_000, threshold=100) == 800
    # A site that lets every tuple pass once: as many results as tuples, and one report for each hundred of them.
    feeds = {name: Feed({"a": [0] * rows, "b": [0] * rows}) for name, rows in (("R", 1), ("S", 2_000), ("T", 1))}
    run = simulate(plan(RUNNING), feeds, settings=Settings(threshold=100))
    to_1, to_3 = run.routed["2", "1"], run.routed["2", "3"]
    assert to_1 + to_3 == 2_000
    assert run.report_bytes == REPORT_BYTES * (to_1 // 100 + to_3 // 100)
    assert run.report_bytes <= report_bytes(1, to_1, 100) + report_bytes(1, to_3, 100)


def test_join_cardinality_falls_with_the_number_of_distinct_keys() -> None:
    assert cardinality(100_000, 5_000, 10_000, 10_000) == 100_000
    assert cardinality(100_000, 5_000, 10_000, 5_000) == 200_000
    assert cardinality(100_000, 5_000, 10_000, 50_000) == 20_000


@pytest.mark.parametrize(("wanted", "other"), [(2.0, 1.0), (0.2, 1.0), (0.1, 0.1)])
def test_the_workload_has_the_selectivities_that_were_asked_for(wanted: float, other: float) -> None:
    feeds = three_streams(Random(1), 50_000, wanted, other)
    partners = {name: _partners(feeds, name) for name in "RT"}
    assert partners["R"] == pytest.approx(wanted, rel=0.1)
    assert partners["T"] == pytest.approx(other, rel=0.1)


def test_selectivities_that_change_places_half_way() -> None:
    feeds = three_streams(Random(1), 50_000, 0.2, 2.0, swapped=True)
    half = 25_000
    assert _partners(feeds, "R", 0, half) == pytest.approx(0.2, rel=0.1)
    assert _partners(feeds, "T", 0, half) == pytest.approx(2.0, rel=0.1)
    assert _partners(feeds, "R", half) == pytest.approx(2.0, rel=0.1)
    assert _partners(feeds, "T", half) == pytest.approx(0.2, rel=0.1)
    assert [len(feeds[name]) for name in "RST"] == [5_000, 50_000, 5_000]


def _partners(feeds: dict[str, Feed], name: str, first: int = 0, last: int | None = None) -> float:
    """Matches in a stream for each tuple of S."""
    values = feeds["S"].values["a"][first:last]
    found = dict.fromkeys(values, 0)
    for value in feeds[name].values["a"]:
        if value in found:
            found[value] += 1
    return sum(found[value] for value in values) / len(values)


def test_tuples_go_to_the_more_selective_site_first() -> None:
    assert _run(0.1, 0.9).share("2", "1") > 0.75
    assert _run(0.9, 0.1).share("2", "3") > 0.75


def test_tuples_follow_when_selectivities_change_places() -> None:
    """Each half by itself would be about 80 % of one kind; together they are even."""
    feeds = three_streams(Random(5), 20_000, 0.2, 2.0, swapped=True)
    run = simulate(plan(_THREE), feeds, {"2": Machine(speed=1 / 2.4)})
    assert 0.4 < run.share("2", "1") < 0.6


def test_the_lottery_is_mute_when_no_site_is_selective() -> None:
    decided = _run(2.0, 1.0).decided["2"]
    assert decided[Why.PRESSURE] > 0.8 * decided.total()
    decided = _run(0.2, 1.0).decided["2"]
    assert decided[Why.TICKETS] > 0.6 * decided.total()


@pytest.mark.parametrize("slow", ["1", "3"])
@pytest.mark.parametrize("machine", [Machine(wire=0.01), Machine(others=9)], ids=["slow wire", "busy site"])
def test_tuples_avoid_a_slow_site(slow: str, machine: Machine) -> None:
    feeds = three_streams(Random(5), 4_000, 0.1, 0.1)
    run = simulate(plan(_THREE), feeds, {"2": Machine(speed=1 / 2.4), slow: machine})
    assert run.share("2", slow) < 0.2


def test_a_change_of_load_moves_tuples_from_then_on() -> None:
    feeds = three_streams(Random(5), 4_000, 0.1, 0.1)
    machines = {"1": Machine(), "2": Machine(speed=1 / 2.4), "3": Machine(others=9)}
    half_way = [Change(2.0, "3", others=0), Change(2.0, "1", others=9)]
    assert simulate(plan(_THREE), feeds, machines).share("2", "1") > 0.8
    assert 0.35 < simulate(plan(_THREE), feeds, machines, changes=half_way).share("2", "1") < 0.65


def test_a_fixed_order_sends_every_tuple_one_way_and_reports_nothing() -> None:
    feeds = three_streams(Random(5), 1_000, 0.5, 0.5)
    adaptive = simulate(plan(_THREE), feeds, keep_answers=True)
    fixed = simulate(plan(_THREE).fixed(("2", "1"), ("1", "3")), feeds, keep_answers=True)
    assert fixed.routed["2", "1"] == 1_000
    assert fixed.reports == 0
    assert sorted(fixed.rows) == sorted(adaptive.rows)
