"""Who runs what: files in a provider's directory that are replaced as a whole.

provider.json       what does not change: workers, fragments and their queries, how Spark is started
assignment.json     the worker of each fragment
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.files.atomic import write_atomically

_PROVIDER, _ASSIGNMENT = "provider.json", "assignment.json"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What does not change while a provider runs."""

    workers: tuple[str, ...]
    fragments: dict[str, tuple[str, ...]]
    master: str = "local[1]"
    interval: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


def fragment_directory(directory: Path, fragment: str) -> Path:
    """The loom of a fragment."""
    return directory / "fragments" / fragment


def write_fixed(directory: Path, fixed: Fixed) -> None:
    _replace(directory / _PROVIDER, asdict(fixed))


def read_fixed(directory: Path) -> Fixed:
    found = json.loads((directory / _PROVIDER).read_text())
    fragments = {name: tuple(queries) for name, queries in found.pop("fragments").items()}
    return Fixed(workers=tuple(found.pop("workers")), fragments=fragments, **found)


def write_assignment(directory: Path, assigned: Mapping[str, str]) -> None:
    _replace(directory / _ASSIGNMENT, dict(assigned))


def read_assignment(directory: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((directory / _ASSIGNMENT).read_text())
    return found


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode(), is_private=False)
