"""The offsets of a cycle's batch: which rows of its sources it has. They are part of the cycle's intent and commit.

Spark writes them to its checkpoint before a batch begins: the offset of each source in `offsets/<batch>`, and for a
source of files the names of the files in `sources/<source>/<offset>`. A commit has a copy of both, so that the
checkpoint can be made again from it (`checkpoint.py`):

    text      the file of the batch in `offsets/`
    lists     the files that sources have read so far, in lists under `files-read/`
    others    what sources of other kinds have under `sources/`, by source and file
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from weft.runtime.failures.errors import EngineError, StorageError
from weft.runtime.state.checksums import Seal, damaged, fault, seal_of

if TYPE_CHECKING:
    from weft.runtime.state.storage import Storage

CHECKPOINT: Final = "checkpoint"
FOLDER: Final = "files-read"

#: What is copied of a source that does not read files: as many files of this size at most.
_MOST_FILES, _MOST_BYTES = 20, 100_000

#: By source, the lines of Spark's log of files. Each is a JSON object with path, timestamp and batchId.
FileLines: TypeAlias = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class FileList:
    """A file under `files-read/` with so many lines."""

    path: str
    lines: int
    seal: Seal


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a batch, and what is needed to give them back to Spark."""

    text: str
    lists: tuple[FileList, ...] = ()
    #: None for a source whose files are too many or too large to be copied.
    others: Mapping[str, Mapping[str, bytes] | None] = field(default_factory=dict)

    @property
    def by_source(self) -> dict[str, str]:
        """The offset of each source as JSON. Sources are known by name, or by number if they have none."""
        version, _, *lines = _lines(self.text)
        if version == "v1":
            return {str(number): line for number, line in enumerate(lines) if line != "-"}
        pairs = (line.partition(":") for line in lines)
        return {name: offset for name, _, offset in pairs if offset != "-"}

    def has_rows_of(self, other: Offsets) -> bool:
        """Whether two batches have the same rows of all sources."""
        return self.by_source == other.by_source

    @property
    def of_files(self) -> dict[str, int]:
        """The newest entry in the log of files of each source that has such a log."""
        offsets = {source: json.loads(text) for source, text in self.by_source.items()}
        of_files = {each: of for each, of in offsets.items() if isinstance(of, dict) and of.keys() == {"logOffset"}}
        return {source: int(offset["logOffset"]) for source, offset in of_files.items()}


def _lines(text: str) -> list[str]:
    # Other characters that Python breaks lines at may be in a path.
    return text.removesuffix("\n").split("\n")


def is_readable(text: str) -> bool:
    """Whether a text is a file of offsets that Spark can read."""
    version, metadata, *lines = [*_lines(text), "", ""]
    if version not in ("v1", "v2") or not any(lines):
        return False
    try:
        json.loads(metadata)
        for offset in Offsets(text).by_source.values():
            json.loads(offset)
    except ValueError:
        return False
    return True


def offsets_of(storage: Storage, cycle: int) -> Offsets:
    """The offsets of a batch that Spark hands over, as its checkpoint has them."""
    name = f"{CHECKPOINT}/offsets/{cycle}"
    text = storage.read_bytes(name).decode(errors="replace") if storage.exists(name) else ""
    if not is_readable(text):
        raise StorageError(f"{storage.path(name)} is missing or damaged; start again, and it is made anew")
    return Offsets(text)


def with_files(storage: Storage, offsets: Offsets, last: Offsets | None, cycle: int) -> Offsets:
    """The offsets of a batch after those of the last commit, with what its sources have read so far."""
    before = {} if last is None else last.of_files
    grown = {each: newest for each, newest in offsets.of_files.items() if newest > before.get(each, -1)}
    new = {each: _new_lines(storage, each, before.get(each, -1), newest) for each, newest in grown.items()}
    known = {} if last is None else last.others
    others = {
        source: known[source] if source in known else _copied(storage, f"{CHECKPOINT}/sources/{source}")
        for source in sorted(offsets.by_source.keys() - offsets.of_files.keys())
    }
    lists = () if last is None else last.lists
    return Offsets(offsets.text, _with_list(storage, lists, new, cycle) if new else lists, others)


