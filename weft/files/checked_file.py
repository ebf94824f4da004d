"""Small JSON files that carry their own checksum: read back as they were written, or found damaged."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from weft.files.atomic import write_atomically


class Damaged(ValueError):
    """The bytes of a file are not those that were written. The message says what is wrong with them."""


def write_checked(path: Path, document: object) -> None:
    """Write a document with its checksum, so that the file is there whole, or as it was."""
    text = _text(document)
    write_atomically(path, _text({"check": zlib.crc32(text), "document": document}))


def read_checked(path: Path) -> dict[str, Any] | None:
    """What `write_checked` has written; None if there is no such file. Raises Damaged."""
    try:
        found = json.loads(path.read_bytes())
        document: dict[str, Any] = found["document"]
        check = found["check"]
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(str(error)) from error
    if zlib.crc32(_text(document)) != check:
        raise Damaged("the checksum does not fit its content")
    return document


def move_marker(folder: Path, kind: str, before: int | None, now: int) -> None:
    """Say by the name of an empty file, `000000000012.<kind>`, how far something has come."""
    path = folder / f"{now:012d}.{kind}"
    if before is None:
        path.touch(0o600)
    elif before != now:
        os.replace(folder / f"{before:012d}.{kind}", path)


def marker(folder: Path, kind: str) -> int | None:
    """What the name of the empty file of a kind says; None if there is none."""
    found = [path.name.removesuffix(f".{kind}") for path in folder.glob(f"*.{kind}")]
    return max((int(each) for each in found if each.isdigit()), default=None)


def _text(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
