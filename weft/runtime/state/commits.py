"""What is true after each cycle: commit records.

    state/intents/<cycle>.json    before a cycle begins: the plan it will use and the heartbeats it will count
    state/commits/<cycle>.json    after it: one record that makes all of its effects true at once

A cycle whose commit exists is done and is never run again. One that has an intent but no commit is run again, with the
same plan and from the same rows, whatever the crash left behind: nothing but a commit makes a file part of the state.

What is wrong with queries that are in error, and what they miss, is part of the commit. It is kept for them up to the
setting `error_retention`:

    waiting/<query number>/<cycle>.arrow    answers that the sink of a query did not take, by cycle
    held/<cycle>/                           rows that queries which are evaluated apart have yet to see (`islands.py`)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from weft.plan.event_time import Clock, QueryStart
from weft.plan.log_ids import LogId
from weft.runtime.spark.engine_errors import StorageError
from weft.runtime.state.checkpoint import Offsets
from weft.runtime.state.checksums import Seals, decoded, opened

#: How records are written.
FORMAT = 6

#: The rate at which streams that may shed keep rows is so many of these: see `shedding.py`.
WHOLE = 1_024
#: Seconds until a query is tried again after its first failure; they double from try to try.
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 600.0


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of a log that arrived in one cycle (or, after compaction, in several): a file or folder, or part of one."""

    path: str
    rows: int
    min_clock: Clock
    max_clock: Clock
    #: Whether the rows are tagged, as ingesting writes them: their columns are in slots then (`rows.py`).
    tagged: bool = False
    #: How many rows arrived, where those that nothing looks for are not kept; 0 if all are.
    arrived: int = 0
    #: Where in the file it is (see `store.py`); a length of 0 means all of it.
    offset: int = 0
    length: int = 0

    def part(self, data: bytes) -> bytes:
        """Return what it holds of all the bytes of its file."""
        return data[self.offset : self.offset + self.length] if self.length else data

    @property
    def all_rows(self) -> int:
        return self.arrived or self.rows


@dataclass(frozen=True, slots=True)
class StreamState:
    """How far a stream has come: the largest clock seen, rows taken, and rows set aside, by reason."""

    number: int
    largest: Clock = None
    rows: int = 0
    late: int = 0
    bad: int = 0
    #: When the stream last had rows, on the clock of heartbeats; None without heartbeats.
    touched: int | None = None
    #: How many of `WHOLE` rows were kept in the newest cycle, and the largest clock when rows were last left out.
    kept: int = WHOLE
    shed_until: Clock = None
    #: Rows left out since the stream began.
    shed: int = 0
    #: Files that were gone before they were read.
    missing_files: int = 0
    #: Files that were set aside, because they cannot be read as declared.
    bad_files: int = 0


@dataclass(frozen=True, slots=True)
class QueryState:
    """When a query was created, and what each EMIT EMPTY in it counts from."""

    number: int
    first: int
    largest: Mapping[str, Clock]
    emit_from: Mapping[str, int] = field(default_factory=dict)
    #: Whether its relations are evaluated together with those of other queries; decided once, when it is created.
    shared: bool = False
    #: What it is evaluated as, if that is not how it is written: see `OutputNode`.
    root: str = ""

    @property
    def start(self) -> QueryStart:
        return QueryStart(self.number, self.first, self.largest)


