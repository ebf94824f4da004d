"""Files of a site that are deleted or damaged: it goes on rightly, or stops with a sentence that names one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.oracle_engine import Crash
from tests.federation.live.small_federation import SmallFederation
from weft.algebra import Query, Select
from weft.algebra.types import BIGINT
from weft.delivery import Batch, Dropped, subscribe
from weft.delivery.delivery_log import cycles, delivery_directory, parcel_path
from weft.delivery.publisher import Publisher
from weft.federation import FederationError
from weft.federation.live.ledger import StandingQuery, Stay
from weft.federation.live.messages import message_of
from weft.federation.live.provider_engine import ProviderEngine, SparkEngine
from weft.federation.live.result_inbox import ResultInbox
from weft.federation.live.site_directory import RoleStore
from weft.runtime.sinks.publishing import PublishedRows


def _flipped(at: float) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(at * (len(data) - 1))] ^= 1
        path.write_bytes(bytes(data))

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    **{f"flipped {tenth}": _flipped(tenth / 9) for tenth in range(10)},
}


QUERY = StandingQuery(Query("q", Select((), None, (), BIGINT), None), "n1", 1, (Stay("n2", 1, 1),))


class EngineAt(SparkEngine):
    """An engine that has committed a cycle."""

    last_cycle = -1

    def __init__(self, committed: int) -> None:
        self.last_cycle = committed


def _engine(folder: Path, broker: MemoryBroker, committed: int) -> ProviderEngine:
    engine = ProviderEngine(folder, "n2", MemoryTransport(broker), lambda directory, answers: EngineAt(committed))
    engine.addresses["q"] = QUERY, 0
    return engine


def _answer(engine: ProviderEngine, cycle: int, committed: int) -> None:
    """Run a cycle: a batch comes, and one query answers. Then the engine has committed so far."""
    engine._running = cycle + 2
    engine.write(cycle, [PublishedRows("q", 0, 0, pa.table({"n": [cycle]}), None)])
    engine.engine.last_cycle = committed


def _sent(broker: MemoryBroker) -> list[int]:
    return [message_of(data)["place"] for _, data in broker.messages]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_provider_stops_when_answers_that_wait_are_damaged(tmp_path: Path, damage: str) -> None:
    broker = MemoryBroker()
    engine = _engine(tmp_path, broker, -1)
    for cycle in range(3):
        engine.send()
        _answer(engine, cycle, committed=cycle)
    DAMAGES[damage](tmp_path / "answers")
    with pytest.raises(FederationError, match=r"answers is (damaged|missing).* were not sent yet"):
        engine.send()
    with pytest.raises(FederationError, match=r"answers is (damaged|missing).* were not sent yet"):
        _engine(tmp_path, broker, 2)
    assert _sent(broker) == [2, 3]


def test_answers_of_another_cycle_are_not_sent(tmp_path: Path) -> None:
    engine = _engine(tmp_path, MemoryBroker(), -1)
    _answer(engine, 0, committed=1)
    with pytest.raises(FederationError, match="has the answers of cycle 0, not of 1"):
        engine.send()


def test_answers_are_sent_once_whatever_came_before_a_start(tmp_path: Path) -> None:
    broker = MemoryBroker()
    _answer(_engine(tmp_path, broker, -1), 0, committed=-1)
    engine = _engine(tmp_path, broker, -1)  # it was not committed, and is run again
    assert not engine.send()
    _answer(engine, 0, committed=-1)
    engine = _engine(tmp_path, broker, 0)
    assert engine.send()
    _answer(engine, 1, committed=0)
    engine = _engine(tmp_path, broker, 0)
    assert not engine.send()
    _answer(engine, 1, committed=1)
    assert engine.send()
    assert not _engine(tmp_path, broker, 1).send()
    assert _sent(broker) == [2, 3]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_rows_of_a_cycle_that_was_begun_are_taken_again(tmp_path: Path, damage: str) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    provider = federation.coordination._follower.ledger.query("q").provider
    federation.publish("trades", [(1, "A", 2, 3)])
    federation.crash_at[provider] = "written"
    with pytest.raises(Crash):
        federation.providers[provider].step()
    federation.kill(provider)
    DAMAGES[damage](tmp_path / provider / "engines" / "0" / "000000000000.parquet")
    federation.start(provider)
    federation.settle()
    assert federation.delivered() == federation.expected()
    assert len(federation.delivered()) == 1


@pytest.mark.parametrize("damage", ["cut", "zeroed", "flipped 0"])
def test_a_damaged_database_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "results.db"
    store = RoleStore(path, ["things (name TEXT)"])
    for number in range(300):
        store.rows("INSERT INTO things VALUES (?)", f"thing {number}")
    store.close()
    DAMAGES[damage](path)
    with pytest.raises(FederationError, match=r"results.db is damaged or cannot be written \("):
        RoleStore(path).rows("SELECT count(*) FROM things")


@pytest.mark.parametrize("step", ["write", "committed"])
def test_a_home_that_dies_while_it_publishes_publishes_once(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    federation.settle()
    federation.publish("trades", [(1, "A", 1, 1)])
    federation.work()

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, step, crash)
        with pytest.raises(Crash):
            federation.homes["n1"].step()
    federation.restart_home("n1")
    federation.publish("trades", [(2, "A", 2, 2)])
    federation.settle()
    assert federation.delivered() == federation.expected()


@pytest.mark.parametrize("damage", ["cut", "deleted", "all deleted"])
def test_a_damaged_delivery_log_is_replaced_and_users_get_a_notice(tmp_path: Path, damage: str) -> None:
    federation = SmallFederation(tmp_path)
    federation.execute("n1", "CREATE CONTINUOUS QUERY q AS SELECT n, price FROM trades")
    for n in range(3):
        federation.publish("trades", [(n, "A", n, n)])
    federation.settle()
    directory = delivery_directory(tmp_path / "n1")
    newest = max(cycles(directory))
    federation.homes["n1"].close()
    if damage == "all deleted":
        shutil.rmtree(directory)
    else:
        DAMAGES[damage](parcel_path(directory, newest))
    said: list[str] = []
    federation.homes["n1"] = ResultInbox("n1", tmp_path / "n1", federation.transport(), said.append)
    federation.publish("trades", [(7, "A", 7, 7)])
    federation.settle()
    assert len(said) == 1
    assert "begins anew after cycle" in said[0]
    assert "users are told that they lack the cycles before" in said[0]
    with subscribe(directory, "q", after=0) as answers:
        assert answers.next(5) == Dropped("q", 0, newest)
        item = answers.next(5)
        assert isinstance(item, Batch)
        assert item.table.to_pylist() == [{"n": 7, "price": 7}]
