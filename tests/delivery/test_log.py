"""The delivery log: what is committed is there whole, what is not is not there, and it does not grow without end."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from weft.delivery import Itinerary, Limits, LogError, Message, Publisher, Span, itinerary
from weft.delivery.delivery_log import cycles, head_of, parcel_path, read_parcel, read_routes
from weft.plan.subscription import Comparison, Subscription


def _rows(*numbers: int) -> pa.Table:
    return pa.table({"n": list(numbers)})


def _route(query: str, epoch: int = 0, ended: int | None = None) -> Itinerary:
    subscription = Subscription("g1", (("n", "n"),), ((Comparison("n", ">", 2),),))
    return Itinerary(query, (subscription,), (Span("g1", epoch, since=0),), ended)


def _publish(publisher: Publisher, cycle: int, *numbers: int) -> None:
    publisher.write(cycle, [Message("g1", 0, _rows(*numbers), 7)])
    publisher.committed(cycle)


def test_a_cycle_is_there_when_it_is_committed(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publisher.write(4, [Message("g1", 0, _rows(1, 2), 7), Message("g1", 0, _rows(3), 7)], [_route("q")])
    assert cycles(tmp_path) == []
    publisher.committed(4)
    parcel = read_parcel(tmp_path, 4)
    assert parcel is not None
    assert (parcel.project, parcel.cycle, parcel.previous, parcel.routes) == ("p", 4, None, (_route("q"),))
    assert [(m.group, m.epoch, m.watermark, m.rows.to_pydict()) for m in parcel.messages] == [
        ("g1", 0, 7, {"n": [1, 2]}),
        ("g1", 0, 7, {"n": [3]}),
    ]


def test_a_cycle_that_publishes_nothing_leaves_no_file(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publisher.write(4, [Message("g1", 0, _rows(), 7)])
    publisher.committed(4)
    assert cycles(tmp_path) == []


def test_a_start_shows_what_was_committed_and_forgets_what_was_not(tmp_path: Path) -> None:
    killed = Publisher(tmp_path, "p")
    _publish(killed, 1, 1)
    killed.write(2, [Message("g1", 0, _rows(2))])  # committed by the engine, which then died
    killed.write(3, [Message("g1", 0, _rows(3))])  # not committed
    publisher = Publisher(tmp_path, "p")
    publisher.committed(2)
    assert cycles(tmp_path) == [1, 2]
    _publish(publisher, 3, 33)
    parcel = read_parcel(tmp_path, 3)
    assert parcel is not None
    assert parcel.messages[0].rows.to_pydict() == {"n": [33]}
    assert parcel.previous == 2


def test_the_oldest_cycles_go_and_their_itineraries_stay(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p", limits=Limits(rows=3))
    publisher.write(0, [Message("g1", 0, _rows(0))], [_route("q"), _route("r"), _route("gone")])
    publisher.committed(0)
    publisher.write(1, [Message("g1", 0, _rows(1))], [_route("q", epoch=1), _route("gone", ended=1)])
    publisher.committed(1)
    for cycle in range(2, 6):
        _publish(publisher, cycle, cycle)
    assert cycles(tmp_path) == [3, 4, 5]
    assert read_routes(tmp_path) == {"q": _route("q", epoch=1), "r": _route("r")} == publisher.log.routes()
    assert Publisher(tmp_path, "p").log.routes() == publisher.log.routes()
    oldest = head_of(tmp_path, 3)
    assert oldest is not None
    assert oldest.previous == 2


def test_the_newest_cycle_stays_however_large(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p", limits=Limits(rows=2))
    _publish(publisher, 0, 1)
    _publish(publisher, 1, *range(100))
    assert cycles(tmp_path) == [1]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-3] + b"xyz", lambda data: b""])
def test_a_damaged_file_is_named(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    _publish(Publisher(tmp_path, "p"), 5, 1, 2, 3)
    path = parcel_path(tmp_path, 5)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(LogError, match=r"000000000005.parcel is damaged .* restore it"):
        read_parcel(tmp_path, 5)


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = Publisher(tmp_path, "p")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LogError, match="No space left on device; make room"):
        publisher.write(1, [Message("g1", 0, _rows(1))])
    assert list(tmp_path.iterdir()) == []


def test_itineraries_survive_json() -> None:
    subscription = Subscription("g", (("a", "x"),), ((Comparison("x", "in", (1, 2)),),))
    spans = (Span("g", 1, until=9), Span("g", 2, ("s.ts", "t.ts"), since=-5), Span("g", 3, ("window_start",), 1, 2))
    for each in (Itinerary("q", (subscription,), spans), Itinerary("q", (subscription,), spans, ended=8)):
        assert itinerary.from_json(itinerary.as_json(each)) == each


def test_an_itinerary_has_one_subscription_for_each_stream() -> None:
    subscription = Subscription("g", (("a", "x"),))
    with pytest.raises(ValueError, match="without a subscription"):
        Itinerary("q", (subscription,), (Span("h", 0),))
    with pytest.raises(ValueError, match="two subscriptions"):
        Itinerary("q", (subscription, subscription), (Span("g", 0),))
