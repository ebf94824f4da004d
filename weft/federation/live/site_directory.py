"""What a site's directory says: which federation it belongs to, and which of its engines a provider uses."""

from __future__ import annotations

from pathlib import Path

import msgspec

from weft.delivery.log.delivery_errors import BrokerError
from weft.delivery.nats.connection import split_address
from weft.federation.federation_errors import FederationError
from weft.files.atomic import write_atomically
from weft.files.checked_file import Damaged, read_checked
from weft.files.private_files import private_folder

MEMBERSHIP_FILE = "federation.json"

#: Says which of its engines a provider uses.
ENGINE_FILE = "engine.json"

#: What to do when a provider cannot go on with what its engine has on disk.
FEED_AGAIN = (
    "restore it from a copy, or delete engine.json and engines in the site's directory, and nothing else: its queries "
    "are then fed again"
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
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=SiteMembership)
    except ValueError as error:
        raise FederationError(
            f"{path} is damaged ({error}); delete it, and start the site again with: weft provider"
        ) from error


def engine_project(directory: Path) -> Path | None:
    """Where the engine of a site has its project; None if the site has run no queries."""
    number = engine_number(directory)
    return None if number is None else engine_directory(directory, number) / "engine"


def engine_number(directory: Path) -> int | None:
    """Which of its engines a provider uses; None if it has had none."""
    path = directory / ENGINE_FILE
    try:
        document = read_checked(path)
    except Damaged as error:
        raise FederationError(f"{path} is damaged ({error}); {FEED_AGAIN}") from error
    return None if document is None else int(document["number"])


def engine_directory(directory: Path, number: int) -> Path:
    """Where a provider's engine with a number is, with its rows and its answers."""
    return directory / "engines" / str(number)


def checked_address(address: str) -> tuple[str, str]:
    """The server and the name of a federation. Raises FederationError."""
    try:
        if not address.startswith("nats://"):
            raise BrokerError(f"'{address}' is no address of a federation; write nats://host:port/name")
        return split_address(address)
    except BrokerError as error:
        raise FederationError(str(error).replace("names no project", "names no federation")) from error
