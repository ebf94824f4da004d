"""What a site has on disk, and how its roles follow the log and read their mailboxes.

There is a small SQLite file for each role, written in transactions. A role that takes messages from a mailbox, or
batches from a folder, writes down what it did together with how far it has come. So a crash finds both or neither, and
nothing is done twice or left out.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from weft.delivery.delivery_errors import BrokerError
from weft.delivery.nats_connection import split_address
from weft.federation import FederationError
from weft.federation.live.ledger import FederationLedger
from weft.federation.live.messages import Entry, SiteMessage, entry_bytes, entry_of, message_of, send
from weft.federation.live.transport import LostError, Transport
from weft.files.atomic import private, private_folder, write_atomically
from weft.files.checked_file import marker

MEMBERSHIP_FILE = "federation.json"

#: What to do when a provider cannot go on with what its engine has on disk.
FEED_AGAIN = (
    "restore it from a copy, or delete `engines` in the site's directory, and nothing else: its queries are then "
    "fed again"
)


class SiteMembership(msgspec.Struct, frozen=True):
    """A site, and the address of its federation: nats://host:port/name."""

    site: str
    address: str


def write_membership(directory: Path, membership: SiteMembership) -> None:
    """Note what a directory is the site of. It stays so: what is in it is of use to no other site."""
    known = find_membership(directory)
    if known is not None and known.site != membership.site:
        raise FederationError(
            f"{directory} is the directory of site '{known.site}'; give '{membership.site}' one of its own"
        )
    private_folder(directory)
    write_atomically(directory / MEMBERSHIP_FILE, msgspec.json.format(msgspec.json.encode(membership)) + b"\n")


def find_membership(directory: Path) -> SiteMembership | None:
    """The site that a directory belongs to; None if it is not a site's."""
    path = directory / MEMBERSHIP_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=SiteMembership)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FederationError(
            f"{path} is damaged ({error}); delete it, and start the site again with: weft provider"
        ) from error


def engine_number(directory: Path) -> int | None:
    """Which of its engines a provider uses, as an empty file beside them says by its name; None if it has had none."""
    return marker(directory / "engines", "current")


def engine_directory(directory: Path, number: int) -> Path:
    """Where a provider's engine with a number is, with its rows and its answers."""
    return directory / "engines" / str(number)


def engine_project(directory: Path) -> Path | None:
    """Where the engine of a site has its project; None if the site has run no queries."""
    number = engine_number(directory)
    return None if number is None else engine_directory(directory, number) / "engine"


def checked_address(address: str) -> tuple[str, str]:
    """The server and the name of a federation. Raises FederationError."""
    try:
        if not address.startswith("nats://"):
            raise BrokerError(f"'{address}' is no address of a federation; write nats://host:port/name")
        return split_address(address)
    except BrokerError as error:
        raise FederationError(str(error).replace("names no project", "names no federation")) from error


#: How often an append is refused, although the log has nothing new, until the log must be taken for a shorter one.
_REFUSALS = 50
_PAUSE = 0.02

#: Messages that are read before the broker is told to delete them.
_AT_ONCE = 100
_OPENED = "opened"

#: How far each mailbox was read, and the log, with a digest of its entries up to there.
_TABLES = (
    "mailboxes (mailbox TEXT PRIMARY KEY, number INTEGER NOT NULL)",
    "log (one INTEGER PRIMARY KEY CHECK (one = 1), place INTEGER NOT NULL, digest BLOB NOT NULL)",
)


class RoleStore:
    """A SQLite file with the tables that a role needs, and how far its mailboxes and the log were read."""

    def __init__(self, path: Path, tables: Sequence[str] = ()) -> None:
        private_folder(path.parent)
        # What SQLite puts beside it has the same permissions.
        os.close(private(str(path), os.O_RDWR | os.O_CREAT))
        # Roles are made in one thread and run in another, one at a time.
        self._path = path
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.rows("PRAGMA journal_mode = WAL")
        self.rows("PRAGMA synchronous = FULL")
        for table in (*_TABLES, *tables):
            self.rows(f"CREATE TABLE IF NOT EXISTS {table}")
        ((found,),) = self.rows("PRAGMA quick_check(1)")
        if found != "ok":
            raise self._broken(found)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside is kept, or nothing of it."""
        self.rows("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.rows("ROLLBACK")
            raise
        self.rows("COMMIT")

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement; the rows that it finds."""
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._broken(str(error)) from error

    def read_up_to(self, mailbox: str) -> int:
        """The number of the last message that was taken from a mailbox."""
        found = self.rows("SELECT number FROM mailboxes WHERE mailbox = ?", mailbox)
        return int(found[0][0]) if found else 0

    def close(self) -> None:
        self._database.close()

    def _broken(self, what: str) -> FederationError:
        return FederationError(
            f"{self._path} is damaged or cannot be written ({what}); make room, or restore it from a copy"
        )