def lines_of(storage: Storage, offsets: Offsets) -> FileLines:
    """Every file that sources have read so far."""
    found: FileLines = {}
    for each in offsets.lists:
        for source, lines in _read(storage, each).items():
            found.setdefault(source, []).extend(lines)
    return found


def new_files(storage: Storage, offsets: Offsets, last: Offsets | None) -> dict[str, list[str]]:
    """The files that a batch has after those of the last commit, by source."""
    before = {} if last is None else last.of_files
    grown = {source for source, newest in offsets.of_files.items() if newest > before.get(source, -1)}
    if not grown:
        return {}
    newest = _read(storage, offsets.lists[-1])
    entries = {source: map(json.loads, newest.get(source, ())) for source in sorted(grown)}
    return {
        source: [each["path"] for each in of_source if each["batchId"] > before.get(source, -1)]
        for source, of_source in entries.items()
    }


def _new_lines(storage: Storage, source: str, before: int, newest: int) -> list[str]:
    """What Spark's log of files has after an entry, up to another one."""
    folder = f"{CHECKPOINT}/sources/{source}"
    lines: list[str] = []
    for number in range(before + 1, newest + 1):
        plain, compact = f"{folder}/{number}", f"{folder}/{number}.compact"
        name = plain if storage.exists(plain) else compact
        try:
            entries = file_entries(storage.read_bytes(name))
        except (OSError, ValueError) as error:
            raise EngineError(
                f"{storage.path(plain)} is missing or damaged, so the files of this cycle are not known; "
                "start again, and it is made anew"
            ) from error
        lines += [line for line in entries if json.loads(line)["batchId"] == number]
    return lines


def file_entries(data: bytes) -> list[str]:
    """The lines of a file in Spark's log of files."""
    version, *lines = _lines(data.decode())
    if version != "v1":
        raise ValueError(f"version {version}")
    return lines


def _copied(storage: Storage, folder: str) -> dict[str, bytes] | None:
    """The files of a folder; None if that is too much."""
    names = [name for name in storage.names(folder) if not name.startswith(".")]
    if len(names) > _MOST_FILES:
        return None
    found = {name: storage.read_bytes(f"{folder}/{name}") for name in names}
    return None if any(len(data) > _MOST_BYTES for data in found.values()) else found


def _with_list(storage: Storage, lists: Sequence[FileList], new: FileLines, cycle: int) -> tuple[FileList, ...]:
    """The lists with new lines. They take in lists that are not much longer, so that few lists are left."""
    kept, lines = list(lists), new
    while kept and kept[-1].lines <= 2 * sum(map(len, lines.values())):
        before = _read(storage, kept.pop())
        lines = {
            source: before.get(source, []) + lines.get(source, []) for source in sorted(before.keys() | lines.keys())
        }
    data = msgspec.json.encode(lines)
    path = f"{FOLDER}/{cycle:012d}.json"
    storage.write_bytes(path, data)
    return (*kept, FileList(path, sum(map(len, lines.values())), seal_of(data)))


def _read(storage: Storage, each: FileList) -> FileLines:
    data = storage.read_bytes(each.path) if storage.exists(each.path) else None
    wrong = fault(each.seal, data)
    if data is None or wrong is not None:
        raise damaged(storage.path(each.path), str(wrong))
    return msgspec.json.decode(data, type=FileLines)


def outdated(last: Offsets | None, offsets: Offsets | None) -> Iterator[str]:
    """The lists that the last commit needed and a newer one does not."""
    needed = {each.path for each in offsets.lists} if offsets is not None else set()
    for each in last.lists if last is not None else ():
        if each.path not in needed:
            yield each.path
