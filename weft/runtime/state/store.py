"""The state of all nodes: on disk as segments of logs, many in one file, and in memory as warm copies of these.

A cycle adds a segment to each log that it changes, and writes all of them, one after the other, into one file:

    segments/000000000012/state    ┃ values 7 ┃ values 9 ┃ running stream trades ┃ partials trades ┃

A segment is immutable, and counts from the commit that names it until one that does not. The rules for all logs:

    expiry       a segment goes when all its rows are older than what its log needs
    rewriting    a log of many segments is written anew as one
    merging      when segments are in many files, the live parts of the smaller ones are copied into one

Rows that Spark reads, also on executors, are in files of their own, since its readers take whole files.

In memory, a host has a warm copy of what the segments of a node hold, so that the next cycle costs what is new:

    segments    what is committed of the node. A host knows nothing else of the state
    change      what a cycle adds to the log, which is true when the commit record names it

A warm copy that has computed a cycle is torn, and is made again from segments, unless that cycle is the next one to be
committed. Nothing in a `KeyedState` needs Spark: an executor could host a node, or some of its keys, as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.runtime.spark.engine_errors import MemoryLimit
from weft.runtime.state.commits import Segment

if TYPE_CHECKING:
    from weft.runtime.state.storage import Storage

#: A log with more segments is written anew, so that reading it stays cheap.
MOST_SEGMENTS: Final = 24
#: A segment with so many rows stays as it is, unless its log is keyed: to write it again takes longer than to read it.
LARGE: Final = 50_000
#: When segments are in more files, the smaller half of these is merged.
MOST_FILES: Final = 32


@dataclass(frozen=True, slots=True)
class Block:
    """What a segment will hold: rows in some format, how many, and the bounds of their clocks."""

    data: bytes
    rows: int
    min_clock: Clock = None
    max_clock: Clock = None


@dataclass(frozen=True)
class Change:
    """What a cycle does to a log.

    `segments` are those before the cycle, `added` is what it adds, and `since` is the least clock that is still needed;
    None if everything is. `rewritten` gives blocks in the place of some segments and of what is added. In a keyed log
    the newest record of a key counts: it is rewritten as a whole, and others but for their large segments.
    """

    log: LogId
    segments: Sequence[Segment]
    added: Block | None
    rewritten: Callable[[Sequence[Segment]], Iterable[Block | None]]
    since: Clock = None
    is_keyed: bool = True
    apart: bool = False


def live(segments: Iterable[Segment], since: Clock) -> list[Segment]:
    """Return the segments with rows that may be needed; `since` is the least clock that is, None if everything is."""
    return [each for each in segments if since is None or each.max_clock is None or each.max_clock >= since]


def is_rewritten(change: Change) -> bool:
    return bool(_replaced(change, live(change.segments, change.since)))


def are_many(segments: Sequence[object]) -> bool:
    return len(segments) > MOST_SEGMENTS


class StateStore:
    """The segments of all logs, in files of one state directory."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self, segment: Segment) -> bytes:
        if segment.length:
            return self._storage.read_part(segment.path, segment.offset, segment.length)
        return self._storage.read_bytes(segment.path)

    def path(self, name: str) -> str:
        return self._storage.path(name)

    def write_apart(self, path: str, block: Block) -> Segment:
        """Write a block to a file of its own."""
        self._storage.write_bytes(path, block.data)
        return _segment(path, block)

    def write(self, path: str, changes: Iterable[Change]) -> dict[LogId, tuple[Segment, ...]]:
        """Write what a cycle changes to the file at `path`; return the segments of the logs that have some then."""
        file = _StateFile(path)
        logs: dict[LogId, tuple[Segment, ...]] = {}
        for number, change in enumerate(changes):
            segments, blocks = _changed(change)
            if change.apart:
                added = [self.write_apart(f"{path}-{number}-{n}.parquet", each) for n, each in enumerate(blocks)]
            else:
                added = [file.placed(_segment(path, each), each.data) for each in blocks]
            if segments or added:
                together = [*segments, *added]
                # Rows of no key are read in the order of time.
                logs[change.log] = tuple(together if change.is_keyed else sorted(together, key=attrgetter("min_clock")))
        logs = self._merged(file, logs)
        if file.size:
            self._storage.write_bytes(path, b"".join(file.parts))
        return logs

    def _merged(self, file: _StateFile, logs: dict[LogId, tuple[Segment, ...]]) -> dict[LogId, tuple[Segment, ...]]:
        """Copy what is live in the smaller files, if there are too many, into the file of this cycle."""
        sizes: dict[str, int] = {}
        for segment in (each for segments in logs.values() for each in segments if each.length):
            sizes[segment.path] = sizes.get(segment.path, 0) + segment.length
        sizes.pop(file.path, None)
        if len(sizes) <= MOST_FILES:
            return logs
        small = set(sorted(sizes, key=lambda path: (sizes[path], path))[: len(sizes) // 2])
        return {
            log: tuple(file.placed(each, self.read(each)) if each.path in small else each for each in segments)
            for log, segments in logs.items()
        }


def _changed(change: Change) -> tuple[list[Segment], list[Block]]:
    """Return the segments of a log that stay, and the blocks that come."""
    kept = live(change.segments, change.since)
    replaced = _replaced(change, kept)
    if not replaced:
        return kept, [] if change.added is None else [change.added]
    blocks = [each for each in change.rewritten(replaced) if each is not None and each.rows]
    return [each for each in kept if each not in replaced], blocks


def _replaced(change: Change, kept: Sequence[Segment]) -> list[Segment]:
    """Return those of the live segments that are written again as one, if any are."""
    small = [each for each in kept if change.is_keyed or each.rows < LARGE]
    return small if are_many([*small, *([] if change.added is None else [change.added])]) else []


def _segment(path: str, block: Block) -> Segment:
    return Segment(path, block.rows, block.min_clock, block.max_clock)


class _StateFile:
    """The file of a cycle, as far as it is put together."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: list[bytes] = []
        self.size = 0

    def placed(self, segment: Segment, data: bytes) -> Segment:
        """Append the data of a segment; return the segment as it is found here."""
        placed = replace(segment, path=self.path, offset=self.size, length=len(data))
        self.parts.append(data)
        self.size += len(data)
        return placed


# -- in memory --------------------------------------------------------------------------------------------------------


class KeyedState(Protocol):
    """The state of a node."""

    def restore(self, blocks: Iterable[bytes]) -> None:
        """Take back what segments hold, oldest first; of a key that is in several, the newest record counts."""

    def changed(self) -> Block | None:
        """The records that the newest cycle has changed."""

    def whole(self) -> Block | None:
        """All records that may still be needed."""


State = TypeVar("State", bound=KeyedState)
Answers = TypeVar("Answers")


class DriverHost(dict[LogId, State]):
    """The warm copies of nodes in the driver: the state of each, as committed segments say."""

    def __init__(self, store: StateStore) -> None:
        super().__init__()
        self._store = store
        self._committed: dict[LogId, Sequence[Segment]] = {}
        self._added: dict[LogId, Block | None] = {}
        #: The cycle that the copies are the state after; None while one is under way.
        self._cycle: int | None = None

    def begin(
        self,
        last_cycle: int,
        logs: Mapping[LogId, Sequence[Segment]],
        nodes: Mapping[LogId, Callable[[State | None], State]],
    ) -> None:
        """Have the state of some nodes after the last commit, with its `logs`, and of no others.

        A node's state is made from the warm copy as of the last commit if there is one; without one, it is restored.
        """
        known = dict(self) if self._cycle == last_cycle else {}
        self.clear()
        self._committed, self._added, self._cycle = {node: logs.get(node, ()) for node in nodes}, {}, None
        for node, make in nodes.items():
            self[node] = make(known.get(node))
            if node not in known:
                self[node].restore(map(self._store.read, self._committed[node]))

    def run(self, node: LogId, compute: Callable[[State], Answers]) -> Answers:
        answers = compute(self[node])
        self._added[node] = self[node].changed()
        return answers

    def changes(self, since: Callable[[LogId], Clock] = lambda node: None) -> Iterator[Change]:
        """What the cycle changes; `since` says which clocks the log of a node still needs."""
        for node, copy in self.items():

            def rewritten(_: object, copy: State = copy) -> list[Block | None]:
                return [copy.whole()]

            yield Change(node, self._committed[node], self._added.get(node), rewritten, since(node))

    def commit(self, cycle: int) -> None:
        """The changes of a cycle are true."""
        self._cycle = cycle


# -- what that takes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryUse:
    """What a part of the state takes: `bytes` in all, `largest` of them for the queries `names`, or logs they read."""

    #: Begins the sentence: the rows that …, the groups of ….
    part: str
    bytes: int
    largest: int
    names: tuple[str, ...]
    #: What to do beside raising the limit.
    advice: str


class MemoryAccount:
    """What all state in the driver takes, indexes and dictionaries included, under one limit: `max_state_mb`.

    Every part of the state says what it takes before it grows. If all of them together need more than the limit, the
    queries that need most of it cannot go on; the others can.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._uses: dict[str, MemoryUse] = {}

    def begin(self, uses: Iterable[MemoryUse]) -> None:
        """Begin a cycle with what there is."""
        self._uses = {each.part: each for each in uses}

    def room(self, part: str) -> int:
        """Return the bytes that a part may take beside all others."""
        return self.limit - sum(each.bytes for each in self._uses.values() if each.part != part)

    def allows(self, use: MemoryUse) -> bool:
        return use.bytes <= self.room(use.part)

    def grow(self, use: MemoryUse) -> None:
        """Note what a part needs from now on. Raises MemoryLimit if that is too much."""
        self._uses[use.part] = use
        total = sum(each.bytes for each in self._uses.values())
        if total <= self.limit:
            return
        most = max(self._uses.values(), key=lambda each: each.largest)
        of_part, of_all, limit, largest = (
            f"{size / (1 << 20):,.1f}" for size in (most.bytes, total, self.limit, most.largest)
        )
        beside = f", {of_all} with other state" if total > most.bytes else ""
        names = f"{', '.join(most.names[:5])}{' and others' if len(most.names) > 5 else ''}"
        raise MemoryLimit(
            f"{most.part} need about {of_part} MB{beside} in the driver, and max_state_mb allows {limit}; {largest} of "
            f"them are for {names}: SET max_state_mb higher, {most.advice}",
            most.names,
        )
