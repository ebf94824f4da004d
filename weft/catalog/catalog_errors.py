"""What can go wrong with a catalog. Every message says what is wrong, where, and what to do about it."""

from __future__ import annotations

from pathlib import Path

from weft.algebra.secrets import WeftError

#: How many dependents an error names before it only counts the rest.
_NAMED_DEPENDENTS = 5


class CatalogError(WeftError):
    """Anything the catalog refuses or cannot do."""


class UnknownName(CatalogError):
    """Nothing is registered under that name, or number."""


class DuplicateName(CatalogError):
    """The name, or number, is taken."""


class NameInUse(CatalogError):
    """What is to be dropped is still read by others; `dependents` are their names, in the order of creation."""

    def __init__(self, kind: str, name: str, dependents: tuple[str, ...]) -> None:
        self.dependents = dependents
        listed = ", ".join(f"'{dependent}'" for dependent in dependents[:_NAMED_DEPENDENTS])
        if len(dependents) > _NAMED_DEPENDENTS:
            listed += f" and {len(dependents) - _NAMED_DEPENDENTS} more"
        super().__init__(f"{kind} '{name}' is read by {listed}; drop what reads it first")


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


class CatalogMissing(CatalogError):
    """There is no catalog where one was to be read."""


class CatalogLost(CatalogMissing):
    """There is no catalog, but there is the state of its queries."""


class CatalogTooNew(CatalogError):
    """The file was written by a newer weft, with a schema that this one does not know."""


class CatalogTooOld(CatalogError):
    """The file was written by a weft with a schema that is no longer read."""


class NotACatalog(CatalogError):
    """The file is something else: not SQLite, or another program's database."""


class CatalogCorrupt(CatalogError):
    """The file is, or was, a catalog, but it cannot be read any more."""


class CatalogUnavailable(CatalogError):
    """The file system does not let us: no such directory, no permission, no space, or another process in the way."""


class CatalogReadOnly(CatalogError):
    """A change was asked of a catalog that was opened for reading."""


class CodecError(CatalogError):
    """Stored data that does not spell a value: damaged, or naming a class that is not registered."""
