"""Access: which queries' answers the holder of a token may take.

A project without `access.json` in its delivery directory lets everyone who can reach it take everything. With one, a
subscription needs a token, and a token allows the queries whose names match one of its patterns ('hot', 'sales_*').
The file has no tokens, only their hashes: a token is 256 random bits, and cannot be guessed from a plain hash. That
users cannot read the rows in the directory is for the operating system to see to.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec

from weft.delivery.delivery_errors import AccessDenied, LogError
from weft.delivery.delivery_log import writing
from weft.files.atomic import private_folder, write_atomically

ACCESS: Final = "access.json"


class Grant(msgspec.Struct, frozen=True):
    """What the holder of a token may see. `name` is for people, to tell grants apart."""

    name: str
    hash: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """The grants of a project; None if everyone may take everything."""

    grants: tuple[Grant, ...] | None = None

    @classmethod
    def read(cls, path: Path) -> Access:
        """The grants in a file; none are needed if it does not exist. Raises LogError if it cannot be read."""
        try:
            return cls.decode(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError) as error:
            # A file that cannot be read must not open the door.
            raise LogError(
                f"{path} cannot be read as a list of grants ({error}); nobody is let in until it can"
            ) from error

    @classmethod
    def decode(cls, data: bytes) -> Access:
        return cls(msgspec.json.decode(data, type=tuple[Grant, ...] | None))

    def encode(self) -> bytes:
        return msgspec.json.encode(self.grants)

    def check(self, token: str | None, query: str) -> None:
        """Raises AccessDenied unless a token allows a query."""
        if self.grants is None:
            return
        if token is None:
            raise AccessDenied("a token is needed to take answers here; ask who runs the project for one")
        hashed = _hash(token)
        # Each is compared, and in constant time, so that how long it takes says nothing of the hashes.
        allowed = [each.queries for each in self.grants if hmac.compare_digest(each.hash, hashed)]
        if not any(fnmatchcase(query, pattern) for queries in allowed[:1] for pattern in queries):
            raise AccessDenied(f"the token does not allow query '{query}', or is none that is known here")


class AccessFile:
    """The grants in a file, read again each time.

    While a file that is required is missing no user is let in; nor while one is missing that was there before.
    """

    def __init__(self, path: Path, *, is_required: bool = False) -> None:
        self._path = path
        self._is_required = is_required

    def read(self) -> Access:
        """The grants that the file has now. Raises LogError if no user can be let in."""
        found = Access.read(self._path)
        if found.grants is None and self._is_required:
            raise LogError(f"{self._path} does not exist; nobody is let in until it does: put the file of grants there")
        self._is_required = self._is_required or found.grants is not None
        return found


def grant(directory: Path, name: str, queries: Sequence[str]) -> str:
    """Make a token that allows the queries that match a pattern. It is shown this once, and kept nowhere."""
    known = Access.read(directory / ACCESS).grants or ()
    if any(each.name == name for each in known):
        raise LogError(f"there is a grant '{name}' already; revoke it first")
    token = secrets.token_urlsafe(32)
    _write(directory, (*known, Grant(name, _hash(token), tuple(queries))))
    return token


def revoke(directory: Path, name: str) -> None:
    """Make a token worthless. When none is left, a token is still needed."""
    known = Access.read(directory / ACCESS).grants or ()
    if all(each.name != name for each in known):
        raise LogError(f"there is no grant '{name}'")
    _write(directory, tuple(each for each in known if each.name != name))


def _write(directory: Path, grants: Sequence[Grant]) -> None:
    private_folder(directory)
    with writing(directory / ACCESS):
        write_atomically(directory / ACCESS, Access(tuple(grants)).encode())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
