"""Files of a site that are deleted or damaged: it goes on rightly, or stops with a sentence that names one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.federation.live.memory_transport import MemoryBroker, MemoryTransport
from tests.federation.live.small_federation import SmallFederation
from weft.delivery import Batch, Dropped, subscribe
from weft.delivery.log.delivery_log import cycles, delivery_directory, parcel_path
from weft.federation.federation_errors import FederationError
from weft.federation.live.engine_incarnation import Address, CycleStore
from weft.federation.live.messages import message_of
from weft.federation.live.result_inbox import ResultInbox
from weft.federation.live.site_directory import RoleStore, engine_number
from weft.runtime.sinks.publishing import PublishedRows

CYCLES = range(4)


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


def _store(folder: Path, broker: MemoryBroker) -> CycleStore:
    addresses = {"q": Address(birth=1, home="n1", after=0, since=1)}
    return CycleStore(folder, "n2", MemoryTransport(broker), addresses)


def _answer(store: CycleStore, cycle: int) -> None:
    """Run a cycle: it comes, and one query answers."""
    assert store.put(cycle + 2, "trades", None, {}).cycle == cycle
    store.write(cycle, [PublishedRows("q", 0, 0, pa.table({"n": [cycle]}), None)])


def _sent(broker: MemoryBroker) -> list[int]:
    return [message_of(data)["place"] for _, data in broker.messages]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("cycle", CYCLES)
def test_answers_that_wait_are_all_sent_or_none_behind_a_damaged_file(tmp_path: Path, damage: str, cycle: int) -> None:
    store = _store(tmp_path, MemoryBroker())
    for each in CYCLES:
        _answer(store, each)
    DAMAGES[damage](tmp_path / f"{cycle:012d}" / "answers")
    broker = MemoryBroker()
    again = _store(tmp_path, broker)
    again.committed(max(CYCLES))
    with pytest.raises(FederationError, match=rf"{cycle:012d}/answers is (damaged|missing).* were not sent yet"):
        again.send()
    assert _sent(broker) == [each + 2 for each in range(cycle)]


def test_answers_are_sent_once_whatever_came_before_a_start(tmp_path: Path) -> None:
    broker = MemoryBroker()
    store = _store(tmp_path, broker)
    _answer(store, 0)
    store.committed(-1)  # it was not committed, and is run again
    assert not store.send()
    _answer(store, 0)
    store.committed(0)
    store.put(3, "trades", None, {})
    store.write(1, [])
    store.committed(1)
    _answer(store, 2)
    store.committed(1)
    again = _store(tmp_path, broker)
    again.committed(1)
    assert again.send()
    _answer(again, 2)
    again.committed(2)
    assert again.send()
    last = _store(tmp_path, broker)
    last.committed(2)
    assert not last.send()
    assert _sent(broker) == [2, 4]


def test_cycles_whose_answers_wait_are_not_deleted(tmp_path: Path) -> None:
    broker = MemoryBroker()
    store = _store(tmp_path, broker)
    for cycle in range(9):
        _answer(store, cycle)
        store.committed(cycle)
        store.delete(cycle)
    assert store.send()
    assert _sent(broker) == [cycle + 2 for cycle in range(9)]
    store.delete(8)
    assert [path.name for path in sorted(tmp_path.iterdir())][:2] == ["000000000005", "000000000006"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["mark.json", "rows.parquet"])
def test_a_cycle_is_not_run_again_on_damaged_rows(tmp_path: Path, file: str, damage: str) -> None:
    rows = pa.table({"n": [1, 2]})
    _store(tmp_path, MemoryBroker()).put(5, "trades", rows, {"trades": 2})
    path = tmp_path / "000000000000" / file
    DAMAGES[damage](path)
    with pytest.raises(FederationError, match=f"{file} (is|has) .*; restore it from a copy"):
        _store(tmp_path, MemoryBroker()).put(5, "trades", rows, {"trades": 2})


@pytest.mark.parametrize("damage", [each for each in DAMAGES if each != "deleted"])
def test_a_provider_does_not_begin_with_a_damaged_directory(tmp_path: Path, damage: str) -> None:
    federation = SmallFederation(tmp_path)
    federation.kill("n1")
    assert engine_number(tmp_path / "n1") == 0
    DAMAGES[damage](tmp_path / "n1" / "engine.json")
    with pytest.raises(FederationError, match=r"engine.json is damaged .*; restore it from a copy"):
        federation.start("n1")


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
