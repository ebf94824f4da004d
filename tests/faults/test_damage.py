"""Whatever befalls a file of a project: its answers are right, or a command stops with one sentence.

The kinds of files are those that a project has after a while, so that a new kind cannot be forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from tests.faults.damage import FAULTS, damage, kind_of
from tests.faults.project import SUBSCRIBED, Home, Seen, Stop
from weft.runtime.state import store
from weft.runtime.state.commits import last_commit

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

#: Kinds that answers do not need, or that are made again; all others stop a start. The lock is empty.
_NOT_NEEDED = {
    "state/catalog.copy",
    "state/checkpoint/commits/#",
    "state/checkpoint/metadata",
    "state/checkpoint/offsets/#",
    "state/checkpoint/sources/stream_#/#",
    "delivery/#.newest",
    "delivery/#.parcel",
    "replay/#/ready/#-#.parquet",
    "state/answers/#.msgpack",
    "state/dead-letter/trades/#/part-#-#-c#.json",
    "state/intents/#.json",
    "state/segments/#/streams/stream=#/reason=malformed/part-#-#.c#.lz#hadoop.parquet",
    "state/tables/#-#.json",
    "state/tables/#-#/part-#-#-c#.lz#hadoop.parquet",
    "writer.lock",
}

_PARTS = (
    "replay",
    "state/checkpoint",
    "state/commits",
    "state/intents",
    "state/segments",
    "state/tables",
)
#: Folders that are lost or replaced as a whole. docs/guarantees.md says what is not found when all of `state` is.
FOLDERS = (
    ("delivery", "deleted"),
    *((folder, fault) for folder in _PARTS for fault in ("deleted", "older")),
)


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The project after its second stop; logs of more than three segments have been rewritten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MOST_SEGMENTS", 3)
        home = Home(tmp_path_factory.mktemp("home"))
        home.make()
        yield home


@pytest.fixture(scope="module")
def undisturbed(home: Home) -> Seen:
    """What users see after the next start if nothing happens."""
    seen = home.outcome()
    assert isinstance(seen, Seen), seen
    assert all(seen.answers.values()), seen.answers
    return seen


def kinds(home: Home) -> dict[str, list[str]]:
    """The files of each kind, oldest first."""
    found: dict[str, list[str]] = {}
    for name in home.files("second"):
        found.setdefault(kind_of(name), []).append(name)
    return found


def older_copy(home: Home, name: str) -> bytes | None:
    """What a file was at the first stop, or, if it was not there, another one of its kind."""
    first, second = home.files("first"), home.files("second")
    if name in first:
        return first[name].read_bytes()
    others = [file for other, file in second.items() if kind_of(other) == kind_of(name) and other != name]
    return others[0].read_bytes() if others else None


def wrong(found: Seen | Stop, undisturbed: Seen) -> str:
    """What is wrong with an outcome; nothing if answers are right, or if a sentence says why some cannot be shown."""
    if isinstance(found, Stop):
        return ""
    if (found.sinks, found.counts) != (undisturbed.sinks, undisturbed.counts):
        return f"sinks or counts differ, and all that was said is {found.said}"
    for name, answers in undisturbed.answers.items():
        if Counter(found.answers[name]) - Counter(answers):
            return f"'{name}' has answers that it should not have"
        where = "delivery" if name in SUBSCRIBED else "state/answers"
        if found.answers[name] != answers and not any(where in sentence for sentence in found.said):
            return f"'{name}' lacks answers, and all that was said is {found.said}"
    return ""


@dataclass(frozen=True)
class Files:
    """Files of the project, the oldest and the newest of each kind: those that a start needs, and all others."""

    needed: list[str]
    #: By the folder that they are in.
    others: dict[str, list[str]]


@pytest.fixture(scope="module")
def files(home: Home) -> Files:
    home.put_back("second")
    commit = last_commit(home.project)
    assert commit is not None
    named = {f"state/{path}/{name}".rstrip("/") for path, seals in commit.seals.items() for name in seals}
    found = Files([], {})
    for kind, names in kinds(home).items():
        needed = [name for name in names if kind not in _NOT_NEEDED]
        if kind.startswith("state/segments/"):
            # Rows of a cycle that nothing looked for stay where they were written, beside those that are needed.
            needed = [name for name in names if name in named]
        if kind == "state/commits/#.json":
            # People look at older ones.
            needed = names[-1:]
        found.needed.extend(sorted({needed[0], needed[-1]}) if needed else [])
        for name in {names[0], names[-1]} - set(needed):
            found.others.setdefault("/".join(name.split("/")[:2]), []).append(name)
    assert {kind_of(name) for names in found.others.values() for name in names} >= _NOT_NEEDED
    return found


def test_damage_stops_the_start_or_does_no_harm(home: Home, undisturbed: Seen, files: Files) -> None:
    """One byte of one file of each kind that is needed, or its loss; and the same of all others together."""
    home.put_back("second")
    for number, name in enumerate({kind_of(name): name for name in files.needed}.values()):
        # Much of the catalog can be made again, such as the index of computations.
        fault = "zeroed" if name == "catalog.sqlite" else "deleted" if number % 2 else "flipped 4"
        assert damage(home.project / name, fault, None)
        assert isinstance(home.outcome(), Stop), name
        home.put_back("second", name)
    for number, name in enumerate(name for names in files.others.values() for name in sorted(names)):
        damage(home.project / name, "deleted" if number % 2 else "flipped 4", None)
    assert wrong(home.outcome(), undisturbed) == ""


@pytest.mark.prove
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_of_every_kind_of_file_stops_a_command_or_does_no_harm(
    home: Home, undisturbed: Seen, files: Files, fault: str
) -> None:
    """Files that are needed are damaged one by one, others with those that are in the same folder."""
    failures = {}
    for names in [[name] for name in files.needed] + list(files.others.values()):
        home.put_back("second")
        if sum(damage(home.project / name, fault, older_copy(home, name)) for name in names):
            found = home.outcome()
            text = wrong(found, undisturbed)
            if text or (isinstance(found, Stop) and str(home.project) not in found.sentence):
                failures[", ".join(names)] = text or found
    assert failures == {}


@pytest.mark.prove
@pytest.mark.parametrize(("folder", "fault"), FOLDERS)
def test_a_folder_that_is_lost_or_older_stops_a_command_or_does_no_harm(
    home: Home, undisturbed: Seen, folder: str, fault: str
) -> None:
    home.put_back("second")
    home.lose(folder, put_back="first" if fault == "older" else None)
    assert wrong(home.outcome(), undisturbed) == ""
