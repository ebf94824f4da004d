"""NATS as a broker: what it holds, what it loses, what is divided, and what is said when it is away."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.delivery.naive import takes
from tests.delivery.numbers import PATIENCE, next_numbers, publish
from tests.support.processes import NatsServer
from weft.delivery import (
    AccessDenied,
    Batch,
    BrokerError,
    Dropped,
    Itinerary,
    Limits,
    LogError,
    Message,
    Publisher,
    Span,
    UnknownQuery,
    subscribe,
)
from weft.delivery.access import ACCESS, grant, revoke
from weft.delivery.members import Members
from weft.delivery.nats_broker import NatsBroker, NatsLimits, NatsSource
from weft.delivery.nats_connection import NatsConnection, split_address, subject_token
from weft.delivery.nats_layout import Buckets, Subjects, choose
from weft.plan.subscription import Comparison, Conjunction, Subscription


def _route(query: str, low: int, high: int) -> Itinerary:
    condition: Conjunction = (Comparison("n", ">=", low), Comparison("n", "<", high))
    return Itinerary(query, (Subscription("g", (("n", "n"),), (condition,)),), (Span("g", 0, since=0),))


def test_late_joiners_replay_from_nats(nats: NatsServer, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "my project", broker=NatsBroker(nats.url, "my project"))
    publish(publisher, 3, [1, 2], _route("q", 0, 100))
    publish(publisher, 5, [3], _route("odd name.*", 0, 100))
    publish(publisher, 9, [4, 5])
    assert publisher.wait_until_forwarded(PATIENCE)
    address = f"{nats.url}/my project"
    for query, arguments, expected in (
        ("q", {"last": 3}, [3, 4, 5]),
        ("q", {"last": 100}, [1, 2, 3, 4, 5]),
        ("odd name.*", {"last": 1}, [5]),
        ("q", {"after": 3}, [3, 4, 5]),
        ("q", {"after": 4}, [3, 4, 5]),
        ("q", {"since": 0}, [1, 2, 3, 4, 5]),
        ("q", {"since": time.time_ns() // 1000 + 10**9}, []),
    ):
        with subscribe(address, query, **arguments) as answers:  # type: ignore[arg-type]
            assert next_numbers(answers, len(expected)) == expected
    with pytest.raises(UnknownQuery, match="query 'r' is not known to this broker"):
        subscribe(address, "r")
    publisher.close()


def test_the_last_answers_reach_back_to_the_oldest_parcel_that_nats_still_has(nats: NatsServer, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p"))
    for cycle in range(3):
        publish(publisher, cycle, [10 * cycle, 10 * cycle + 1], *([_route("q", 0, 100)] if cycle == 0 else []))
    assert publisher.wait_until_forwarded(PATIENCE)
    connection = NatsConnection(nats.url)
    # Each parcel is a message of rows and its mark: the first one is trimmed.
    connection.call(lambda stream: stream.purge_stream("WEFT_p", seq=3))
    connection.close()
    with subscribe(f"{nats.url}/p", "q", last=100) as answers:
        assert next_numbers(answers, 4) == [10, 11, 20, 21]
    publisher.close()


def test_what_nats_has_not_taken_waits_and_then_the_engine_does(nats: NatsServer, tmp_path: Path) -> None:
    said: list[str] = []
    limits = Limits(rows=10, waiting_bytes=60_000)
    publisher = Publisher(tmp_path / "log", "p", limits=limits, broker=NatsBroker(nats.url, "p"), say=said.append)
    publish(publisher, 0, [0], _route("q", 0, 10**9))
    assert publisher.wait_until_forwarded(PATIENCE)
    nats.stop(kill=True)
    cycle = 0
    while publisher.wait_for_room(0.0):
        cycle += 1
        assert cycle < 100
        publish(publisher, cycle, list(range(1000)))
    assert any("the next cycle begins when" in sentence for sentence in said)
    nats.start()
    assert publisher.wait_for_room(PATIENCE)
    assert publisher.wait_until_forwarded(PATIENCE)
    with subscribe(f"{nats.url}/p", "q", after=0) as answers:
        assert next_numbers(answers, 1000 * cycle) == list(range(1000)) * cycle
    publisher.close()
    # The next process asks the broker, and sends nothing again.
    again = Publisher(tmp_path / "log", "p", limits=limits, broker=NatsBroker(nats.url, "p"))
    publish(again, cycle + 1, [7])
    with subscribe(f"{nats.url}/p", "q", after=cycle) as answers:
        assert next_numbers(answers, 1) == [7]
        assert answers.next(0.3) is None
    again.close()


def test_a_broker_that_lost_its_store_is_given_what_the_log_has(nats: NatsServer, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p"))
    publish(publisher, 0, [0], _route("q", 0, 100))
    publish(publisher, 1, [1])
    assert publisher.wait_until_forwarded(PATIENCE)
    answers = subscribe(f"{nats.url}/p", "q", after=-1)
    assert next_numbers(answers, 2) == [0, 1]
    nats.stop()
    shutil.rmtree(tmp_path / "store")
    nats.start()
    publish(publisher, 2, [2])
    assert publisher.wait_until_forwarded(PATIENCE)
    assert next_numbers(answers, 1) == [2]
    with subscribe(f"{nats.url}/p", "q", after=-1) as late:
        assert next_numbers(late, 3) == [0, 1, 2]
    answers.close()
    publisher.close()


def test_what_nats_let_go_of_is_said(nats: NatsServer, tmp_path: Path) -> None:
    broker = NatsBroker(nats.url, "p", NatsLimits(bytes=100_000))
    publisher = Publisher(tmp_path / "log", "p", broker=broker)
    publish(publisher, 0, [0], _route("q", 0, 10**9))
    chance = random.Random(2)
    for cycle in range(1, 30):
        publish(publisher, cycle, [chance.randrange(2**29) for _ in range(2000)])
    assert publisher.wait_until_forwarded(PATIENCE)
    with subscribe(f"{nats.url}/p", "q", after=0) as answers:
        items = []
        while answers.position < 29:
            item = answers.next(PATIENCE)
            items += [item] if item is not None else []
        first = items[0]
        assert isinstance(first, Dropped)
        notices = [each for each in items if isinstance(each, Dropped)]
        batches = [each.cycle for each in items if isinstance(each, Batch)]
        assert batches == list(range(notices[-1].until + 1, 30))
        assert len(batches) > 3
    publisher.close()


def test_where_answers_are_found_is_missed_when_nats_has_lost_it(nats: NatsServer, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p"))
    publish(publisher, 0, [1], _route("q", 0, 100))
    assert publisher.wait_until_forwarded(PATIENCE)
    publish(publisher, 1, [2], _route("q", 1, 100))
    assert publisher.wait_until_forwarded(PATIENCE)
    connection = NatsConnection(nats.url)
    connection.call(lambda stream: stream.purge_stream("WEFT_p_routes", subject=Subjects("p").route("q")))
    connection.close()
    source, members = NatsSource(f"{nats.url}/p"), Members([_route("q", 0, 100)])
    with pytest.raises(LogError, match=r"has lost where answers of query 'q' are found: .* was cut"):
        source.next(0, members, 0)
    source.close()
    publisher.close()


def test_a_member_narrower_than_a_bucket_gets_exactly_its_rows(nats: NatsServer, tmp_path: Path) -> None:
    routes = [_route(f"q{low}", low, low + 1) for low in range(0, 1000, 7)]
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p"))
    publish(publisher, 0, [], *routes, _route("all", 0, 1000))
    publish(publisher, 1, [number % 1000 for number in range(40_000)])
    assert publisher.wait_until_forwarded(PATIENCE)
    received = {}
    for query, numbers in {"all": range(1000), "q0": [0], "q7": [7], "q497": [497], "q994": [994]}.items():
        with subscribe(f"{nats.url}/p", query, after=-1) as answers:
            assert Counter(next_numbers(answers, 40 * len(numbers))) == Counter(dict.fromkeys(numbers, 40))
            received[query] = answers._source.bytes_received  # type: ignore[attr-defined]
    publisher.close()
    # Who takes one number in a thousand is sent one bucket of many.
    assert max(received[query] for query in received if query != "all") < received["all"] / 3


def test_rows_larger_than_a_message_are_split_and_one_that_is_too_large_is_said(
    nats: NatsServer, tmp_path: Path
) -> None:
    said: list[str] = []
    chance = random.Random(1)
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p"), say=said.append)
    route = Itinerary("q", (Subscription("g", (("n", "n"),)),), (Span("g", 0),))
    numbers = [chance.randrange(-(2**63), 2**63) for _ in range(400_000)]
    publish(publisher, 0, numbers, route)
    assert publisher.wait_until_forwarded(PATIENCE)
    with subscribe(f"{nats.url}/p", "q", after=-1) as answers:
        assert sorted(next_numbers(answers, 400_000)) == sorted(numbers)  # type: ignore[type-var]
    publisher.write(1, [Message("g", 0, pa.table({"n": [chance.randbytes(2 << 20)]}))])
    publisher.committed(1)
    assert not publisher.wait_until_forwarded(0.5)
    assert any("larger than NATS" in sentence for sentence in said)
    publisher.close(0)


def test_a_server_that_is_not_there_is_said_without_its_password() -> None:
    connection = NatsConnection("nats://ann:secret@127.0.0.1:9")
    with pytest.raises(BrokerError, match=r"nats://\*\*\*@127.0.0.1:9 cannot be reached") as failure:
        connection.call(lambda stream: stream.account_info())
    assert "secret" not in str(failure.value)
    connection.close()


def test_addresses_and_subjects() -> None:
    assert split_address("nats://h:1/p") == ("nats://h:1", "p")
    with pytest.raises(BrokerError, match="names no project"):
        split_address("nats://h:1")
    assert subject_token("hot-1") == "hot-1"
    assert "." not in subject_token("a.b")
    assert subject_token("a.b") != subject_token("a b")


_numbers_or_null = st.none() | st.sampled_from((-1, 0, 1, 2, 2.5, Decimal("2.25"), 3, 7, 10))
_conditions = st.builds(Comparison, st.just("n"), st.sampled_from(("<", "<=", "=", "!=", ">", ">=")), _numbers_or_null)
_others = st.sampled_from((Comparison("n", "is null"), Comparison("n", "in", (1, None, 7)), Comparison("m", ">", 1)))


@settings(max_examples=200, deadline=None)
@given(
    bounds=st.sets(st.integers(0, 8), max_size=5),
    conjunctions=st.lists(st.lists(_conditions | _others, max_size=3).map(tuple), min_size=1, max_size=3),
    values=st.lists(st.none() | st.integers(-2, 11), min_size=1),
    at_least=st.integers(1, 4),
)
def test_every_row_that_is_taken_is_in_a_bucket_that_is_met(
    bounds: set[int], conjunctions: list[Conjunction], values: list[int | None], at_least: int
) -> None:
    buckets = Buckets("n", tuple(sorted(bounds)))
    subscription = Subscription("g", (("n", "n"),), tuple(conjunctions))
    met = buckets.met(conjunctions)
    split = list(buckets.split(pa.table({"n": pa.array(values, pa.int64())}), at_least))
    assert sorted(str(v) for _, rows in split for v in rows["n"].to_pylist()) == sorted(map(str, values))
    for (first, last), rows in split:
        for value in rows["n"].to_pylist():
            if takes(subscription, {"n": value, "m": 5}):
                assert any(first <= bucket <= last for bucket in met)
    assert Buckets.from_json(*buckets.as_json()) == buckets


def test_rows_are_divided_by_the_column_that_most_members_restrict() -> None:
    routes = [_route(f"q{low}", low, low + 10) for low in range(100)]
    buckets = choose("g", routes)
    assert buckets is not None
    assert buckets.column == "n"
    assert len(buckets.bounds) <= 31
    assert list(buckets.bounds) == sorted(buckets.bounds)  # type: ignore[type-var]
    everything = Itinerary("all", (Subscription("g", (("n", "n"),)),), (Span("g", 0),))
    assert choose("g", [everything, everything, routes[0]]) is None


def test_where_there_are_tokens_readers_of_nats_need_one(nats: NatsServer, tmp_path: Path) -> None:
    address = f"{nats.url}/p"
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p", grants=tmp_path))
    publish(publisher, 0, [1], _route("hot", 0, 10))
    assert publisher.wait_until_forwarded(PATIENCE)
    subscribe(address, "hot").close()
    token = grant(tmp_path, "ann", ["h*"])
    publish(publisher, 1, [2], _route("cold", 0, 10))
    assert publisher.wait_until_forwarded(PATIENCE)
    with pytest.raises(AccessDenied, match="a token is needed"):
        subscribe(address, "hot")
    with pytest.raises(AccessDenied, match="does not allow query 'cold'"):
        subscribe(address, "cold", token=token)
    with subscribe(address, "hot", last=5, token=token) as answers:
        assert next_numbers(answers, 2) == [1, 2]
    revoke(tmp_path, "ann")
    publish(publisher, 2, [3])
    assert publisher.wait_until_forwarded(PATIENCE)
    with pytest.raises(AccessDenied, match="does not allow query 'hot'"):
        subscribe(address, "hot", token=token)
    token = grant(tmp_path, "ben", ["h*"])
    publish(publisher, 3, [4])
    assert publisher.wait_until_forwarded(PATIENCE)
    subscribe(address, "hot", token=token).close()
    (tmp_path / ACCESS).unlink()
    publish(publisher, 4, [5])
    assert publisher.wait_until_forwarded(PATIENCE)
    for given_token in (None, token):
        with pytest.raises(AccessDenied):
            subscribe(address, "hot", token=given_token)
    publisher.close()


def test_nats_that_has_lost_the_grants_lets_no_user_in(nats: NatsServer, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(nats.url, "p", grants=tmp_path))
    grant(tmp_path, "ann", ["h*"])
    publish(publisher, 0, [1], _route("hot", 0, 10))
    assert publisher.wait_until_forwarded(PATIENCE)
    publisher.close()
    subjects = Subjects("p")
    connection = NatsConnection(nats.url)
    connection.call(lambda stream: stream.purge_stream(subjects.routes_stream, subject=subjects.access))
    connection.close()
    with pytest.raises(BrokerError, match="does not say who may read project 'p'"):
        subscribe(f"{nats.url}/p", "hot")


_ACCOUNTS = """
authorization {
  users = [
    {user: engine, password: "e"}
    {user: reader, password: "r", permissions: {
      publish: ["$JS.API.DIRECT.GET.WEFT_p", "$JS.API.DIRECT.GET.WEFT_p.>",
                "$JS.API.DIRECT.GET.WEFT_p_routes.>"]
      subscribe: ["_INBOX.>", "mark.p"]}}
    {user: stranger, password: "s", permissions: {publish: ["other"], subscribe: ["other", "_INBOX.>"]}}
  ]
}
"""


def test_accounts_of_nats_decide_which_users_read_a_project(tmp_path: Path) -> None:
    """What `docs/subscribing.md` says to write into the configuration of the server."""
    accounts = tmp_path / "accounts.conf"
    accounts.write_text(_ACCOUNTS)
    server = NatsServer(tmp_path / "store", "-c", str(accounts))
    server.start()
    try:

        def as_(user: str, password: str) -> str:
            return server.url.replace("nats://", f"nats://{user}:{password}@")

        publisher = Publisher(tmp_path / "log", "p", broker=NatsBroker(as_("engine", "e"), "p"))
        publish(publisher, 0, [1, 2], _route("hot", 0, 10))
        assert publisher.wait_until_forwarded(PATIENCE)
        with subscribe(as_("reader", "r") + "/p", "hot", last=5) as answers:
            assert next_numbers(answers, 2) == [1, 2]
            publish(publisher, 1, [3])
            assert next_numbers(answers, 1) == [3]
        for address in (as_("stranger", "s"), as_("reader", "wrong")):
            with pytest.raises(BrokerError):
                subscribe(address + "/p", "hot")
        reader = NatsBroker(as_("reader", "r"), "p")
        with pytest.raises(BrokerError):
            reader.newest()
        reader.close()
        publisher.close()
    finally:
        server.stop()


def test_credentials_are_part_of_an_address() -> None:
    server, project = split_address("nats://host:4222/p?creds=/home/ann/weft.creds")
    assert project == "p"
    connection = NatsConnection(server)
    assert connection._credentials == "/home/ann/weft.creds"
    assert connection.shown == "nats://host:4222"
    connection.close()
