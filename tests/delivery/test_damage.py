"""Files of a delivery log that are deleted or damaged: users get all of their rows, or are told of it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.delivery.delivered_run import DeliveredRun
from tests.delivery.numbers import publish
from weft.delivery import Batch, Dropped, Itinerary, Limits, LogError, Publisher, Span, UnknownQuery, subscribe
from weft.delivery.control import Control
from weft.delivery.delivery_errors import DamagedLog
from weft.delivery.delivery_log import put_aside, read_parcel
from weft.delivery.parcel import Parcel
from weft.delivery.subscribe import kept_answers
from weft.plan.subscription import Comparison, Subscription

#: What is kept: cycles 3 to 7. The itinerary of q was published in cycle 0, and changed in cycles 2, 5 and 7.
LAST = 7
KEPT = {3: [13], 4: [14], 5: [15], 6: [16], 7: [17]}


def _route(above: int) -> Itinerary:
    subscription = Subscription("g", (("n", "n"),), ((Comparison("n", ">", above),),))
    return Itinerary("q", (subscription,), (Span("g", 0, since=0),))


def _publish_all(directory: Path, copies: Path | None = None) -> None:
    """Publish eight cycles; `copies` gets a copy of each file as it was first."""
    publisher = Publisher(directory, "p", limits=Limits(rows=10))
    routes = {0: _route(0), 2: _route(1), 5: _route(2), 7: _route(10)}
    for cycle in range(LAST + 1):
        publish(publisher, cycle, [10 + cycle, 2], *([routes[cycle]] if cycle in routes else []))
        for path in directory.iterdir() if copies is not None else ():
            if not (copies / path.name).exists():
                shutil.copy(path, copies)
    publisher.close()
    assert [path.stem for path in sorted(directory.glob("*.parcel"))] == [f"{cycle:012d}" for cycle in KEPT]


def _flipped(at: float) -> Callable[[Path, Path], None]:
    def damage(path: Path, older: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 1
        path.write_bytes(bytes(data))

    return damage


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "deleted": lambda path, older: path.unlink(),
    "emptied": lambda path, older: path.write_bytes(b""),
    "cut": lambda path, older: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeroed": lambda path, older: path.write_bytes(bytes(path.stat().st_size)),
    "older": lambda path, older: shutil.copy(older, path),
    **{f"flipped {tenth}": _flipped(tenth / 9) for tenth in range(10)},
}
FILES = {"oldest": 3, "middle": 4, "changed": 5, "newest": 7, "routes": None}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", FILES)
def test_a_user_gets_all_rows_or_a_notice(tmp_path: Path, file: str, damage: str) -> None:
    log, copies = tmp_path / "log", tmp_path / "copies"
    copies.mkdir()
    _publish_all(log, copies)
    cycle = FILES[file]
    path = log / ("routes.json" if cycle is None else f"{cycle:012d}.parcel")
    DAMAGES[damage](path, copies / ("routes.json" if cycle is None else "000000000006.parcel"))
    got: list[int] = []
    told, sentence = False, ""
    try:
        with subscribe(log, "q", after=2) as answers:
            while answers.position < LAST and (item := answers.next(5)) is not None:
                if isinstance(item, Dropped):
                    told = True
                else:
                    got += item.table["n"].to_pylist()
    except (LogError, UnknownQuery) as error:
        told, sentence = True, "" if isinstance(error, UnknownQuery) else str(error)
    assert not sentence or str(path) in sentence
    expected = [row for rows in KEPT.values() for row in rows]
    assert told or got == expected, got
    assert set(got) <= set(expected)


def test_the_newest_answers_are_all_there_or_none(tmp_path: Path) -> None:
    _publish_all(tmp_path)
    (tmp_path / "000000000006.parcel").unlink()
    assert [each["n"].to_pylist() for each in kept_answers(tmp_path, "q", 1)] == [[17]]
    with pytest.raises(DamagedLog, match=r"000000000006.parcel is missing"):
        kept_answers(tmp_path, "q", 3)


@pytest.mark.parametrize("file", ["000000000004.parcel", "000000000007.parcel", "routes.json"])
def test_a_writer_does_not_go_on_with_a_damaged_log(tmp_path: Path, file: str) -> None:
    _publish_all(tmp_path)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(DamagedLog, match=f"{file} is damaged .*; restore it from a copy"):
        Publisher(tmp_path, "p")
    (tmp_path / "000000000007.parcel").unlink()
    if file == "000000000007.parcel":
        with pytest.raises(DamagedLog, match=f"{file} is missing"):
            Publisher(tmp_path, "p")


def test_users_of_a_new_log_get_a_notice_of_what_they_lack(tmp_path: Path) -> None:
    _publish_all(tmp_path)
    aside = put_aside(tmp_path)
    assert len(list(aside.glob("*.parcel"))) == len(KEPT)
    publish(Publisher(tmp_path, "p", begins_after=LAST), LAST + 1, [20], _route(0))
    with subscribe(tmp_path, "q", after=4) as answers:
        assert answers.next(5) == Dropped("q", 4, LAST)
        item = answers.next(5)
        assert isinstance(item, Batch)
        assert item.table["n"].to_pylist() == [20]


def test_a_live_user_gets_a_notice_of_a_parcel_that_went_before_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_gone = threading.Event()

    def read_late(directory: Path, cycle: int) -> Parcel | None:
        is_gone.wait(60)
        return read_parcel(directory, cycle)

    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route(-1))
    monkeypatch.setattr("weft.delivery.hub.read_parcel", read_late)
    with subscribe(tmp_path, "q") as answers:
        publish(publisher, 1, [1])
        (tmp_path / "000000000001.parcel").unlink()
        is_gone.set()
        publish(publisher, 2, [2])
        assert answers.next(5) == Dropped("q", 0, 1)
        item = answers.next(5)
        assert isinstance(item, Batch)
        assert item.table["n"].to_pylist() == [2]


@pytest.mark.spark
@pytest.mark.parametrize("damage", ["cut", "deleted", "all deleted"])
def test_a_project_goes_on_beside_a_damaged_delivery_log(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    run = DeliveredRun(spark, tmp_path)
    said: list[str] = []
    try:
        run.execute("CREATE STREAM trades (n BIGINT, qty BIGINT) WATERMARK FOR n AS n - 3 USING memory;")
        run.execute("CREATE CONTINUOUS QUERY big AS SELECT n, qty FROM trades WHERE qty > 1;")
        run.restart()
        for cycle in range(3):
            assert run.take(trades=[(cycle, 1), (cycle, 2)]) == ""
        run.control.close()
        directory = tmp_path / "delivery"
        if damage == "all deleted":
            shutil.rmtree(directory)
        else:
            DAMAGES[damage](directory / "000000000002.parcel", directory)
        run.control = Control(run.loom.catalog, said.append)
        run.control.attach(run.engine)
        assert run.take(trades=[(3, 1), (3, 5)]) == ""
        assert run.take(trades=[(4, 7)]) == ""
        with subscribe(directory, "big", after=0) as answers:
            assert answers.next(5) == Dropped("big", 0, 2)
            assert [answers.next(5).table["qty"].to_pylist() for _ in range(2)] == [[5], [7]]  # type: ignore[union-attr]
    finally:
        run.close()
    assert len(said) == 1
    assert "begins anew after cycle 2; users are told that they lack the cycles before" in said[0]
