"""Paths in statements: the folders that queries write to, and those that a project lets statements name.

Each folder has one writer. `weft init --allow FOLDER` limits what statements may name; they cannot set that themselves:
otherwise a script could lift it. A path is compared as the system resolves it, so neither `..` nor a link on the way to
it leads out.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Final

from weft.algebra import Sink

#: Sinks that write files.
_FILE_SINKS = frozenset({"parquet", "json"})

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(.*)", re.IGNORECASE | re.DOTALL)


def folder_of(sink: Sink | None) -> str | None:
    """Return the folder that a sink writes to, under the one name that all ways to write it have in common.

    Links are followed, and paths begin where this process runs. None for a sink that writes no files.
    """
    if sink is None or sink.format not in _FILE_SINKS:
        return None
    return folder_of_path(dict(sink.options)["path"])


def folder_of_path(path: str) -> str:
    """Return a path under the one name that all ways to write it have in common."""
    found = _SCHEME.fullmatch(path)
    scheme, rest = ("file", path) if found is None else (found[1].lower(), found[2])
    if scheme == "file":
        return os.path.realpath(re.sub(r"\A/+", "/", rest))
    return f"{scheme}:{posixpath.normpath(rest)}"


#: The setting that holds the folders, one per line.
SETTING: Final = "allowed_paths"

#: Formats that read files below their option `path`, and formats that read nothing from outside.
_FILES = frozenset({"csv", "json", "parquet", "orc", "text", "xml", "replay"})
_CLOSED = frozenset({"rate", "rate-micro-batch", "memory", "python"})

#: Options of file formats that name other files, or remove those that were read.
_OTHER_FILES = frozenset({"paths", "cleansource", "sourcearchivedir", "rowvalidationxsdpath"})

_PATTERN = re.compile(r"[*?\[{]")


def roots_of(setting: str | None) -> tuple[str, ...] | None:
    """The folders that a setting allows; None if there is no limit."""
    return None if setting is None else tuple(setting.splitlines())


def source_refusal(format_: str, options: Mapping[str, str], roots: Sequence[str] | None) -> str | None:
    """Why a project with these folders does not read from a source; None if it does."""
    if roots is None or format_ in _CLOSED:
        return None
    if format_ not in _FILES:
        return f"this project limits what may be read, and the format {format_} reads more than files"
    for name, value in options.items():
        if name.lower() in _OTHER_FILES:
            return f"this project limits what may be read and written, and so refuses the option {name}"
        if name.lower() == "path" and not _is_inside(value, roots):
            return _outside(value, roots)
    return None


def sink_refusal(sink: Sink | None, roots: Sequence[str] | None) -> str | None:
    """Why a project with these folders does not write to a sink; None if it does."""
    if sink is None or roots is None:
        return None
    paths = [value for name, value in sink.options if name.lower() == "path"]
    return next((_outside(path, roots) for path in paths if not _is_inside(path, roots)), None)


def setting_refusal(name: str, roots: Sequence[str] | None) -> str | None:
    """Why statements of a project with these folders cannot set something; None if they can."""
    if name.lower() == SETTING:
        return f"{SETTING} cannot be SET: run weft init with --allow"
    if roots is not None and name.startswith("spark."):
        return "this project limits what may be read and written, and settings of Spark could lift that"
    return None


def _is_inside(path: str, roots: Sequence[str]) -> bool:
    """Whether a path, or all that matches a pattern, lies in one of the folders."""
    pattern = _PATTERN.search(path)
    if pattern is not None:
        rest = path[pattern.start() :]
        if ".." in rest or re.search(r"\{[^}]*/", rest):
            # It leads up from what the pattern matches, or braces hold whole paths.
            return False
        path = path[: pattern.start()].rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    folder = folder_of_path(path)
    return any(folder == root or folder.startswith(f"{root.rstrip('/')}/") for root in roots)


def _outside(path: str, roots: Sequence[str]) -> str:
    return f"the path '{path}' lies outside of the folders that this project allows: {', '.join(roots)}"
