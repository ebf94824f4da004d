"""What every broker of a federation must do: the one in memory, and NATS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.support.processes import NatsServer
from weft.delivery.delivery_errors import BrokerError
from weft.federation.live.transport import Transport


@pytest.fixture(params=["memory", "nats"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Transport]]:
    if request.param == "memory":
        broker = MemoryBroker()
        yield lambda: MemoryTransport(broker)
        return
    server = NatsServer(tmp_path / "store")
    server.start()
    yield lambda: Transport(server.url, "a federation")
    server.stop()


def test_an_entry_is_appended_only_behind_the_last_one(connect: Callable[[], Transport]) -> None:
    one, other = connect(), connect()
    assert one.entries(0) == []
    assert one.append(b"a", 0) == 1
    assert other.append(b"b", 0) is None
    assert other.append(b"b", 1) == 2
    assert one.entries(0) == [(1, b"a"), (2, b"b")]
    assert one.entries(1) == [(2, b"b")]
    assert one.entries(2, wait=0.01) == []
    one.close()
    other.close()


def test_messages_stay_in_their_mailboxes_in_order_and_once(connect: Callable[[], Transport]) -> None:
    transport = connect()
    first = transport.put("home.n1", "x", b"one")
    assert transport.put("home.n1", "x", b"one") == first
    second = transport.put("home.n2", "y", b"two")
    third = transport.put("home.n1", "z", b"three")
    assert first < second < third
    assert transport.take("home.n1", 0) == (first, b"one")
    assert transport.take("home.n1", first) == (third, b"three")
    assert transport.take("home.n1", third) is None
    assert transport.take("home.n.1", 0) is None
    passing = transport.put("rows.s", "r", b"rows")
    assert transport.get(passing) == b"rows"
    assert transport.largest > 100_000
    transport.close()


def test_nats_that_is_away_is_said_so() -> None:
    transport = Transport("nats://127.0.0.1:9", "f")
    with pytest.raises(BrokerError, match="cannot be reached"):
        transport.entries(0)
    transport.close()


def test_a_broker_that_died_has_all_when_it_is_back(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "store")
    server.start()
    transport = Transport(server.url, "f")
    transport.append(b"a", 0)
    number = transport.put("home.n1", "x", b"one")
    server.stop(kill=True)
    with pytest.raises(BrokerError):
        transport.entries(0)
    server.start()
    assert transport.entries(0) == [(1, b"a")]
    assert transport.take("home.n1", 0) == (number, b"one")
    assert transport.append(b"b", 1) == 2
    transport.close()
    server.stop()
