"""Warm copies hold what is committed, whatever happens to the cycles that have computed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.state.test_store import Disk
from weft.plan.log_ids import LogId, LogKind
from weft.runtime.state import store as rules
from weft.runtime.state.commits import Segment
from weft.runtime.state.storage import Storage
from weft.runtime.state.store import Block, DriverHost, StateStore

NODES = [LogId(LogKind.VALUES, str(number)) for number in range(3)]


class Counts:
    """The state of a node that counts words."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._changed: dict[str, int] = {}

    def restore(self, blocks: Iterable[bytes]) -> None:
        for block in blocks:
            self.counts |= json.loads(block)

    def count(self, words: Iterable[str]) -> None:
        self._changed = {}
        for word in words:
            self.counts[word] = self._changed[word] = self.counts.get(word, 0) + 1

    def changed(self) -> Block | None:
        return Block(json.dumps(self._changed).encode(), len(self._changed)) if self._changed else None

    def whole(self) -> Block | None:
        return Block(json.dumps(self.counts).encode(), len(self.counts))


words = st.lists(st.sampled_from("abc"), max_size=4)
#: What happens to a cycle: the words that nodes get, and how it ends.
cycles = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(NODES), words),
        st.sampled_from(["commits", "commits", "fails", "fails before it is written", "stops"]),
    ),
    max_size=30,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "MOST_SEGMENTS", 3)


@settings(deadline=None)
@given(cycles)
def test_a_warm_copy_is_what_is_committed_through_failures_and_restarts(
    happened: list[tuple[dict[LogId, list[str]], str]],
) -> None:
    disk = Disk()
    store = StateStore(cast(Storage, disk))
    host: DriverHost[Counts] = DriverHost(store)
    logs: dict[LogId, tuple[Segment, ...]] = {}
    model: dict[LogId, dict[str, int]] = {node: {} for node in NODES}
    committed = -1
    for attempt, (given_words, ends) in enumerate(happened):
        host.begin(committed, logs, dict.fromkeys(NODES, lambda known: known or Counts()))
        assert {node: host[node].counts for node in host} == model
        after = {node: dict(counts) for node, counts in model.items()}
        for node, some in given_words.items():
            host.run(node, lambda state, some=some: state.count(some))  # type: ignore[misc]
            for word in some:
                after[node][word] = after[node].get(word, 0) + 1
        if ends == "fails before it is written":
            continue
        written = store.write(f"{attempt}", host.changes())
        if ends == "stops":
            host = DriverHost(store)
        elif ends == "commits":
            committed, logs, model = committed + 1, written, after
            host.commit(committed)


def test_a_node_that_is_gone_is_not_in_memory() -> None:
    host: DriverHost[Counts] = DriverHost(StateStore(cast(Storage, Disk())))
    host.begin(-1, {}, dict.fromkeys(NODES, lambda known: known or Counts()))
    host.commit(0)
    host.begin(0, {}, dict.fromkeys(NODES[:1], lambda known: known or Counts()))
    assert list(host) == NODES[:1]
    assert NODES[1] not in host


def test_keyed_state_needs_no_spark() -> None:
    script = "import sys, weft.runtime.state.store; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
