"""Measured loads in, moves out, by the decisions of `weft.federation.placement`.

All workers of a provider know one another's loads, so all are partners. What is native to a worker is what it was given
first: its caches are warm there, and so fragments come back when a peak is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.federation.placement.requests import APART, Request, home_requests, in_order, request
from weft.federation.placement.selection import Movable, Strategy, allowance, select


@dataclass(frozen=True, slots=True)
class Running:
    """A fragment: the part of a worker's time that it takes, where it runs, where it ran first, its bytes of state."""

    fragment: str
    load: float
    worker: str
    native: str
    state: float = 0.0


@dataclass(frozen=True, slots=True)
class Move:
    fragment: str
    giver: str
    receiver: str


def loads_of(workers: Sequence[str], running: Sequence[Running]) -> dict[str, float]:
    """The load of each worker."""
    loads = dict.fromkeys(workers, 0.0)
    for each in running:
        loads[each.worker] += each.load
    return loads


def moves(workers: Sequence[str], running: Sequence[Running]) -> list[Move]:
    """What moves in one round: every worker asks, and those that were asked give."""
    loads = loads_of(workers, running)
    asked = [each for worker in workers for each in _asked_by(worker, loads, running)]
    found: list[Move] = []
    for giver in workers:
        had, given, gone = loads[giver], 0.0, set()
        for each in in_order(each for each in asked if each.giver == giver):
            here = [_movable(one) for one in running if one.worker == giver and one.fragment not in gone]
            for taken in select(Strategy.HOMING, here, each, had - given, allowance(had, given)):
                gone.add(taken.unit)
                given += taken.load
                found.append(Move(taken.unit, giver, each.receiver))
    return found


def _asked_by(worker: str, loads: Mapping[str, float], running: Sequence[Running]) -> list[Request[str]]:
    hosts = {each.worker for each in running if each.native == worker} - {worker}
    home = home_requests(worker, loads[worker], {host: loads[host] for host in sorted(hosts)})
    if home:
        return home
    partners = {other: load for other, load in loads.items() if other != worker}
    asked = request(worker, loads[worker], partners, apart=APART)
    return [] if asked is None else [asked]


def _movable(running: Running) -> Movable[str, str]:
    return Movable(running.fragment, running.load, running.state, running.native)
