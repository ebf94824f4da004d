"""Checksums of all that the state relies on: of records, in themselves, and of files, in the commit that names them.

    {"crc32":"8d2f01c4","record":{"cycle":7,…}}

The checksum of a record is that of the file's name and of the record's text, byte for byte: a record in the place of
another one is not taken either.

The **seal** of a file is its size and its checksum. A commit has the seals of all files that it names, and is used only
if they fit; a folder, which Spark's tasks have written, must hold the sealed files and no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from weft.plan.log_ids import LogId
from weft.runtime.spark.engine_errors import StorageError

_ENVELOPE = re.compile(rb'\{"crc32":"([0-9a-f]{8})","record":(.*)\}', re.DOTALL)


def sealed(name: str, record: object) -> bytes:
    """Return the bytes of a record for a file of this name."""
    text = msgspec.json.encode(record, enc_hook=str)
    return b'{"crc32":"%08x","record":%b}' % (_checksum(name, text), text)


def opened(data: bytes, place: str, type_: Any = Any) -> Any:
    """Return the record in the bytes of the file at `place`; StorageError if they are not as they were written."""
    found = _ENVELOPE.fullmatch(data)
    if found is None or int(found[1], 16) != _checksum(place, found[2]):
        wrong = "is empty" if not data else "is not as it was written (its checksum differs)"
        raise damaged(place, wrong)
    return decoded(found[2], type_)


def decoded(text: bytes, type_: Any = Any) -> Any:
    """Return what the text of a record says."""
    # Of all types in records, JSON does not know this one.
    return msgspec.json.decode(text, type=type_, dec_hook=lambda _, text: LogId.parse(text))


def _checksum(place: str, text: bytes) -> int:
    return crc32(text, crc32(place.rpartition("/")[2].encode()))


def damaged(place: str, wrong: str) -> StorageError:
    """Return the error for a file of the state that cannot be trusted; `wrong` continues the file's name."""
    file = place.removeprefix("file:")
    return StorageError(
        f"{file} {wrong}; restore the project directory from a copy, or remove its state directory to begin afresh"
    )


class Seal(NamedTuple):
    """The size of a file and the CRC-32 of its bytes."""

    size: int
    checksum: int


#: The seals of what is at a path: of the files in a folder, by name, or of a file, whose name here is empty.
Seals: TypeAlias = Mapping[str, Seal]


def seal_of(data: bytes) -> Seal:
    return Seal(len(data), crc32(data))


def seal_of_file(path: Path) -> Seal:
    size = checksum = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            size, checksum = size + len(piece), crc32(piece, checksum)
    return Seal(size, checksum)


def fault(seal: Seal, found: Seal | bytes | None) -> str | None:
    """Return what is wrong with a file, as the end of a sentence that begins with its name; None if it is as sealed.

    The file is given by its seal now or by its bytes, or is missing.
    """
    if isinstance(found, bytes):
        found = seal_of(found)
    if found is None:
        return "is missing"
    if found.size != seal.size:
        return f"has {found.size:,} bytes instead of {seal.size:,}"
    return None if found == seal else "has been changed (its checksum differs)"


def check(place: str, sealed: Seals, found: Seals) -> None:
    """Raise StorageError unless the files at a place are as sealed."""
    wrong = {name: fault(seal, found.get(name)) for name, seal in sealed.items()}
    wrong |= dict.fromkeys(found.keys() - sealed.keys(), "does not belong to the project")
    for name, text in wrong.items():
        if text is not None:
            raise damaged(f"{place}/{name}" if name else place, text)
