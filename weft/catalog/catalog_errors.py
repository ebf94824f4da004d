"""What can go wrong with a catalog. Every message says what is wrong, where, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from weft.algebra.secrets import WeftError


class CatalogError(WeftError):
    """Anything the catalog refuses or cannot do."""


class CatalogLocked(CatalogError):
    """Another writer has the directory open; `holder` is what it wrote about itself.

    `answers` says whether that process carries out what others ask for: see `weft/loom/loom.py`.
    """

    def __init__(self, directory: Path, holder: str, *, answers: bool = False) -> None:
        self.holder = holder
        self.answers = answers
        advice = (
            "stop it first, or change it while it runs: weft register FILE"
            if answers
            else "repeat when it is done, or close the project there"
        )
        super().__init__(f"{directory} is open for writing by {holder}; {advice}")