class Mailbox:
    """The reader of a kept mailbox: it takes every message once, in order, and notices a missing one.

    The caller calls `read` in the transaction that keeps what follows from a message. Messages that were read are
    deleted at the broker, all but the last one, which the next message must name as the one before it. A reader that
    finds its mailbox empty at its first look puts a message of its own there, so as to notice that all are gone. One
    with an empty store `may_begin_late` if it needs no message that another one has read.
    """

    def __init__(self, transport: Transport, store: RoleStore, mailbox: str, *, may_begin_late: bool = False) -> None:
        self._transport = transport
        self._store = store
        self._mailbox = mailbox
        self._may_begin_late = may_begin_late
        self._read = 0

    def next(self) -> tuple[int, SiteMessage] | None:
        """The next message and its number. Raises LostError if the one before it is not the last that was read."""
        while True:
            after = self._store.read_up_to(self._mailbox)
            found = self._transport.take(self._mailbox, None if self._may_begin_late and not after else after)
            if found is None:
                self._delete()
                if after:
                    return None
                send(self._transport, self._mailbox, f"{_OPENED}/{self._mailbox}", _OPENED, {})
                continue
            if self._read >= _AT_ONCE:
                self._delete()
            number, data = found
            message = message_of(data)
            if message.kind != _OPENED:
                return number, message
            self.read(number)

    def read(self, number: int) -> None:
        self._store.rows("INSERT OR REPLACE INTO mailboxes VALUES (?, ?)", self._mailbox, number)
        self._read += 1

    def _delete(self) -> None:
        """Delete the messages at the broker that were read, all but the last one."""
        if self._read:
            self._transport.delete(self._mailbox, self._store.read_up_to(self._mailbox))
            self._read = 0


class Follower:
    """A ledger, and the transport that it is read from.

    It notes how far it has read and a digest of all entries up to there, before it acts on them. The next process reads
    the log from the beginning, and must find the same entries.
    """

    def __init__(self, transport: Transport, store: RoleStore) -> None:
        self.transport = transport
        self.ledger = FederationLedger()
        self._store = store
        known = store.rows("SELECT place, digest FROM log")
        self._known: tuple[int, bytes] = known[0] if known else (0, b"")
        self._digest = b""

    def read(self) -> Iterator[tuple[int, Entry]]:
        """The entries that are new, each after it was taken into the ledger.

        Raises LostError if they are not those that were read before.
        """
        while found := self.transport.entries(self.ledger.place):
            digest, digests = self._digest, []
            for place, data in found:
                digest = hashlib.blake2b(digest + data, digest_size=16).digest()
                if place == self._known[0] and digest != self._known[1]:
                    raise self._lost("it has other entries up to there now")
                digests.append(digest)
            if found[-1][0] > self._known[0]:
                self._known = found[-1][0], digest
                self._store.rows("INSERT OR REPLACE INTO log VALUES (1, ?, ?)", *self._known)
            for (place, data), self._digest in zip(found, digests, strict=True):
                entry = entry_of(data)
                self.ledger.apply(place, entry)
                yield place, entry
        if self.ledger.place < self._known[0]:
            raise self._lost(f"it ends at entry {self.ledger.place}")

    def catch_up(self) -> bool:
        """Take in all new entries; whether there were any."""
        return len(list(self.read())) > 0

    def append(self, entry: Callable[[], Entry | None]) -> None:
        """Append an entry, which is made again whenever another site was faster: None if it is not wanted any more."""
        refusals = 0
        while True:
            refusals = 0 if self.catch_up() else refusals + 1
            made = entry()
            if made is None:
                return
            if self.transport.append(entry_bytes(made), self.ledger.place) is not None:
                self.catch_up()
                return
            if refusals > _REFUSALS:
                raise self._lost("it takes no entry behind that one, and has none there")
            if refusals:
                time.sleep(_PAUSE)

    def _lost(self, what: str) -> LostError:
        return LostError(
            f"the log at {self.transport.name} was read up to entry {self._known[0]} before, and {what}; restore the "
            "broker's store, or begin a federation of another name with new directories"
        )


class Role(ABC):
    """A part of a federation, which does a little at a time on what it has read of the log, and has a store for it."""

    def __init__(self, transport: Transport, store: Path, tables: Sequence[str] = ()) -> None:
        self._transport = transport
        self._store = RoleStore(store, tables)
        self._follower = Follower(transport, self._store)

    @abstractmethod
    def step(self) -> bool:
        """Do a little; whether there was anything to do."""

    def close(self) -> None:
        self._store.close()
        self._transport.close()
