"""The folders that queries write their answers to, so that each has one writer."""

from __future__ import annotations

import os
import posixpath
import re

from weft.algebra import Sink

#: Sinks that write files.
_FILES = frozenset({"parquet", "json"})

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)


def folder_of(sink: Sink | None) -> str | None:
    """Return the folder that a sink writes to, under the one name that all ways to write it have in common.

    Links are followed, and paths begin where this process runs. None for a sink that writes no files.
    """
    if sink is None or sink.format not in _FILES:
        return None
    return folder_of_path(dict(sink.options)["path"])


def folder_of_path(path: str) -> str:
    """Return a path under the one name that all ways to write it have in common."""
    found = _SCHEME.fullmatch(path)
    scheme, rest = ("file", path) if found is None else (found[1].lower(), found[2])
    if scheme == "file":
        return os.path.realpath(re.sub(r"\A/+", "/", rest))
    return f"{scheme}:{posixpath.normpath(rest)}"
