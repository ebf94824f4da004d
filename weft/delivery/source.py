"""Where parcels can be had from, in the order of their cycles: the log of this machine, or a broker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol

from weft.delivery.edges.router import share
from weft.delivery.itinerary import Itinerary
from weft.delivery.log import cycles, read_parcel, read_routes
from weft.delivery.matching.members import Members
from weft.delivery.parcel import Parcel
from weft.delivery.users.reader import BEGINNING
from weft.delivery.wakeup import listen

_LOOK_EVERY = 0.05


@dataclass(frozen=True, slots=True)
class Gone:
    """Parcels of cycles up to `until` are not there any more."""

    until: int


@dataclass(frozen=True, slots=True)
class Nothing:
    """Up to a cycle there is nothing more for the members that were asked for."""

    through: int


class Source(Protocol):
    """Gives parcels, as far as they are of use to some members."""

    def route(self, query: str) -> Itinerary | None:
        """The newest itinerary of a query."""

    def newest(self) -> int:
        """The newest cycle whose parcel is there."""

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | Nothing | None:
        """What comes after a cycle; None if nothing does within so many seconds. Members are amended on the way."""

    def close(self) -> None:
        """Let go of it."""


class LogSource:
    """The log in a directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._new = Event()
        self._unlisten = listen(directory, self._new.set)

    def route(self, query: str) -> Itinerary | None:
        return read_routes(self._directory).get(query)

    def newest(self) -> int:
        return max(cycles(self._directory), default=BEGINNING)

    def next(self, after: int, members: Members, timeout: float) -> Parcel | Gone | Nothing | None:
        waited = 0.0
        while True:
            for cycle in cycles(self._directory):
                parcel = read_parcel(self._directory, cycle) if cycle > after else None
                if parcel is not None:
                    if parcel.previous is not None and parcel.previous > after:
                        return Gone(parcel.previous)
                    return share(parcel, members) or Nothing(cycle)
            if waited >= timeout:
                return None
            self._new.wait(_LOOK_EVERY)
            self._new.clear()
            waited += _LOOK_EVERY

    def close(self) -> None:
        self._unlisten()
