"""Records of the state directory: JSON documents that carry their own checksum.

    {"crc32":"8d2f01c4","record":{"cycle":7,…}}

The checksum is that of the file's name and of the record's text, byte for byte: a record in the place of another one is
not taken either. What is in a record follows from the types of its fields.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from weft.plan.log_ids import LogId
from weft.runtime.failures.errors import StorageError

Record = TypeVar("Record")

_ENVELOPE = re.compile(rb'\{"crc32":"([0-9a-f]{8})","record":(.*)\}', re.DOTALL)


def sealed(name: str, record: object) -> bytes:
    """Return the bytes of a record for a file of this name."""
    text = msgspec.json.encode(record, enc_hook=str)
    return b'{"crc32":"%08x","record":%b}' % (_checksum(name, text), text)


def opened(data: bytes, place: str, type_: type[Record] | Any = Any) -> Any:
    """Return the record in the bytes of the file at `place`; StorageError if they are not as they were written."""
    found = _ENVELOPE.fullmatch(data)
    if found is None or int(found[1], 16) != _checksum(place, found[2]):
        wrong = "is empty" if not data else "is not as it was written (its checksum differs)"
        raise damaged(place, wrong)
    return decoded(found[2], type_)


def decoded(text: bytes, type_: type[Record] | Any = Any) -> Any:
    """Return what the text of a record says."""
    return msgspec.json.decode(text, type=type_, dec_hook=_field)


def _field(type_: type, value: Any) -> Any:
    """A field of a type that JSON does not know."""
    if type_ is LogId:
        return LogId.parse(value)
    raise NotImplementedError(type_)


def _checksum(place: str, text: bytes) -> int:
    return crc32(text, crc32(place.rpartition("/")[2].encode()))


def read_record(path: Path) -> Any:
    """Return the record in a file."""
    return opened(path.read_bytes(), str(path))


def damaged(place: str, wrong: str) -> StorageError:
    """Return the error for a file of the state that cannot be trusted; `wrong` continues the file's name."""
    file = place.removeprefix("file:")
    return StorageError(
        f"{file} {wrong}; restore the project directory from a copy, or remove its state directory to begin afresh"
    )
