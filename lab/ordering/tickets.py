"""Tickets: who gets a row first when several operators want it, learned from what they give back.

An operator gains a ticket for each row that it takes and loses one for each that it returns. Who throws most away holds
most tickets, and wins most of the lotteries for the next rows. Who is slow has no room for more, and does not take
part: back-pressure. Together they find out who is quick *and* selective, without anybody measuring a time.

    held ∝ rows · (1 − selectivity)              what the lottery follows
    who takes part ∝ rows per second             what back-pressure follows

Operators that return as many rows as they take, or more, hold no tickets, and then room alone decides.

What was learned long ago counts less: after each `window` rows all tickets are halved, so that a change of the data is
followed within a few windows. And a small share of rows, `exploration`, goes to anybody who has room, because who loses
every lottery would never be seen to have become better. Both are ours; the scheme of eddies is the rest.

The ledger knows neither tuples nor queues. An engine, which has cycles and no queues, gives tickets to whole orders
instead: `weft/optimizer/network/redeciding.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random


@dataclass(frozen=True, slots=True)
class Lottery:
    """How quickly to forget, and how much to try."""

    window: int = 1_000
    exploration: float = 0.02

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"a window of {self.window} rows: at least one row has to pass before tickets are halved")
        if not 0 <= self.exploration < 1:
            raise ValueError(f"exploration is a share of all rows, from 0 to less than 1, not {self.exploration}")


class Why(Enum):
    """What decided."""

    TICKETS = "tickets"
    PRESSURE = "back-pressure"
    EXPLORATION = "exploration"


@dataclass(slots=True)
class FederationLedger:
    """The tickets of some operators that vie for the same rows."""

    lottery: Lottery
    held: list[float]
    _until_halved: int = field(init=False)

    def __post_init__(self) -> None:
        self._until_halved = self.lottery.window

    @classmethod
    def of(cls, operators: int, lottery: Lottery) -> FederationLedger:
        return cls(lottery, [0.0] * operators)

    def route(self, operator: int, rows: int = 1) -> None:
        """Rows go to an operator."""
        self.held[operator] += rows
        self._until_halved -= rows
        while self._until_halved <= 0:
            self.held = [tickets / 2 for tickets in self.held]
            self._until_halved += self.lottery.window

    def give_back(self, operator: int, rows: int = 1) -> None:
        """Rows come back from an operator, or as many virtual ones from the far end of a wire."""
        self.held[operator] -= rows

    def draw(self, offered: Sequence[int], room: Sequence[int], random: Random) -> tuple[int, Why]:
        """Who of the offered operators gets the next row; all of them have room, some more than others."""
        if len(offered) == 1:
            return offered[0], Why.PRESSURE
        if random.random() < self.lottery.exploration:
            return offered[random.randrange(len(offered))], Why.EXPLORATION
        winning = [tickets if (tickets := self.held[operator]) > 0 else 0.0 for operator in offered]
        total = sum(winning)
        if total > 0:
            drawn = random.random() * total
            for operator, tickets in zip(offered, winning, strict=True):
                drawn -= tickets
                if drawn < 0:
                    return operator, Why.TICKETS
        most = max(room)
        emptiest = [operator for operator, free in zip(offered, room, strict=True) if free == most]
        return emptiest[random.randrange(len(emptiest))], Why.PRESSURE