@dataclass(frozen=True, slots=True)
class FamilyState:
    """What the rows of a family of joins are labelled with in its log: see `weft/runtime/stages/joins/network_pass.py`.

    For each node, by number: the cycle its label was first used in, and the first cycle from whose rows on it is in the
    log with all the rows that its readers need, the selects by place.
    """

    legs: tuple[LogId, ...]
    labels: Mapping[str, tuple[int, int]]
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def labels_by_node(self) -> dict[int, str]:
        return {int(node): f"{node}.{since}" for node, (since, _) in self.labels.items()}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a query is in error, since when (in seconds since 1970), and when it is tried again."""

    sentence: str
    since: float
    tries: int
    next_try: float

    @staticmethod
    def begin(sentence: str) -> Trouble:
        return Trouble(sentence, since=time.time(), tries=0, next_try=0.0).again(sentence)

    def again(self, sentence: str) -> Trouble:
        """The query has failed again."""
        # The exponent is bounded: a float has no room for 2 to the power of a thousand tries.
        pause = min(FIRST_PAUSE * 2.0 ** min(self.tries, 30), LONGEST_PAUSE)
        return Trouble(sentence, self.since, self.tries + 1, time.time() + pause)

    @property
    def is_due(self) -> bool:
        return time.time() >= self.next_try


@dataclass(frozen=True, slots=True)
class Lost:
    """Cycles of which a query lacks rows or answers, because more had to be kept for it than `error_retention`."""

    first: int
    last: int


def lost_with(lost: Lost | None, cycle: int) -> Lost:
    return Lost(cycle, cycle) if lost is None else Lost(min(lost.first, cycle), max(lost.last, cycle))


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """The answers of one cycle in a file of so many bytes."""

    cycle: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the sink of a query has not taken: the answers of some cycles, oldest first.

    `trouble` is None once the sink takes answers again; the record stays as long as cycles are `lost`.
    """

    number: int
    trouble: Trouble | None
    answers: tuple[KeptAnswers, ...] = ()
    lost: Lost | None = None

    def path(self, cycle: int) -> str:
        return f"waiting/{self.number}/{cycle:012d}.arrow"

    @property
    def paths(self) -> set[str]:
        return {self.path(each.cycle) for each in self.answers}


@dataclass(frozen=True, slots=True)
class Commit:
    """The whole state after a cycle."""

    cycle: int
    plan: int
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    queries: Mapping[str, QueryState] = field(default_factory=dict)
    #: How many answers each query has given so far: all that changes of most of them from cycle to cycle.
    answered: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[LogId, tuple[Segment, ...]] = field(default_factory=dict)
    snapshots: Mapping[str, str] = field(default_factory=dict)
    network: Mapping[LogId, FamilyState] = field(default_factory=dict)
    #: Who evaluates each relation that queries share, by place: what it keeps is of no use to others.
    evaluators: Mapping[str, str] = field(default_factory=dict)
    #: The seals of all files that the commit names, by path; those of tables are in the records of their snapshots.
    seals: Mapping[str, Seals] = field(default_factory=dict)
    #: The queries whose sinks have not taken all answers, by name.
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    #: How many rows were late for each query and not for all others. Queries without such rows are not named.
    late: Mapping[str, int] = field(default_factory=dict)
    #: The digest of the shared plan that answered it; empty if the catalog does not keep it.
    shared_plan: str = ""
    #: What tells the plan of that number from any other.
    plan_digest: str = ""
    #: Which rows of its sources the cycle had; None if they were handed over.
    offsets: Offsets | None = None
    islands: Mapping[str, Island] = field(default_factory=dict)
    #: The cycles whose rows are kept for islands that are behind, oldest first.
    held: tuple[Held, ...] = ()
    format: int = FORMAT

    @property
    def paths(self) -> set[str]:
        """The files and folders that the commit names, but for the snapshots of tables."""
        segments = {each.path for log, segments in self.logs.items() if not log.is_table for each in segments}
        waiting = {path for each in self.waiting.values() for path in each.paths}
        islands = {path for each in self.islands.values() for path in each.commit.paths}
        held = {path for each in self.held for path in each.paths}
        return segments | set(self.snapshots.values()) | waiting | islands | held

    def of_query(self, name: str) -> Commit:
        """The record that has the state of a query: this one, or that of its island."""
        return next((each.commit for each in self.islands.values() if name in each.members), self)


@dataclass(frozen=True, slots=True)
class Island:
    """Queries that are evaluated apart from the others since they failed: see `islands.py`.

    `roots` are those that failed, with their numbers; `members` also those that read their answers. `commit` is their
    state, of the cycle that they have come to. It lacks the rows of the cycles that are `lost`.
    """

    roots: Mapping[str, int]
    members: tuple[str, ...]
    commit: Commit
    trouble: Trouble | None
    #: The members that cannot be evaluated with the others, because they read queries whose state the island lacks.
    blocked: tuple[str, ...] = ()
    #: Whether the state is empty, and all queries begin with the next cycle.
    is_anew: bool = False
    lost: Lost | None = None


