"""Measured loads in, moves out, by the decisions of `lab.placement`.

All workers of a provider know one another's loads, so all are partners. What is native to a worker is what it was given
first: its caches are warm there, and so fragments come back when a peak is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import sub
from statistics import fmean

from lab.placement.requests import APART, Request, home_requests, in_order, request
from lab.placement.selection import Movable, Strategy, allowance, select

#: What two workers differ by must become this part of what it was, or less, for something to move between them.
NEARER = 2 / 3
#: Fragments are exchanged if the least loaded worker has less than the mean by this factor.
CLEARLY = 1.1


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
    """What moves in one round: those that were asked give, the largest request first.

    First workers call their own fragments home, then those that still have clearly less than others ask for any. If no
    fragment is of a size that would help, the most loaded worker gives one and takes smaller ones for it.
    """
    round_ = _Round(workers, running)
    for asked in in_order(each for worker in workers for each in _home_requests(worker, round_.loads, running)):
        round_.serve(asked)
    for asked in in_order(each for worker in workers for each in _requests(worker, round_.loads)):
        round_.serve(asked)
    if not round_.moves:
        round_.exchange()
    return round_.moves


class _Round:
    """A round of decisions. One who decides for all knows what has been decided already."""

    def __init__(self, workers: Sequence[str], running: Sequence[Running]) -> None:
        self.loads = loads_of(workers, running)
        self.moves: list[Move] = []
        self._had = dict(self.loads)
        self._given = dict.fromkeys(workers, 0.0)
        self._staying = {each.fragment: each for each in running}

    def serve(self, asked: Request[str]) -> None:
        """Give what is asked for, one fragment after the other, as long as it makes the two clearly more alike."""
        left = asked.amount
        while True:
            gap = self.loads[asked.giver] - self.loads[asked.receiver]
            amount = min(left, gap / 2.0)
            if amount <= 0.0:
                return
            here = [_movable(each) for each in self._at(asked.giver) if _is_worth_it(gap, each.load)]
            now = replace(asked, amount=amount, load=self.loads[asked.receiver])
            taken = select(Strategy.HOMING, here, now, self.loads[asked.giver], self._allowance(asked.giver))
            if not taken:
                return
            self._move(taken[0].unit, asked.receiver)
            left -= taken[0].load

    def exchange(self) -> None:
        """The most loaded worker gives a fragment to the least loaded one and takes the lightest ones for it."""
        giver, receiver = (choose(self.loads, key=lambda each: self.loads[each]) for choose in (max, min))
        if CLEARLY * self.loads[receiver] >= fmean(self.loads.values()):
            return
        gap = self.loads[giver] - self.loads[receiver]
        lightest = sorted(self._at(receiver), key=lambda each: each.load)
        found = [
            (abs(gap - 2.0 * net), given, lightest[:count])
            for given in self._at(giver)
            if given.load <= self._allowance(giver)
            for count, net in enumerate(accumulate((each.load for each in lightest), sub, initial=given.load))
            if _is_worth_it(gap, net)
        ]
        if found:
            _, given, taken = min(found, key=lambda each: (each[0], len(each[2])))
            self._move(given.fragment, receiver)
            for each in taken:
                self._move(each.fragment, giver)

    def _at(self, worker: str) -> list[Running]:
        return [each for each in self._staying.values() if each.worker == worker]

    def _allowance(self, worker: str) -> float:
        return allowance(self._had[worker], self._given[worker])

    def _move(self, fragment: str, receiver: str) -> None:
        moved = self._staying.pop(fragment)
        self._given[moved.worker] += moved.load
        self.loads[moved.worker] -= moved.load
        self.loads[receiver] += moved.load
        self.moves.append(Move(fragment, moved.worker, receiver))


def _is_worth_it(gap: float, load: float) -> bool:
    """Whether two workers are clearly more alike if the more loaded one gives the other so much. A fragment that only
    changes which of them has more would be back in the next round: loads tremble, and what has moved starts cold."""
    return load > 0.0 and abs(gap - 2.0 * load) <= NEARER * gap


def _home_requests(worker: str, loads: Mapping[str, float], running: Sequence[Running]) -> list[Request[str]]:
    hosts = {each.worker for each in running if each.native == worker} - {worker}
    return home_requests(worker, loads[worker], {host: loads[host] for host in sorted(hosts)})


def _requests(worker: str, loads: Mapping[str, float]) -> list[Request[str]]:
    partners = {other: load for other, load in loads.items() if other != worker}
    asked = request(worker, loads[worker], partners, apart=APART)
    return [] if asked is None else [asked]


def _movable(running: Running) -> Movable[str, str]:
    return Movable(running.fragment, running.load, running.state, running.native)
