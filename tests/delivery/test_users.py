"""Users of the log: each gets exactly its rows, whenever it comes, however slowly it reads, and whatever others do."""

from __future__ import annotations

import asyncio
import multiprocessing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.delivery.naive import bag, delivered, plain_rows
from tests.delivery.numbers import PATIENCE, next_numbers, publish
from tests.delivery.recorded import Played, play
from weft.delivery import (
    AccessDenied,
    Batch,
    DeliveryError,
    Dropped,
    Itinerary,
    Limits,
    LogError,
    Publisher,
    Span,
    Subscriber,
    UnknownQuery,
    subscribe,
)
from weft.delivery.access import grant, revoke
from weft.delivery.delivery_log import cycles, parcel_path, read_parcel
from weft.delivery.hub import MissedRows
from weft.delivery.itinerary import as_json, from_clock, from_json
from weft.plan.subscription import Comparison, Subscription


def _route(query: str, above: int, since: int = 0, ended: int | None = None) -> Itinerary:
    subscription = Subscription("g", (("n", "n"),), ((Comparison("n", ">", above),),))
    return Itinerary(query, (subscription,), (Span("g", 0, since=since),), ended)


def test_a_user_gets_its_rows_as_they_come(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [1, 9], _route("q", 5))
    with subscribe(tmp_path, "q") as answers:
        publish(publisher, 1, [1, 6, 7])
        publish(publisher, 2, [2])
        publish(publisher, 3, [8])
        assert next_numbers(answers, 3) == [6, 7, 8]
        assert answers.position == 3
        assert answers.next(0.2) is None