@dataclass(frozen=True, slots=True)
class Intent:
    """What is decided before a cycle begins, so that a second attempt does the same."""

    plan: int
    plan_digest: str
    #: Clocks that streams have reached without rows.
    heartbeats: Mapping[str, int]
    #: How many microseconds a stream may be silent before its clock goes on with the ticks in the batch.
    patience: int | None
    #: The largest TIMESTAMP that is believed of a clock: a row from the far future would make all that follow late.
    latest: int | None
    #: Whether queries that begin with the cycle share anything.
    sharing: bool
    #: What trees are chosen by, see `weft/plan/facts.py`; no answer depends on it.
    facts: Mapping[str, Mapping[str, int]]
    #: The snapshot of each table that the plan reads, by name.
    tables: Mapping[str, Segment]
    #: How many of `WHOLE` rows are kept of streams that may shed.
    kept: int
    #: Whether rows that are late for some queries and not for all go to the dead letter.
    keeps_late_rows: bool
    offsets: Offsets | None
    #: The queries that failed in attempts at the cycle, with what is wrong.
    evicted: Mapping[str, str]
    #: Files that are set aside: by stream and path, why they cannot be read.
    bad_files: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class HeldCycle:
    """The record of a cycle that is kept for islands which are behind: its intent, and the streams after it."""

    intent: Intent
    streams: Mapping[str, StreamState]


@dataclass(frozen=True, slots=True)
class Held:
    """A cycle that is kept for islands which are behind: so many rows, of so many bytes."""

    cycle: int
    rows: int
    bytes: int

    @property
    def paths(self) -> list[str]:
        return [held_rows(self.cycle), held_record(self.cycle)] if self.rows else [held_record(self.cycle)]


def held_rows(cycle: int) -> str:
    return f"held/{cycle:012d}/rows"


def held_record(cycle: int) -> str:
    return f"held/{cycle:012d}/decision.json"


def errors_of(commit: Commit) -> dict[str, Trouble]:
    """What is wrong with the queries that are in error, by name."""
    found = {name: each.trouble for name, each in commit.waiting.items() if each.trouble is not None}
    for island in commit.islands.values():
        roots = ", ".join(f"'{name}'" for name in island.roots)
        for name in island.members:
            if name in island.blocked:
                sentence = (
                    f"it reads {roots}, which is evaluated apart since it failed, and queries that are not: DROP it "
                    f"and {roots}, and CREATE them again"
                )
                found[name] = Trouble(sentence, since=0.0, tries=0, next_try=math.inf)
            elif island.trouble is not None:
                said = island.trouble.sentence
                sentence = said if name in island.roots else f"it reads {roots}: {said}"
                found[name] = replace(island.trouble, sentence=sentence)
    return found


START = Commit(cycle=-1, plan=0)


def read_commit(data: bytes, place: str) -> Commit:
    """Return the commit in the bytes of the file at `place`; StorageError if they are not as they were written."""
    text = opened(data, place, msgspec.Raw)
    written = decoded(text, _Version).format
    if written != FORMAT:
        raise StorageError(
            f"this state was written by another weft (format {written}, this one has {FORMAT}); "
            "run it with the weft that wrote it"
        )
    commit: Commit = decoded(text, Commit)
    return commit


class _Version(msgspec.Struct):
    format: int | None = None


def last_commit(directory: Path) -> Commit | None:
    """The newest commit of the project in `directory`; StorageError if its record is damaged."""
    while True:
        commits = sorted(each for each in (directory / "state" / "commits").glob("*.json") if each.stem.isdigit())
        try:
            return read_commit(commits[-1].read_bytes(), str(commits[-1])) if commits else None
        except FileNotFoundError:
            # A running engine has committed twenty cycles since the folder was listed, and deleted this record.
            continue
