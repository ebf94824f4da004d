"""The store of segments beside a dictionary: random changes, expiry, rewriting, merging, crashes and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.plan.log_ids import LogId, LogKind
from weft.runtime.state import store as rules
from weft.runtime.state.commits import Segment
from weft.runtime.state.storage import Storage
from weft.runtime.state.store import Block, Change, StateStore

LOGS = [LogId(LogKind.VALUES, str(number)) for number in range(4)]
#: By key: a value and a clock.
State = dict[str, tuple[int, int]]
Whole = Callable[[Sequence[Segment]], Sequence[Block | None]]


class Disk:
    """Files in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write_bytes(self, name: str, data: bytes) -> None:
        assert name not in self.files
        self.files[name] = data

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        return self.files[name][offset : offset + length]


def block(state: State) -> Block | None:
    if not state:
        return None
    clocks = [clock for _, clock in state.values()]
    return Block(json.dumps(state).encode(), len(state), min(clocks), max(clocks))


def read(store: StateStore, segments: Sequence[Segment]) -> State:
    found: State = {}
    for each in segments:
        found |= {key: (value, clock) for key, (value, clock) in json.loads(store.read(each)).items()}
    return found


def since(state: State, least: int) -> State:
    return {key: each for key, each in state.items() if each[1] >= least}


keys = st.sampled_from("abc")
#: For each cycle: the keys of each log that change, how far time goes on, what is needed of it, and whether it commits.
cycles = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(LOGS), st.sets(keys, max_size=3)),
        st.integers(0, 3),
        st.integers(0, 9),
        st.sampled_from(["commits", "commits", "commits", "crashes"]),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_SEGMENTS", 4)
    monkeypatch.setattr(rules, "MOST_FILES", 5)


@settings(deadline=None)
@given(cycles)
def test_the_store_holds_what_a_dictionary_holds(
    happened: list[tuple[dict[LogId, set[str]], int, int, str]],
) -> None:
    disk = Disk()
    model: dict[LogId, State] = {log: {} for log in LOGS}
    committed: dict[LogId, tuple[Segment, ...]] = {}
    now, least = 0, -10
    for number, (changed, steps, horizon, ends) in enumerate(happened):
        now += steps
        least = max(least, now - horizon)
        after = {log: dict(state) for log, state in model.items()}
        added: dict[LogId, State] = {}
        for log, of in changed.items():
            added[log] = dict.fromkeys(of, (number, now))
            after[log] |= added[log]

        def whole(log: LogId, state: dict[LogId, State] = after, least: int = least) -> Whole:
            return lambda segments: [block(since(state[log], least))]

        store = StateStore(cast(Storage, disk))
        path = f"{number}-{ends}"
        changes = [Change(log, committed.get(log, ()), block(added.get(log, {})), whole(log), least) for log in LOGS]
        logs = store.write(path, changes)
        if ends == "crashes":
            disk.files.pop(path, None)
            continue
        model, committed = after, logs
        live = {each.path for segments in logs.values() for each in segments}
        disk.files = {name: data for name, data in disk.files.items() if name in live}
        reopened = StateStore(cast(Storage, disk))
        for log in LOGS:
            found = read(reopened, committed.get(log, ()))
            assert since(found, least) == since(model[log], least)
            assert found.items() <= model[log].items()
            assert len(committed.get(log, ())) <= 4
        assert len(live) <= 6


def nothing(segments: Sequence[Segment]) -> Sequence[Block | None]:
    raise AssertionError("there are few segments")


def test_a_cycle_writes_one_file_for_all_logs_and_none_if_nothing_changes() -> None:
    disk = Disk()
    store = StateStore(cast(Storage, disk))
    logs = store.write("0", [Change(log, (), block({"a": (number, 1)}), nothing) for number, log in enumerate(LOGS)])
    assert list(disk.files) == ["0"]
    assert [read(store, logs[log]) for log in LOGS] == [{"a": (number, 1)} for number in range(len(LOGS))]
    assert store.write("1", [Change(log, logs[log], None, nothing) for log in LOGS]) == logs
    assert list(disk.files) == ["0"]


def test_a_log_whose_rows_are_all_too_old_is_gone() -> None:
    store = StateStore(cast(Storage, Disk()))
    (log, *_) = LOGS
    logs = store.write("0", [Change(log, (), block({"a": (0, 7)}), nothing)])
    assert store.write("1", [Change(log, logs[log], None, nothing, since=7)]) == logs
    assert store.write("2", [Change(log, logs[log], None, nothing, since=8)]) == {}


def test_rows_without_keys_keep_their_large_segments_and_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "LARGE", 2)
    store = StateStore(cast(Storage, Disk()))
    (log, *_) = LOGS

    def together(segments: Sequence[Segment]) -> Sequence[Block | None]:
        return [block(read(store, segments) | {"b": (6, 6)})]

    segments: tuple[Segment, ...] = ()
    for number in range(5):
        added = block({"c": (0, 3), "d": (0, 3)} if number == 3 else {"ab"[number % 2]: (number, number)})
        segments = store.write(str(number), [Change(log, segments, added, together, is_keyed=False)])[log]
    assert [each.rows for each in segments] == [1, 1, 1, 2, 1]
    segments = store.write("5", [Change(log, segments, None, together, is_keyed=False)])[log]
    assert [each.rows for each in segments] == [1, 1, 1, 2, 1]
    segments = store.write("6", [Change(log, segments, block({"b": (6, 6)}), together, is_keyed=False)])[log]
    assert [(each.rows, each.min_clock) for each in segments] == [(2, 3), (2, 4)]


def test_what_spark_reads_is_in_a_file_of_its_own() -> None:
    disk = Disk()
    store = StateStore(cast(Storage, disk))
    changes = [Change(log, (), block({"a": (0, 1)}), nothing, apart=log is LOGS[0]) for log in LOGS[:3]]
    logs = store.write("0", changes)
    assert sorted(disk.files) == ["0", "0-0-0.parquet"]
    assert [each.length > 0 for log in LOGS[:3] for each in logs[log]] == [False, True, True]