def test_the_last_answers_reach_back_to_the_oldest_parcel_by_the_newest_itinerary(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p", limits=Limits(rows=4))
    publish(publisher, 0, [4, 5], _route("q", 9))
    publish(publisher, 1, [6, 7], _route("q", 9))
    publish(publisher, 2, [8, 9], _route("q", 5))
    assert cycles(tmp_path) == [1, 2]
    with subscribe(tmp_path, "q", last=10) as answers:
        assert next_numbers(answers, 4) == [6, 7, 8, 9]


def test_a_late_joiner_asks_for_the_last_answers_or_from_a_time(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [6, 7], _route("q", 5))
    publish(publisher, 1, [1])
    publish(publisher, 2, [8, 9, 10])
    second = read_parcel(tmp_path, 1)
    assert second is not None
    for arguments, expected in (
        ({"last": 0}, []),
        ({"last": 2}, [9, 10]),
        ({"last": 4}, [7, 8, 9, 10]),
        ({"last": 100}, [6, 7, 8, 9, 10]),
        ({"since": second.at}, [8, 9, 10]),
        ({"since": datetime.fromtimestamp(0, UTC)}, [6, 7, 8, 9, 10]),
        ({"since": second.at + 10**12}, []),
        ({"after": 0}, [8, 9, 10]),
        ({"after": -1}, [6, 7, 8, 9, 10]),
    ):
        with subscribe(tmp_path, "q", **arguments) as answers:  # type: ignore[arg-type]
            assert next_numbers(answers, len(expected)) == expected
            assert answers.next(0.1) is None
    with pytest.raises(ValueError, match="one of last, since, since_clock and after"):
        subscribe(tmp_path, "q", last=1, after=2)


def test_a_user_that_does_not_read_is_bounded_and_gets_a_notice(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p", limits=Limits(rows=5))
    publish(publisher, 0, [0], _route("q", -1))
    slow = subscribe(tmp_path, "q", limits=Limits(queue=2))
    quick = subscribe(tmp_path, "q")
    for cycle in range(1, 21):
        publish(publisher, cycle, [cycle])
        assert next_numbers(quick, 1) == [cycle]
    assert len(slow._reader.queue) <= 2  # type: ignore[attr-defined]
    assert next_numbers(slow, 8) == [1, 2, Dropped("q", 2, 15, 13), 16, 17, 18, 19, 20]
    publish(publisher, 21, [21])
    assert next_numbers(slow, 1) == [21]
    slow.close()
    quick.close()


def test_a_user_that_was_away_gets_a_notice_of_cycles_without_a_count(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p", limits=Limits(rows=3))
    publish(publisher, 0, [0], _route("q", -1))
    for cycle in range(1, 10):
        publish(publisher, cycle, [cycle])
    with subscribe(tmp_path, "q", after=2) as answers:
        assert next_numbers(answers, 4) == [Dropped("q", 2, 6, None), 7, 8, 9]


def test_missed_rows_are_counted_or_not_at_all() -> None:
    missed = MissedRows(4)
    for cycle in (5, 7, 8, 12):
        missed.saw(cycle, 10 * cycle)
    missed.compact(place=5, oldest=10)
    assert missed.between(5, 8) == 150
    assert missed.between(5, 12) == 270
    assert missed.between(5, 7) is None
    assert missed.between(3, 8) is None
    missed.seen_after = 10
    assert missed.between(5, 12) is None
    assert missed.between(10, 12) == 120


def test_a_late_joiner_may_begin_by_the_clock_of_answers(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    above = Subscription("g", (("n", "n"),), ((Comparison("n", ">", 1),), (Comparison("n", "=", 0),)))
    publish(publisher, 0, [5, 0], Itinerary("q", (above,), (Span("g", 0, clock=("n",)),)))
    publish(publisher, 1, [2, 9, 1])
    publish(publisher, 2, [4])
    with subscribe(tmp_path, "q", since_clock=4) as answers:
        assert next_numbers(answers, 3) == [5, 9, 4]
        # What comes from now on comes, however late it is.
        publish(publisher, 3, [3])
        assert next_numbers(answers, 1) == [3]
    publish(publisher, 4, [6], _route("mute", -1))
    with pytest.raises(DeliveryError, match="do not show their clock"):
        subscribe(tmp_path, "mute", since_clock=4)


def test_the_clock_of_a_join_is_the_newest_of_its_rows() -> None:
    clocks = ("t", "u")
    spans = (Span("g", 0, clocks, 3, 7, clocks), Span("g", 1, clocks, 7, None, clocks))
    narrowed = from_clock(Itinerary("q", (Subscription("g", (("n", "n"),)),), spans), 5)
    assert [(each.since, each.until) for each in narrowed.spans] == [(5, 7), (7, None)]
    assert from_json(as_json(narrowed)) == narrowed


def test_answers_from_before_an_itinerary_are_refused(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0, 1], _route("q", -1))
    for cycle in range(1, 4):
        publish(publisher, cycle, [cycle + 1])
    publish(publisher, 4, [5], replace(_route("q", -1), complete_from=2))
    for arguments in ({"last": 4}, {"since": 0}):
        with pytest.raises(DeliveryError, match=r"before cycle 2 .* after=1"):
            subscribe(tmp_path, "q", **arguments)  # type: ignore[arg-type]
    with subscribe(tmp_path, "q", last=3) as answers:
        assert next_numbers(answers, 3) == [3, 4, 5]
    with subscribe(tmp_path, "q", after=0) as answers:
        assert next_numbers(answers, 4) == [Dropped("q", 0, 1), 3, 4, 5]


def test_a_query_that_ends_ends_its_users(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route("q", -1))
    with subscribe(tmp_path, "q") as answers:
        publish(publisher, 1, [1])
        publish(publisher, 2, [2], _route("q", -1, ended=2))
        assert [batch.table["n"].to_pylist() for batch in answers if isinstance(batch, Batch)] == [[1]]


def test_rows_come_as_dictionaries(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [3, 4], _route("q", -1))
    publish(publisher, 1, [5], _route("q", -1, ended=1))
    with subscribe(tmp_path, "q", after=-1) as answers:
        assert list(answers.rows()) == [{"n": 3}, {"n": 4}]


def test_coroutines_wait_for_answers(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [1], _route("q", -1))

    async def collect(answers: Subscriber) -> list[int]:
        return [n async for item in answers if isinstance(item, Batch) for n in item.table["n"].to_pylist()]

    async def everything() -> list[list[int]]:
        users = [subscribe(tmp_path, "q", after=-1) for _ in range(3)]
        tasks = [asyncio.create_task(collect(each)) for each in users]
        await asyncio.sleep(0.05)
        publish(publisher, 1, [2])
        await asyncio.sleep(0.05)
        publish(publisher, 2, [3], _route("q", -1, ended=2))
        found = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        for each in users:
            each.close()
        return list(found)

    assert asyncio.run(everything()) == [[1, 2]] * 3


def test_a_query_that_is_not_known_is_refused_or_waited_for(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [1], _route("q", -1))
    with pytest.raises(UnknownQuery, match="query 'r' does not deliver its answers here; queries that do: q"):
        subscribe(tmp_path, "r")
    with subscribe(tmp_path, "r", wait=True) as answers:
        publish(publisher, 1, [1])
        publish(publisher, 2, [2], _route("r", -1, since=2))
        assert next_numbers(answers, 1) == [2]


def test_an_itinerary_that_was_amended_while_live_holds_when_catching_up(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route("q", -1))
    with subscribe(tmp_path, "q", limits=Limits(queue=1)) as answers:
        publish(publisher, 1, [1])
        assert next_numbers(answers, 1) == [1]
        publish(publisher, 2, [2, 50], _route("q", 10))
        assert next_numbers(answers, 1) == [50]
        for cycle in range(3, 9):
            publish(publisher, cycle, [cycle, 50 + cycle])
        assert next_numbers(answers, 6) == [53, 54, 55, 56, 57, 58]


def test_a_user_that_catches_up_before_the_hub_has_come_to_a_cycle_gets_it_once(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route("q", -1))
    with subscribe(tmp_path, "q", after=-1) as answers:
        with answers._hub.lock:  # type: ignore[attr-defined]
            publish(publisher, 1, [1])
            assert next_numbers(answers, 1) == [0]
            assert answers.next(0.0) is None  # it is live now, and the hub has not come to cycle 1 yet
        publish(publisher, 2, [2])
        assert next_numbers(answers, 2) == [1, 2]


def test_a_damaged_parcel_is_an_error_for_users_that_come_to_it(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route("q", -1))
    publish(publisher, 1, [1])
    publish(publisher, 2, [2])
    parcel_path(tmp_path, 1).write_bytes(parcel_path(tmp_path, 1).read_bytes()[:-9])
    with subscribe(tmp_path, "q", after=-1) as answers:
        assert next_numbers(answers, 1) == [0]
        with pytest.raises(LogError, match="is damaged"):
            answers.next(PATIENCE)


def test_tokens(tmp_path: Path) -> None:
    publisher = Publisher(tmp_path, "p")
    publish(publisher, 0, [0], _route("hot", -1), _route("cold", -1))
    token = grant(tmp_path, "ann", ["h*", "warm"])
    assert token not in (tmp_path / "access.json").read_text()
    subscribe(tmp_path, "hot", token=token).close()
    with pytest.raises(AccessDenied, match="does not allow query 'cold'"):
        subscribe(tmp_path, "cold", token=token)
    with pytest.raises(AccessDenied, match="a token is needed"):
        subscribe(tmp_path, "hot")
    with pytest.raises(AccessDenied):
        subscribe(tmp_path, "hot", token=token + "x")
    revoke(tmp_path, "ann")
    with pytest.raises(AccessDenied):
        subscribe(tmp_path, "hot", token=token)
    (tmp_path / "access.json").write_text("[{}]")
    with pytest.raises(LogError, match="nobody is let in"):
        subscribe(tmp_path, "hot", token=token)


def _follow_in_another_process(directory: Path, query: str, last: int, results: Any) -> None:
    found = []
    with subscribe(directory, query, after=-1) as answers:
        while answers.position < last:
            item = answers.next(0.2)
            found += [(item.cycle, row) for row in plain_rows(item.table)] if isinstance(item, Batch) else []
    results.put((query, found))


def _write(publisher: Publisher, played: Played) -> None:
    publisher.write(played.cycle, played.published, played.control)
    publisher.committed(played.cycle)


def test_users_in_other_processes_follow_the_directory(tmp_path: Path) -> None:
    recording = list(play(8, members=4))
    publisher = Publisher(tmp_path, "p")
    _write(publisher, recording[0])
    queries = ["q0", "q1", "q2"]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    arguments = [(tmp_path, query, 7, results) for query in queries]
    processes = [context.Process(target=_follow_in_another_process, args=each) for each in arguments]
    for process in processes:
        process.start()
    for played in recording[1:]:
        _write(publisher, played)
    found = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(PATIENCE)
    parcels = [parcel for cycle in cycles(tmp_path) if (parcel := read_parcel(tmp_path, cycle))]
    routes = publisher.log.routes()
    assert {query: bag(rows) for query, rows in found.items()} == {
        query: bag(delivered(routes[query], parcels)) for query in queries
    }
