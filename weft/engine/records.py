"""Records of the state directory: JSON documents that carry their own checksum.

    {"crc32":"8d2f01c4","record":{"cycle":7,…}}

A reader takes a record only if the checksum is that of its text, byte for byte.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from zlib import crc32

from weft.engine.errors import StorageError

_ENVELOPE = re.compile(rb'\{"crc32":"([0-9a-f]{8})","record":(.*)\}', re.DOTALL)


def sealed(record: object) -> bytes:
    """Return the bytes of a record."""
    text = json.dumps(record, separators=(",", ":")).encode()
    return b'{"crc32":"%08x","record":%b}' % (crc32(text), text)


def opened(data: bytes, place: str) -> Any:
    """Return the record in the bytes of the file at `place`; StorageError if they are not as they were written."""
    found = _ENVELOPE.fullmatch(data)
    if found is None or int(found[1], 16) != crc32(found[2]):
        wrong = "is empty" if not data else "is not as it was written (its checksum differs)"
        raise damaged(place, wrong)
    return json.loads(found[2])


def read_record(path: Path) -> Any:
    """Return the record in a file."""
    return opened(path.read_bytes(), str(path))


def damaged(place: str, wrong: str) -> StorageError:
    """Return the error for a file of the state that cannot be trusted; `wrong` continues the file's name."""
    return StorageError(
        f"{place} {wrong}; restore the project directory from a copy, or remove its state directory to begin afresh"
    )
