"""Spark's checkpoint, made to fit the newest commit before Spark reads it.

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
from collections.abc import Iterator
from typing import Any, Final

from weft.runtime.failures.errors import EngineError, StorageError
from weft.runtime.state.commits import Commit
from weft.runtime.state.offsets import CHECKPOINT, Offsets, file_entries, is_readable, lines_of
from weft.runtime.state.storage import Storage

_COMMITTED: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def is_repeated(last: Commit, cycle: int, offsets: Offsets | None) -> bool:
    """Whether a batch is one that is committed. Raises EngineError if it is neither that nor the next one.

    `offsets` are those of the batch; None if its rows are handed over by a caller that counts the cycles.
    """
    if cycle == last.cycle + 1:
        return False
    if offsets is None and cycle <= last.cycle:
        return True
    if offsets is not None and cycle == last.cycle and last.offsets is not None and last.offsets.has_rows_of(offsets):
        return True
    raise EngineError(
        f"Spark's checkpoint is at cycle {cycle}, the state at {last.cycle}: they belong to different runs; start "
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

    def fit(self, cycle: int, last: Offsets | None, begun: Offsets | None, *, may_write: bool) -> list[str]:
        """Make the checkpoint fit: `cycle` was committed last, with offsets `last`; the next one was `begun` or not.

        Returns the names of what was missing or different. Raises StorageError if the checkpoint is ahead of the
        state, or if something differs that cannot be written.
        """
        if cycle >= 0 and last is None:
            raise StorageError(
                f"{self._storage.root} was made by cycles whose rows were handed over, not read from sources; "
                "give this project a state directory of its own"
            )
        self._refuse_newer(cycle)
        wrong = dict(self._wrong_records(cycle, last, begun))
        logs = self._wrong_logs(begun or last)
        if (wrong or logs) and not may_write:
            different = min(wrong.keys() | logs.keys())
            raise StorageError(
                f"{self._storage.path(f'{CHECKPOINT}/{different}')} is missing or does not fit the state, and streams "
                "are DataFrames from Python, of which only Spark knows the state; restore the state directory "
                "from a copy"
            )
        for folder, files in logs.items():
            self._storage.delete(f"{CHECKPOINT}/{folder}")
            for name, data in files.items():
                self._storage.write_bytes(f"{CHECKPOINT}/{folder}/{name}", data)
        for name, text in wrong.items():
            self._storage.write_bytes(f"{CHECKPOINT}/{name}", text.encode())
        if may_write:
            # A batch that was not begun is put together again, from the files that are there now.
            top = cycle + (begun is not None)
            for number in self._numbers("offsets"):
                if number > top:
                    self._storage.delete(f"{CHECKPOINT}/offsets/{number}")
        return sorted(wrong.keys() | logs.keys())

    def _refuse_newer(self, cycle: int) -> None:
        """Refuse a checkpoint that knows of later cycles than the state: commits have been lost."""
        newest = max([*self._numbers("commits"), *(number - 1 for number in self._numbers("offsets"))], default=-1)
        if newest > cycle:
            raise StorageError(
                f"Spark's checkpoint is at cycle {newest}, the state at {cycle}: commits are missing, or an older copy "
                f"of {self._storage.path('commits')} was put back; restore the whole state directory from one copy, "
                "or remove it to start afresh"
            )

    def _wrong_records(self, cycle: int, last: Offsets | None, begun: Offsets | None) -> Iterator[tuple[str, str]]:
        """What small files must hold that are missing or hold something else."""
        if last is None and begun is None:
            return
        if not self._has_id():
            yield "metadata", json.dumps({"id": str(uuid.uuid4())})
        for number, offsets in ((cycle, last), (cycle + 1, begun)):
            if offsets is not None and self._text(f"offsets/{number}") != offsets.text:
                yield f"offsets/{number}", offsets.text
        if last is not None:
            # Spark has a look at the batch before the newest one as well.
            if cycle > 0 and not is_readable(self._text(f"offsets/{cycle - 1}")):
                yield f"offsets/{cycle - 1}", last.text
            # It is missing after a crash between our commit and Spark's.
            committed = self._text(f"commits/{cycle}")
            if not committed.startswith("v1\n") or not isinstance(_json(committed.removeprefix("v1\n")), dict):
                yield f"commits/{cycle}", _COMMITTED

    def _wrong_logs(self, newest: Offsets | None) -> dict[str, dict[str, bytes]]:
        """The files of each folder of a source in which something is missing or different."""
        if newest is None:
            return {}
        wrong: dict[str, dict[str, bytes]] = {}
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

    def _has_id(self) -> bool:
        """Whether Spark can read which streaming query the checkpoint belongs to."""
        try:
            uuid.UUID(_json(self._text("metadata"))["id"])
        except (ValueError, TypeError, KeyError, AttributeError):
            return False
        return True

    def _text(self, name: str) -> str:
        """The text of a file, which is not UTF-8 if it is damaged; empty if there is none."""
        return self._bytes(name).decode(errors="replace")

    def _bytes(self, name: str) -> bytes:
        path = f"{CHECKPOINT}/{name}"
        return self._storage.read_bytes(path) if self._storage.exists(path) else b""


def _json(text: str) -> Any:
    """What a text says as JSON; nothing if it is damaged."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def made_anew(names: list[str], cycle: int) -> str:
    """A sentence that says what was missing or different."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return (
        f"Spark's checkpoint did not fit the state ({', '.join(names[:3])}{more}); "
        f"these files were made anew from the commit of cycle {cycle}, and no row is lost"
    )
