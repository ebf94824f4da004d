"""What a broker loses is seen by its reader, which gives no answers without it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.small_federation import SmallFederation
from tests.support.processes import NatsServer
from weft.delivery.delivery_errors import BrokerError
from weft.federation import FederationError
from weft.federation.live.messages import SiteJoined, SiteMessage, entry_bytes, message_bytes, message_of
from weft.federation.live.result_inbox import ResultInbox
from weft.federation.live.site_directory import Follower, Mailbox, RoleStore
from weft.federation.live.transport import LostError, Transport

BOX = "home.n1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "store")
    server.start()
    yield server
    server.stop()


def at_the_broker(server: NatsServer, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
    """Do something to the broker's streams, behind the back of the federation."""

    async def connected() -> None:
        client = await nats.connect(server.url)
        await work(client.jetstream())
        await client.close()

    asyncio.run(connected())


def message(number: int) -> bytes:
    return message_bytes(SiteMessage("answers", {"n": number, "filling": "x" * 400}))


def put(transport: Transport, number: int) -> bool:
    """Whether the broker takes a message."""
    try:
        transport.put(BOX, str(number), message(number))
    except BrokerError:
        return False
    return True


def read_all(mailbox: Mailbox) -> list[int]:
    found = []
    while (each := mailbox.next()) is not None:
        mailbox.read(each[0])
        found.append(each[1]["n"])
    return found


def mailbox(transport: Transport, directory: Path) -> Mailbox:
    return Mailbox(transport, RoleStore(directory / "reader.db"), BOX)


def test_a_mailbox_that_is_full_takes_no_more_and_keeps_what_it_has(server: NatsServer, tmp_path: Path) -> None:
    transport = Transport(server.url, "f", kept_bytes=10_000)
    sent = list(takewhile(lambda number: put(transport, number), range(60)))
    assert 0 < len(sent) < 60
    with pytest.raises(BrokerError, match="no room for more messages of federation 'f'"):
        transport.put(BOX, "one more", message(60))
    reader = mailbox(transport, tmp_path)
    assert read_all(reader) == sent
    # What was read makes room.
    assert all(put(transport, number) for number in range(100, 105))
    assert read_all(reader) == list(range(100, 105))
    transport.close()


def test_a_message_that_is_gone_is_missed(server: NatsServer, tmp_path: Path) -> None:
    transport = Transport(server.url, "f")
    numbers = [transport.put(BOX, str(number), message(number)) for number in range(3)]
    at_the_broker(server, lambda stream: stream.delete_msg("WEFT_FED_f_MAIL", numbers[1]))
    reader = mailbox(transport, tmp_path)
    first = reader.next()
    assert first is not None
    reader.read(first[0])
    with pytest.raises(LostError, match=r"lost messages of the mailbox 'home.n1': message 1, .* came after message 2"):
        reader.next()
    transport.close()


def test_a_mailbox_that_lost_all_is_missed_by_a_reader_that_had_read_nothing(
    server: NatsServer, tmp_path: Path
) -> None:
    transport = Transport(server.url, "f")
    assert mailbox(transport, tmp_path).next() is None
    transport.put(BOX, "a", message(1))
    at_the_broker(server, lambda stream: stream.purge_stream("WEFT_FED_f_MAIL"))
    transport.close()
    transport = Transport(server.url, "f")
    with pytest.raises(LostError, match="is not there any more"):
        mailbox(transport, tmp_path).next()
    transport.put(BOX, "b", message(2))
    with pytest.raises(LostError, match="came after message 0"):
        mailbox(transport, tmp_path).next()
    transport.close()


def test_the_log_of_a_broker_that_was_reset_is_missed_at_once(server: NatsServer, tmp_path: Path) -> None:
    transport = Transport(server.url, "f")
    for place in range(3):
        transport.append(entry_bytes(SiteJoined(str(place), "n1")), place)
    follower = Follower(transport, RoleStore(tmp_path / "reader.db"))
    assert follower.catch_up()

    at_the_broker(server, lambda stream: stream.delete_stream("WEFT_FED_f"))
    server.stop()
    server.start()
    with pytest.raises(LostError, match=r"ends at entry 0, and 3 was read before"):
        follower.catch_up()
    transport.close()


@pytest.mark.parametrize(
    ("after_it", "what"),
    [
        ([], "ends at entry 0"),
        (["a"], "ends at entry 1"),
        (["a", "x"], "ends at entry 2"),
        (["a", "x", "c"], "other entries"),
    ],
)
def test_the_next_process_finds_the_same_log_or_stops(tmp_path: Path, after_it: list[str], what: str) -> None:
    def following(names: list[str]) -> Follower:
        log = [entry_bytes(SiteJoined(name, "n1")) for name in names]
        return Follower(MemoryTransport(MemoryBroker(log=log)), RoleStore(tmp_path / "reader.db"))

    assert following(["a", "b"]).catch_up()
    assert following(["a", "b", "c"]).catch_up()
    with pytest.raises(LostError, match=what):
        following(after_it).catch_up()


def test_an_append_to_a_log_that_was_cut_ends(tmp_path: Path) -> None:
    broker = MemoryBroker(log=[entry_bytes(SiteJoined("a", "n1"))])
    follower = Follower(MemoryTransport(broker), RoleStore(tmp_path / "reader.db"))
    follower.catch_up()
    broker.log.clear()
    with pytest.raises(LostError, match="takes no entry behind that one"):
        follower.append(lambda: SiteJoined("b", "n2"))


def test_a_home_that_lacks_answers_stops(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    federation.settle()
    for n in range(4):
        federation.publish("trades", [(n, "A", n, n)])
    federation.work()
    answers = [
        number
        for number, (mailbox, data) in enumerate(federation.broker.messages, 1)
        if mailbox == BOX and message_of(data).kind == "answers"
    ]
    assert len(answers) == 4
    federation.broker.lost.add(answers[1])
    with pytest.raises(LostError, match="answers may be missing"):
        federation.homes["n1"].step()
    with pytest.raises(LostError):
        federation.homes["n1"].step()
    assert federation.delivered() == {}


def test_other_rows_under_the_numbers_of_a_batch_are_not_taken_for_its_own(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    for n in range(2):
        federation.publish("trades", [(n, "A", n, n)])
    first, second = (
        number for number, (mailbox, _) in enumerate(federation.broker.messages) if mailbox.startswith("rows.")
    )
    messages = federation.broker.messages
    messages[first], messages[second] = messages[second], messages[first]
    federation.settle()
    assert list(federation.delivered().values()) == [[[(0, 0)], [(1, 1)]]]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"kind": "rows"}\nno table'])
def test_a_damaged_message_is_said_so(data: bytes) -> None:
    with pytest.raises(FederationError, match="at the broker is damaged"):
        message_of(data)


def test_a_coordinator_begins_with_an_empty_directory_and_a_home_does_not(tmp_path: Path) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    for n in range(3):
        federation.publish("trades", [(n, "A", n, n)])
    federation.settle()
    federation.coordination.close()
    shutil.rmtree(tmp_path / "coordinator")
    federation.coordination = federation._coordination()
    assert [each["name"] for each in federation.ask("status")["status"]["queries"]] == ["q"]
    with pytest.raises(LostError, match="were read before, into another directory of this site"):
        ResultInbox("n1", tmp_path / "empty", federation.transport()).step()
