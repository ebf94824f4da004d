"""The whole way, with real processes: every user gets exactly its rows, whatever breaks on the way.

A recorded stream is played: members come, are given new epochs and new spans, and end, while a NATS server is
restarted, the publisher dies between writing and committing, and edges are killed. What each user got is compared with
the naive evaluator: nothing missing, nothing twice, nothing foreign.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.delivery.naive import Row, bag, delivered, plain_rows
from tests.delivery.recorded import Played, play
from tests.support.processes import EdgeProcess, NatsServer
from weft.delivery import Batch, Dropped, Publisher, Subscriber, subscribe
from weft.delivery.delivery_log import cycles, read_parcel
from weft.delivery.nats_broker import NatsBroker, NatsLimits

_CYCLES = 24
_PATIENCE = 180.0


class _Engine:
    """Plays a recording as the engine does, and dies when it is told to."""

    def __init__(self, directory: Path, nats: NatsServer | None) -> None:
        self.directory = directory
        self._nats = nats
        self.said: list[str] = []
        self._committed = -1
        self._publisher = self._open()

    def _open(self) -> Publisher:
        # With a window this short NATS knows no message again: what is sent twice is stored twice.
        limits = NatsLimits(duplicate_window=0.1)
        broker = NatsBroker(self._nats.url, "proof", limits) if self._nats is not None else None
        publisher = Publisher(self.directory, "proof", broker=broker, say=self.said.append)
        publisher.committed(self._committed)
        return publisher

    def cycle(self, played: Played) -> None:
        assert self._publisher.wait_for_room(_PATIENCE)
        self._publisher.write(played.cycle, played.published, played.control)
        self._committed = played.cycle
        self._publisher.committed(played.cycle)

    def die_before_commit(self, played: Played) -> None:
        """Publish, and die before the commit; the next process runs the cycle again."""
        self._publisher.write(played.cycle, played.published, played.control)
        self._publisher.close(0)
        self._publisher = self._open()

    def die_after_commit(self, played: Played) -> None:
        """Die after the commit, before anybody was told of it."""
        self._publisher.write(played.cycle, played.published, played.control)
        self._committed = played.cycle
        self._publisher.close(0)
        self._publisher = self._open()

    def says(self, word: str) -> bool:
        """Whether it says something of which a word is part, after a while if need be."""
        end = time.monotonic() + _PATIENCE
        while not any(word in sentence for sentence in self.said) and time.monotonic() < end:
            time.sleep(0.05)
        return any(word in sentence for sentence in self.said)

    def forwarded(self) -> bool:
        return self._publisher.wait_until_forwarded(_PATIENCE)

    def close(self) -> None:
        self._publisher.close(0)


class _User:
    """Reads in a thread of its own until the last cycle."""

    def __init__(self, answers: Subscriber) -> None:
        self.answers = answers
        self.rows: list[tuple[int, Row]] = []
        self.dropped: list[Dropped] = []
        self.began = answers.position
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while self.answers.position < _CYCLES - 1:
                item = self.answers.next(0.5)
                if isinstance(item, Batch):
                    self.rows += [(item.cycle, row) for row in plain_rows(item.table)]
                elif isinstance(item, Dropped):
                    self.dropped.append(item)
        except StopIteration:
            pass

    def finish(self) -> None:
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive(), f"{self.answers.query} is at cycle {self.answers.position}"
        self.answers.close()


def _check(users: list[_User], directory: Path) -> None:
    parcels = [parcel for cycle in cycles(directory) if (parcel := read_parcel(directory, cycle))]
    assert [parcel.cycle for parcel in parcels] == list(range(_CYCLES))
    routes = {each.query: each for parcel in parcels for each in parcel.routes}
    for user in users:
        user.finish()
        who = f"{user.answers.query} at {getattr(user.answers, '_shown', type(user.answers).__name__)}"
        assert user.dropped == [], who
        later = [parcel for parcel in parcels if parcel.cycle > user.began]
        assert bag(user.rows) == bag(delivered(routes[user.answers.query], later)), who


def _all_stages(
    engine: _Engine, recording: list[Played], edges: list[EdgeProcess], nats: NatsServer | None, users: list[_User]
) -> None:
    """Play the recording with everything that can go wrong. Users come at the start, in the midst, and from behind."""
    places = [str(engine.directory), *(each.address for each in edges)]
    places += [f"{nats.url}/proof"] if nats is not None else []

    def come(queries: list[str], **start: int) -> None:
        users.extend(_User(subscribe(place, query, **start)) for place in places for query in queries)  # type: ignore[arg-type]

    engine.cycle(recording[0])
    assert engine.forwarded()
    come(["q0", "q1", "q2", "q3"])
    for played in recording[1:5]:
        engine.cycle(played)
    engine.die_before_commit(recording[5])
    for played in recording[5:8]:
        engine.cycle(played)
    for edge in edges:
        edge.kill()
    for played in recording[8:10]:
        engine.cycle(played)
    for edge in edges:
        edge.start()
    engine.die_after_commit(recording[10])
    assert engine.forwarded()
    come(["q4", "q8"], after=-1)
    if nats is not None:
        nats.stop(kill=True)
    for played in recording[11:14]:
        engine.cycle(played)
    if nats is not None:
        assert engine.says("NATS")
        nats.start()
    for played in recording[14:18]:
        engine.cycle(played)
    edges[-1].kill()
    for played in recording[18:]:
        engine.cycle(played)
    edges[-1].start()
    assert engine.forwarded()


def _seen_by(user: _User) -> int:
    return len({(cycle, repr(row)) for cycle, row in user.rows})


@pytest.mark.parametrize("broker", ["in process", "nats"])
def test_every_user_gets_exactly_its_rows_whatever_breaks(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    nats: NatsServer | None = request.getfixturevalue("nats") if broker == "nats" else None
    recording = list(play(_CYCLES, members=8))
    directory = tmp_path / "delivery"
    directory.mkdir()
    with ExitStack() as stack:
        upstream = f"{nats.url}/proof" if nats is not None else str(directory)
        root = EdgeProcess(upstream, tmp_path / "root")
        leaf = EdgeProcess(root.address, tmp_path / "leaf")
        engine = _Engine(directory, nats)
        stack.callback(engine.close)
        for edge in (root, leaf):
            edge.start()
            stack.callback(edge.stop)
        users: list[_User] = []
        try:
            _all_stages(engine, recording, [root, leaf], nats, users)
            _check(users, directory)
            assert sum(map(_seen_by, users)) > 100
        finally:
            for user in users:
                user.answers.close()


@pytest.mark.parametrize("broker", ["in process", "nats"])
def test_a_row_crosses_each_link_once_with_the_columns_that_are_needed(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Twenty users of overlapping queries: the links carry what the naive router says, and no copy more."""
    nats: NatsServer | None = request.getfixturevalue("nats") if broker == "nats" else None
    recording = list(play(_CYCLES, members=20))
    directory = tmp_path / "delivery"
    directory.mkdir()
    queries = [f"q{number}" for number in range(20)]
    with ExitStack() as stack:
        root = EdgeProcess(f"{nats.url}/proof" if nats is not None else str(directory), tmp_path / "root")
        leaf = EdgeProcess(root.address, tmp_path / "leaf")
        engine = _Engine(directory, nats)
        stack.callback(engine.close)
        engine.cycle(recording[0])
        assert engine.forwarded()
        for edge in (root, leaf):
            edge.start()
            stack.callback(edge.stop)
        users = [_User(subscribe(leaf.address, query)) for query in queries for _ in range(2)]
        for played in recording[1:]:
            engine.cycle(played)
        _check(users, directory)
        parcels = [parcel for cycle in cycles(directory)[1:] if (parcel := read_parcel(directory, cycle))]
        routes = {each.query: each for cycle in cycles(directory) for each in read_parcel(directory, cycle).routes}  # type: ignore[union-attr]
        wanted = sum(_rows_that_somebody_takes(parcel, [routes[query] for query in queries]) for parcel in parcels)
        crossed = [
            root.status()["links"][0]["rows"],
            leaf.status()["received"]["rows"],
            root.status()["received"]["rows"],
        ]
        assert crossed == [wanted] * 3
        assert sum(len(user.rows) for user in users) > 2 * wanted


def _rows_that_somebody_takes(parcel, routes) -> int:  # type: ignore[no-untyped-def]
    from tests.delivery.naive import lies_in, takes

    return sum(
        any(
            takes(subscription, row) and lies_in(span, message, parcel.cycle, row)
            for route in routes
            if route.ended is None or parcel.cycle < route.ended
            for subscription, span in route.legs
            if span.stream == message.group
        )
        for message in parcel.messages
        for row in plain_rows(message.rows)
    )
