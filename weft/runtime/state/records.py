"""Records of the state directory: JSON documents that carry their own checksum.

    {"crc32":"8d2f01c4","record":{"cycle":7,…}}

The checksum is that of the file's name and of the record's text, byte for byte: a record in the place of another one is
not taken either.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zlib import crc32

from weft.runtime.failures.errors import StorageError

_ENVELOPE = re.compile(rb'\{"crc32":"([0-9a-f]{8})","record":(.*)\}', re.DOTALL)


def sealed(name: str, record: object) -> bytes:
    """Return the bytes of a record for a file of this name."""
    text = json.dumps(record, separators=(",", ":")).encode()
    return b'{"crc32":"%08x","record":%b}' % (_checksum(name, text), text)


def opened(data: bytes, place: str) -> Any:
    """Return the record in the bytes of the file at `place`; StorageError if they are not as they were written."""
    found = _ENVELOPE.fullmatch(data)
    if found is None or int(found[1], 16) != _checksum(place, found[2]):
        wrong = "is empty" if not data else "is not as it was written (its checksum differs)"
        raise damaged(place, wrong)
    return json.loads(found[2])


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
