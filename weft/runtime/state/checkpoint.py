"""Spark's checkpoint: which rows of its sources a batch has, kept in our records and given back to Spark.

Spark writes to its checkpoint before a batch begins: the offset of each source in `offsets/<batch>`, and for a source
of files the names of the files in `sources/<source>/<offset>`. The cycle's intent and commit have a copy of both:

    text      the file of the batch in `offsets/`
    lists     the files that sources have read so far, in lists under `files-read/`
    others    what sources of other kinds have under `sources/`, by source and file

If the checkpoint were missing, or older than the state, Spark would hand rows over under the number of a cycle that is
committed. So each start compares it with the offsets of the newest commit and of the cycle that was begun after it, and
writes anew what differs:

    offsets/<n>, commits/<n>    the newest cycle, so that the next one follows it
    offsets/<n + 1>             the rows of the cycle that was begun, so that it is finished with the same ones
    sources/<source>/           which files a source has read; what other sources keep there

Streams that are DataFrames from Python may keep state of their own in the checkpoint. There, what differs is refused.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from weft.runtime.spark.engine_errors import EngineError, StorageError
from weft.runtime.state.checksums import Seal, damaged, fault, seal_of

if TYPE_CHECKING:
    from weft.runtime.state.storage import Storage

CHECKPOINT: Final = "checkpoint"
FOLDER: Final = "files-read"

#: What is copied of a source that does not read files: as many files of this size at most.
_MOST_FILES, _MOST_BYTES = 20, 100_000

#: By source, the lines of Spark's log of files. Each is a JSON object with path, timestamp and batchId.
FileLines: TypeAlias = dict[str, list[str]]

_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'


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
    return all(map(_is_json, [metadata, *Offsets(text).by_source.values()]))


def _is_json(text: str, type_: Any = Any) -> bool:
    try:
        msgspec.json.decode(text, type=type_)
    except msgspec.MsgspecError:
        return False
    return True


class _Metadata(msgspec.Struct):
    """What tells Spark which streaming query a checkpoint belongs to."""

    id: uuid.UUID


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


def lists_of(offsets: Offsets | None) -> set[str]:
    """The paths of the lists of files."""
    return set() if offsets is None else {each.path for each in offsets.lists}


# -- the checkpoint of a start -----------------------------------------------------------------------------------------


def is_repeated(last: int, last_offsets: Offsets | None, cycle: int, offsets: Offsets | None) -> bool:
    """Whether a batch is one that is committed: the `last` one, or one before it if rows are handed over.

    `offsets` are those of the batch; None if its rows are handed over by a caller that counts the cycles. Raises
    EngineError if the batch is not the next one either.
    """
    if cycle == last + 1:
        return False
    if offsets is None and cycle <= last:
        return True
    if offsets is not None and cycle == last and last_offsets is not None and last_offsets.has_rows_of(offsets):
        return True
    raise EngineError(
        f"Spark's checkpoint is at cycle {cycle}, the state at {last}: they belong to different runs; start "
        "again, and the checkpoint is made anew"
    )


def check_is_same_batch(cycle: int, begun: Offsets | None, offsets: Offsets | None) -> None:
    """Raise EngineError if a cycle that was begun comes again with other rows."""
    if (begun is None) != (offsets is None) or (begun and offsets and not begun.has_rows_of(offsets)):
        raise EngineError(
            f"cycle {cycle} was begun with other rows than Spark hands over for it now; start again, and it is "
            "finished with those that it was begun with"
        )


class Checkpoint:
    """The checkpoint of the streaming query; every `compact_interval`th file in a log has all entries before it."""

    def __init__(self, storage: Storage, compact_interval: int) -> None:
        self._storage = storage
        self._interval = compact_interval

    def fit(self, cycle: int, last: Offsets | None, begun: Offsets | None, *, may_write: bool) -> str | None:
        """Make the checkpoint fit: `cycle` was committed last, with offsets `last`; the next one was `begun` or not.

        Returns a sentence about what was missing or different, if anything was. Raises StorageError if the checkpoint
        is ahead of the state, or if something differs that cannot be written.
        """
        storage = self._storage
        if cycle >= 0 and last is None:
            raise StorageError(
                f"{storage.root} was made by cycles whose rows were handed over, not read from sources; "
                "give this project a state directory of its own"
            )
        newest = max([*self._numbers("commits"), *(number - 1 for number in self._numbers("offsets"))], default=-1)
        if newest > cycle:
            raise StorageError(
                f"Spark's checkpoint is at cycle {newest}, the state at {cycle}: commits are missing, or an older copy "
                f"of {storage.path('commits')} was put back; restore the whole state directory from one copy, "
                "or remove it to start afresh"
            )
        wrong = {**self._wrong_logs(begun or last), **dict(self._wrong_records(cycle, last, begun))}
        if wrong and not may_write:
            raise StorageError(
                f"{storage.path(f'{CHECKPOINT}/{min(wrong)}')} is missing or does not fit the state, and streams "
                "are DataFrames from Python, of which only Spark knows the state; restore the state directory "
                "from a copy"
            )
        for name, found in wrong.items():
            if isinstance(found, str):
                storage.write_bytes(f"{CHECKPOINT}/{name}", found.encode())
            else:
                storage.delete(f"{CHECKPOINT}/{name}")
                for file, data in found.items():
                    storage.write_bytes(f"{CHECKPOINT}/{name}/{file}", data)
        if may_write:
            # A batch that was not begun is put together again, from the files that are there now.
            for number in self._numbers("offsets"):
                if number > cycle + (begun is not None):
                    storage.delete(f"{CHECKPOINT}/offsets/{number}")
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        sentence = (
            f"Spark's checkpoint did not fit the state ({', '.join(sorted(wrong)[:3])}{more}); "
            f"these files were made anew from the commit of cycle {cycle}, and no row is lost"
        )
        return sentence if wrong else None

    def _wrong_records(self, cycle: int, last: Offsets | None, begun: Offsets | None) -> Iterator[tuple[str, str]]:
        """What small files must hold that are missing or hold something else."""
        if last is None and begun is None:
            return
        if not _is_json(self._text("metadata"), _Metadata):
            yield "metadata", json.dumps({"id": str(uuid.uuid4())})
        for number, offsets in ((cycle, last), (cycle + 1, begun)):
            if offsets is not None and self._text(f"offsets/{number}") != offsets.text:
                yield f"offsets/{number}", offsets.text
        if last is not None:
            # Spark has a look at the batch before the newest one as well.
            if cycle > 0 and not is_readable(self._text(f"offsets/{cycle - 1}")):
                yield f"offsets/{cycle - 1}", last.text
            # It is missing after a crash between our commit and Spark's.
            version, _, record = self._text(f"commits/{cycle}").partition("\n")
            if version != "v1" or not _is_json(record, dict):
                yield f"commits/{cycle}", _COMMITTED

    def _wrong_logs(self, newest: Offsets | None) -> dict[str, dict[str, bytes] | str]:
        """The files of each folder of a source in which something is missing or different."""
        wrong: dict[str, dict[str, bytes] | str] = {}
        if newest is None:
            return wrong
        lines = lines_of(self._storage, newest)
        for source, offset in newest.of_files.items():
            read = lines.get(source, [])
            if not self._has_log(f"sources/{source}", offset, read):
                wrong[f"sources/{source}"] = self._log(offset, read)
        for source, files in newest.others.items():
            folder = f"sources/{source}"
            if files is None:
                if not self._storage.names(f"{CHECKPOINT}/{folder}"):
                    raise StorageError(
                        f"{self._storage.path(f'{CHECKPOINT}/{folder}')} is missing, and had more than weft copies; "
                        "restore the state directory from a copy"
                    )
            elif any(self._bytes(f"{folder}/{name}") != data for name, data in files.items()):
                wrong[folder] = dict(files)
        return wrong

    def _has_log(self, folder: str, newest: int, read: list[str]) -> bool:
        """Whether Spark's log of files ends with an entry and has just the files that were read."""
        names = self._storage.names(f"{CHECKPOINT}/{folder}")
        compacts = {int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")}
        numbers = {int(name) for name in names if name.isdigit()} | compacts
        if max(numbers, default=-1) != newest:
            return False
        first = max(compacts, default=0)
        needed = [f"{number}.compact" if number in compacts else str(number) for number in range(first, newest + 1)]
        if not set(names).issuperset(needed):
            return False
        try:
            files = [file_entries(self._storage.read_bytes(f"{CHECKPOINT}/{folder}/{name}")) for name in needed]
        except ValueError:
            return False
        return {line for lines in files for line in lines} == set(read)

    def _log(self, newest: int, read: list[str]) -> dict[str, bytes]:
        """A log of files up to an entry: the newest file with all entries before it, and those after that."""
        compact = (newest + 1) // self._interval * self._interval - 1
        by_file: dict[int, list[str]] = {number: [] for number in range(max(0, compact), newest + 1)}
        for line in read:
            by_file[max(compact, json.loads(line)["batchId"])].append(line)
        return {
            f"{number}.compact" if number == compact else str(number): "\n".join(["v1", *lines]).encode()
            for number, lines in by_file.items()
        }

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._storage.names(f"{CHECKPOINT}/{folder}") if name.isdigit()]

    def _text(self, name: str) -> str:
        """The text of a file, which is not UTF-8 if it is damaged; empty if there is none."""
        return self._bytes(name).decode(errors="replace")

    def _bytes(self, name: str) -> bytes:
        path = f"{CHECKPOINT}/{name}"
        return self._storage.read_bytes(path) if self._storage.exists(path) else b""
