"""Files and folders that only the user who made them can read, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(path: Path) -> Path:
    """Make a folder, and those that it is in, for this user alone. A folder that exists stays as it is."""
    if not path.is_dir():
        private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    return path


def private(path: str, flags: int) -> int:
    """Open a file, which only this user can read if it is new: `open(path, "wb", opener=private)`."""
    return os.open(path, flags, 0o600)
