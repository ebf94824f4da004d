"""Measured loads in, moves out, by the decisions of `weft.federation.placement`.

All workers of a provider know one another's loads, so all are partners. What is native to a worker is what it was given
first: its caches are warm there, and so fragments come back when a peak is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    """What moves in one round: every worker asks, and those that were asked give, the largest request first.

    One who decides for all knows what has been decided already: a worker that asks several gets no more from one of
    them than still makes the two alike.
    """
    had = loads_of(workers, running)
    loads, given, targets = dict(had), dict.fromkeys(workers, 0.0), dict[str, str]()
    found: list[Move] = []
    for each in in_order(each for worker in workers for each in _asked_by(worker, had, running)):
        giver, receiver = each.giver, each.receiver
        amount = min(each.amount, (loads[giver] - loads[receiver]) / 2.0)
        if amount <= 0.0:
            continue
        here = [_movable(one) for one in running if one.worker == giver and one.fragment not in targets]
        asked = replace(each, amount=amount, load=loads[receiver])
        for taken in select(Strategy.HOMING, here, asked, loads[giver], allowance(had[giver], given[giver])):
            targets[taken.unit] = receiver
            given[giver] += taken.load
            loads[giver] -= taken.load
            loads[receiver] += taken.load
            found.append(Move(taken.unit, giver, receiver))
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
