"""What can happen to a file: the faults, and the kinds of files of a project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

#: How many bytes of a file are flipped, one at a time.
PLACES = 10

_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|(?<=-)[0-9a-f]{16}|\d+")


def kind_of(name: str) -> str:
    """The kind of a file, by its path in the project: without the numbers that tell it from others."""
    return _NUMBERS.sub("#", name)


def _flipped(place: int) -> Callable[[Path, bytes | None], bytes | None]:
    def flip(file: Path, older: bytes | None) -> bytes | None:
        data = bytearray(file.read_bytes())
        if not data:
            return None
        data[(2 * place + 1) * len(data) // (2 * PLACES)] ^= 0x10
        return bytes(data)

    return flip


#: What each fault makes of a file, of which there may be an older copy; None if it cannot befall that file.
_FAULTS: Mapping[str, Callable[[Path, bytes | None], bytes | None]] = {
    "halved": lambda file, older: file.read_bytes()[: file.stat().st_size // 2],
    "emptied": lambda file, older: b"",
    "zeroed": lambda file, older: bytes(file.stat().st_size),
    "older": lambda file, older: older,
    **{f"flipped {place}": _flipped(place) for place in range(PLACES)},
}
FAULTS = ("deleted", *_FAULTS)


def damage(file: Path, fault: str, older: bytes | None) -> bool:
    """Let a fault befall a file; False if that leaves it as it was."""
    if fault == "deleted":
        file.unlink()
        return True
    known = file.read_bytes()
    data = _FAULTS[fault](file, older)
    if data is None or data == known:
        return False
    file.write_bytes(data)
    return True
