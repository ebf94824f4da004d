"""What cycles measure: that it is true, that it stays within bounds, and that nothing ever depends on it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.runtime.workload_run import Run
from tests.support.generator import Cycle
from weft.catalog import Catalog
from weft.explain.project import Project
from weft.loom import Loom
from weft.plan.facts import CycleMeasured, Measurements, StreamMeasured
from weft.plan.nodes import Condition
from weft.runtime.recorder import KEPT, Recorder, selectivities
from weft.runtime.stages.statistics import measured, rates
from weft.runtime.stages.windows.partials import SLICE, Layout, Partials
from weft.runtime.stages.windows.signatures import satisfying, signatures
from weft.runtime.state.commits import START, Commit, StreamState

_STREAM = """
CREATE STREAM trades (ts TIMESTAMP, sym STRING, price DOUBLE)
WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING memory;
"""
_SECOND = 1_000_000


# -- selectivities ----------------------------------------------------------------------------------------------------


def _partials(conditions: Sequence[Condition], codes: Sequence[Sequence[int]], rows: Sequence[int]) -> Partials:
    """Partials with these numbers in the columns of their signatures."""
    signed = signatures(conditions)
    layout = Layout((), dict(signed.decoders), len(signed.columns), ("count(1)",))
    columns = {f"g{number}": pa.array(column, pa.int64()) for number, column in enumerate(codes)}
    return Partials(layout, pa.table({SLICE: pa.array([0] * len(rows)), **columns, "p0": pa.array(rows, pa.int64())}))


def test_the_share_of_rows_that_satisfies_a_condition() -> None:
    partials = _partials([Condition("a"), Condition("b")], [[0b00, 0b01, 0b11, 0b01]], [10, 20, 30, 40])
    assert selectivities(partials, 0) == {"a": 0.9, "b": 0.3}


def test_shares_are_those_of_each_signature_counted_by_hand() -> None:
    chance = random.Random(5)
    conditions = [Condition(f"(c0 {sign} {n}L)", "c0", sign, n) for n in range(20) for sign in ("<", ">=", "=")]
    conditions += [Condition(f"flag {n}") for n in range(3)]
    width = len(signatures(conditions).columns)
    assert width > 1
    codes = [[chance.randint(-1, 30) for _ in range(500)] for _ in range(width - 1)]
    codes.append([chance.randint(0, 7) for _ in range(500)])
    rows = [chance.randint(1, 9) for _ in range(500)]
    partials = _partials(conditions, codes, rows)
    shares = selectivities(partials, 0)
    assert len(shares) == 63
    arrays = [pa.array(column).to_numpy() for column in codes]
    for text, share in shares.items():
        holds = satisfying(partials.layout.decoders, arrays, [text], 500)
        assert share == pytest.approx(sum(n for n, true in zip(rows, holds, strict=True) if true) / sum(rows))


def test_many_conditions_take_turns() -> None:
    conditions = [Condition(f"f({n})") for n in range(150)]
    partials = _partials(conditions, [[1]] * 3, [7])
    by_cycle = [selectivities(partials, cycle) for cycle in range(3)]
    assert all(0 < len(shares) <= 64 for shares in by_cycle)
    assert {text for shares in by_cycle for text in shares} == {each.text for each in conditions}


def test_a_sample_of_many_partials_is_good_enough() -> None:
    chance = random.Random(1)
    codes = [chance.randint(0, 3) for _ in range(100_000)]
    shares = selectivities(_partials([Condition("a"), Condition("b")], [codes], [1] * len(codes)), 0)
    # Four thousand of them: five standard deviations are 4 %.
    assert shares == pytest.approx({"a": 0.5, "b": 0.5}, abs=0.04)


def test_without_conditions_or_rows_there_is_nothing_to_tell() -> None:
    assert selectivities(_partials([], [], [3]), 0) == {}
    assert selectivities(_partials([Condition("a")], [[]], []), 0) == {}


def test_the_rate_of_a_stream_counts_rows_whose_time_is_known() -> None:
    streams = [StreamMeasured(100, 0, 0), StreamMeasured(30, 0, 0, ticks=10), StreamMeasured(5, 0, 0, ticks=4)]
    cycles = tuple(CycleMeasured(n, 1.0, 0, 1, {}, {"s": each}) for n, each in enumerate(streams))
    assert rates(Measurements(cycles)) == {"s": Fraction(35, 14)}
    assert rates(Measurements(cycles[:1])) == {}


# -- recording --------------------------------------------------------------------------------------------------------


class _Answered:
    """A cycle that found nothing out."""

    def __init__(self, commit: Commit) -> None:
        self.commit = commit
        self.answers: dict[str, pa.Table] = {}
        self.reduced: dict[str, Any] = {}
        self.hosts: dict[str, Any] = {}


@pytest.fixture
def loom(tmp_path: Path) -> Any:
    with Loom.open(tmp_path / "project") as loom:
        loom.execute(_STREAM)
        yield loom


def _recorder(catalog: Catalog, on_step: Callable[[str, int], None] = lambda step, cycle: None) -> Recorder:
    return Recorder(catalog, SimpleNamespace(), on_step)  # type: ignore[arg-type]


def _cycle(recorder: Recorder, loom: Loom, last: Commit) -> Commit:
    number = loom.catalog.stream_numbers()["trades"]
    before = last.streams["trades"] if last.streams else StreamState(number)
    state = StreamState(number, (before.largest or 0) + 2 * _SECOND, before.rows + 50, before.late + 1)
    commit = Commit(last.cycle + 1, 1, {"trades": state})
    recorder.begin()
    for step in ("begin", "ingest", "commit", "rename", "after commit"):
        recorder.step(step, commit.cycle)
    recorder.end(_Answered(commit), last, loom.catalog.streams())  # type: ignore[arg-type]
    return commit


def test_what_a_stream_has_grown_by_is_recorded(loom: Loom) -> None:
    recorder = _recorder(loom.catalog)
    first = _cycle(recorder, loom, START)
    _cycle(recorder, loom, first)
    zeroth, second = measured(loom.catalog).cycles
    assert (zeroth.streams["trades"].ticks, zeroth.streams["trades"].rows_per_event_second) == (0, None)
    told = second.streams["trades"]
    assert (told.rows, told.late, told.bad, told.partials) == (50, 1, 0, None)
    assert (told.ticks, told.rows_per_event_second) == (2 * _SECOND, 25.0)
    assert told.rows_per_second is not None
    assert second.jobs is None, "a session that does not tell of its jobs is no reason to fail"


def test_stages_add_up_to_the_cycle(loom: Loom) -> None:
    steps: list[tuple[str, int]] = []
    recorder = _recorder(loom.catalog, lambda step, cycle: steps.append((step, cycle)))
    _cycle(recorder, loom, START)
    (cycle,) = measured(loom.catalog).cycles
    assert list(cycle.stages) == ["begin", "ingest", "commit", "tidy"]
    assert sum(cycle.stages.values()) == pytest.approx(cycle.seconds)
    assert steps == [(step, 0) for step in ("begin", "ingest", "commit", "rename", "after commit")]


def test_the_newest_cycles_are_kept(loom: Loom) -> None:
    recorder, last = _recorder(loom.catalog), START
    for _ in range(KEPT + 20):
        last = _cycle(recorder, loom, last)
    assert [each.cycle for each in measured(loom.catalog).cycles] == list(range(20, KEPT + 20))


def test_a_state_that_was_removed_is_forgotten(loom: Loom) -> None:
    recorder, last = _recorder(loom.catalog), START
    for _ in range(5):
        last = _cycle(recorder, loom, last)
    _cycle(_recorder(loom.catalog), loom, START)
    assert [each.cycle for each in measured(loom.catalog).cycles] == [0]


def test_a_stream_that_was_created_anew_has_no_past(loom: Loom) -> None:
    recorder = _recorder(loom.catalog)
    last = _cycle(recorder, loom, START)
    loom.execute(f"DROP STREAM trades; {_STREAM}")
    assert [each.streams for each in measured(loom.catalog).cycles] == [{}]
    _cycle(recorder, loom, last)
    first, second = measured(loom.catalog).cycles
    assert (first.streams, second.streams["trades"].rows) == ({}, 100), "all rows of the new stream are new"


def test_a_catalog_that_cannot_be_written_fails_no_cycle(loom: Loom, caplog: pytest.LogCaptureFixture) -> None:
    with Catalog.open(loom.directory, write=False) as reader, caplog.at_level(logging.WARNING, "weft"):
        _cycle(_recorder(reader), loom, START)
    assert "the statistics of cycle 0 are lost" in caplog.text
    assert measured(loom.catalog) == Measurements()


def test_a_reader_sees_one_state_and_does_not_stop_the_writer(loom: Loom) -> None:
    recorder = _recorder(loom.catalog)
    last = _cycle(recorder, loom, START)
    with Catalog.open(loom.directory, write=False) as reader:
        with reader.transaction():
            assert len(measured(reader).cycles) == 1
            last = _cycle(recorder, loom, last)
            assert len(measured(loom.catalog).cycles) == 2
            assert len(measured(reader).cycles) == 1
        assert len(measured(reader).cycles) == 2


# -- a real run -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_an_engine_measures_its_cycles(spark: SparkSession, beside_oracle: Callable[[str], Run]) -> None:
    run = beside_oracle(
        _STREAM
        + """
        CREATE CONTINUOUS QUERY means AS
          SELECT sym, AVG(price) AS mean FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE price > 1 GROUP BY sym;
        CREATE CONTINUOUS QUERY counts AS SELECT COUNT(*) AS n FROM trades [RANGE 5 SECONDS SLIDE 5 SECONDS];
        """
    )
    first = [{"ts": n * _SECOND, "sym": "abc"[n % 3], "price": float(n)} for n in range(8)]
    second = [{"ts": n * _SECOND, "sym": "d", "price": 9.0} for n in (28, 40)] + [{"ts": None, "sym": "", "price": 0.0}]
    third = [{"ts": 0, "sym": "a", "price": 2.0}]
    for rows in (first, second, third, []):
        assert run.cycle(Cycle({"trades": rows}, {})) == ""
    told = measured(run.loom.catalog)
    trades = [each.streams["trades"] for each in told.cycles]
    assert [each.rows for each in trades] == [8, 2, 0, 0]
    assert [each.bad for each in trades] == [0, 1, 0, 0]
    assert [each.late for each in trades] == [0, 0, 1, 0]
    assert [each.ticks for each in trades] == [0, 33 * _SECOND, 0, 0]
    assert trades[1].rows_per_event_second == pytest.approx(2 / 33)
    # [0, 5) has a, b and c with a price above 1, and a and b without; [5, 10) has a, b and c above.
    assert trades[0].partials == 8
    assert [each.keys.get("sym") for each in trades[:2]] == [3, 4]
    assert told.selectivities["trades"] == {"(price > CAST('1.0' AS DOUBLE))": 1.0}
    assert all(each.jobs is not None for each in told.cycles)
    # The second cycle closes what ends by 35: 5, 10, 30 of `counts`; 5, 10, 15 of three symbols, 30 and 35 of one.
    assert [each.answers for each in told.cycles] == [0, 3 + 9 + 2, 0, 0]
    assert {"begin", "ingest", "weave", "answer", "deliver", "commit", "tidy"} <= told.cycles[0].stages.keys()


@pytest.mark.spark
def test_what_was_decided_when_a_query_began_is_explained(beside_oracle: Callable[[str], Run]) -> None:
    counts = "AS SELECT COUNT(*) AS n FROM trades [RANGE 1 SECOND SLIDE 1 SECOND];"
    run = beside_oracle(f"{_STREAM} CREATE CONTINUOUS QUERY early {counts}")
    rows = [{"ts": _SECOND, "sym": "a", "price": 1.0}]
    assert run.cycle(Cycle({"trades": rows}, {})) == ""
    run.loom.execute("SET sharing = off")
    run.execute(f"CREATE CONTINUOUS QUERY late {counts}")
    assert Project.of(run.loom.catalog).kept_apart == {"late": "sharing is off"}
    assert run.cycle(Cycle({"trades": rows}, {})) == ""
    run.loom.execute("SET sharing = on")
    assert Project.of(run.loom.catalog).kept_apart == {"late": "sharing was off when it began"}
    assert "neither woven nor in the network: sharing was off when it began" in run.loom.explain("late")
    assert "woven over stream trades: tree 0" in run.loom.explain("early")


@pytest.mark.spark
def test_an_engine_goes_on_without_statistics(
    beside_oracle: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = beside_oracle(
        _STREAM + "CREATE CONTINUOUS QUERY n AS SELECT COUNT(*) AS n FROM trades [RANGE 1 SECOND SLIDE 1 SECOND];"
    )

    def fail(*_: object, **__: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(run.loom.catalog, "record_statistics", fail)
    rows = [{"ts": n * _SECOND, "sym": "a", "price": 1.0} for n in range(20)]
    assert run.cycle(Cycle({"trades": rows}, {})) == ""
    assert "the statistics of cycle 0 are lost" in caplog.text
