"""Statistics of a network that runs: counts of every cycle, smoothed, and known in steps.

    counted      so many of so many: rows that satisfy a condition, pairs that a join looked at
    smoothed     what came before counts for three quarters with every cycle in which there is something to count, and
                 for more as long as little has been counted; a cycle that contradicts it flatly makes it count for
                 hardly anything
    in steps     the nearest power of two; a step is left when what is measured has doubled, or is half as much

A plan that followed every mood of the data would be drawn up anew all the time. Between the smoothing and the steps, a
number that swings by less than a factor of two around its mean leaves its step once or never, and one that has changed
for good is known in a few cycles, however much it has changed. Planning sees the steps alone: whole numbers and
Fractions, as it must.

Shares are of combinations of rows of logs. What is known of a join's conditions is what was seen among the pairs that
it looked at, and how many these were; together they say how many rows the join gives, however its conditions hang
together. How many there are of them is bounded: what has not been seen for longest is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import ceil, ldexp, prod
from typing import TypeVar

from weft.optimizer.network.node_predicates import Renaming
from weft.plan.facts import octave
from weft.predicates.clauses import Disjunction

Item = TypeVar("Item")

#: What was counted before counts for so much when something new is.
REMEMBERED = 0.75
#: And for so much as long as fewer than `ENOUGH` have been counted: of what is rare it takes longer to know how rare.
REMEMBERED_IF_RARE = 0.9375
#: And for so much if a cycle sees so many times as much, or as little: the data have changed, or a burst has come, and
#: from that the next cycle leads back as quickly.
REMEMBERED_IF_CONTRADICTED, CONTRADICTION = 0.0625, 4
#: A share of fewer than so many says nothing.
ENOUGH = 16
#: So many numbers are kept.
MOST = 8_192


class SizeKind(Enum):
    """What a number is about."""

    #: Rows of a log that are kept, and rows that arrive in a cycle.
    ROWS = "rows"
    NEW = "new"
    #: The share of rows of a log, or of combinations of rows of several, that satisfy a condition.
    SHARE = "share"
    #: Values of a column.
    VALUES = "values"
    #: The share of combinations that are in a node, by what the node computes; that a join looked at, and that its
    #: left and its right side gave it.
    NODE = "node"
    LOOKED_AT = "looked at"
    LEFT = "left"
    RIGHT = "right"


#: Kinds that are shares, of 1 at most.
_SHARES = frozenset({SizeKind.SHARE, SizeKind.NODE, SizeKind.LOOKED_AT, SizeKind.LEFT, SizeKind.RIGHT})


@dataclass(frozen=True, slots=True)
class SizeKey:
    """What is known: its kind, the logs that it is about, and the condition, the column, the node or the join."""

    kind: SizeKind
    logs: tuple[str, ...]
    of: str = ""


def share_known(condition: Disjunction, logs: Sequence[str], legs: Sequence[int], renaming: Renaming) -> SizeKey:
    """What the share goes by of rows, or of combinations of rows of several legs, that satisfy a condition."""
    return SizeKey(SizeKind.SHARE, tuple(logs[leg] for leg in legs), renaming.by_place(condition, logs, legs).text)


@dataclass(slots=True)
class _Number:
    part: float = 0.0
    whole: float = 0.0
    step: int | None = None
    #: The round in which it first had a step.
    known_since: int = 0

    def value(self, known: SizeKey) -> float | None:
        """The smoothed number; a share is never taken to be nothing, only less than could be seen."""
        if known.kind not in _SHARES:
            return self.part / self.whole
        if self.whole < ENOUGH:
            return None
        return min(1.0, (self.part + 0.5) / (self.whole + 1))


class MeasuredSizes:
    """What has been seen so far, as the `Statistics` that plans are made by."""

    def __init__(self) -> None:
        #: What was seen last comes last.
        self._numbers: dict[SizeKey, _Number] = {}
        self._moved: dict[SizeKey, int | None] = {}
        #: How often it was asked what has moved.
        self.rounds = 0
        #: The nodes of the network by the planner's numbers: what is known of them.
        self.nodes: Mapping[int, SizeKey] = {}

    # -- seeing -------------------------------------------------------------------------------------------------------

    def see(self, known: SizeKey, part: float, whole: float = 1) -> None:
        """Count so many of so many, for a share; or a number as it is in this cycle."""
        number = self._renewed(known)
        remembered = _remembered(number, part, whole) if known.kind in _SHARES else REMEMBERED
        number.part = number.part * remembered + part
        number.whole = number.whole * remembered + whole
        self._step(known, number)

    def derive(self, known: SizeKey, value: float) -> None:
        """Take a share that follows from others that are smoothed already."""
        number = self._renewed(known)
        number.part, number.whole = value * (ENOUGH + 1) - 0.5, ENOUGH
        self._step(known, number)

    def forget(self, known: SizeKey) -> None:
        """What was counted is not what will be counted from now on."""
        self._numbers.pop(known, None)

    def _renewed(self, known: SizeKey) -> _Number:
        number = self._numbers.pop(known, None) or _Number()
        self._numbers[known] = number
        if len(self._numbers) > MOST:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
        return number

    def _step(self, known: SizeKey, number: _Number) -> None:
        value = number.value(known)
        if not value:
            return
        before = number.step
        if before is not None and ldexp(1.0, before - 1) < value < ldexp(1.0, before + 1):
            # As `stepped` has it, which takes longer to say so; and most numbers stay where they are.
            return
        number.step = stepped(before, Fraction(value))
        if before is None:
            number.known_since = self.rounds
        if number.step != before:
            self._moved.setdefault(known, before)

    def restore(self, values: Mapping[SizeKey, float]) -> None:
        """Take up what was known when the network last ran; a first cycle soon counts for as much."""
        for known, value in values.items():
            if known.kind in _SHARES:
                self.derive(known, value)
            else:
                self.see(known, value)

    def take_moved(self) -> dict[SizeKey, int | None]:
        """What has changed its step since this was last asked, and the step that it had then."""
        moved, self._moved = self._moved, {}
        self.rounds += 1
        return {known: before for known, before in moved.items() if self._step_of(known) != before}

    # -- knowing ------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SizeKey]:
        """All that something is known of, what was seen last at the end."""
        return iter(self._numbers)

    def value(self, known: SizeKey) -> float | None:
        """What was measured, smoothed."""
        number = self._numbers.get(known)
        return None if number is None else number.value(known)

    def step(self, known: SizeKey) -> Fraction | None:
        """What plans go by: the power of two that a number is known by."""
        step = self._step_of(known)
        return None if step is None else Fraction(2) ** step

    def is_news(self, known: SizeKey, since: int) -> bool:
        """Whether a number is known, and was not before a round."""
        number = self._numbers.get(known)
        return number is not None and number.step is not None and number.known_since >= since

    def _step_of(self, known: SizeKey) -> int | None:
        number = self._numbers.get(known)
        return None if number is None else number.step

    def rows(self, log: str) -> int | None:
        return _whole(self.step(SizeKey(SizeKind.ROWS, (log,))))

    def distinct(self, log: str, column: str) -> int | None:
        return _whole(self.step(SizeKey(SizeKind.VALUES, (log,), column)))

    def kept(self, logs: tuple[str, ...], condition: str) -> Fraction | None:
        return self.step(SizeKey(SizeKind.SHARE, logs, condition))

    def node_rows(self, node: int) -> int | None:
        known = self.nodes.get(node)
        share = None if known is None else self.step(known)
        if known is None or share is None:
            return None
        logs = [self.rows(log) for log in known.logs]
        return ceil(prod((rows for rows in logs if rows is not None), start=share)) if None not in logs else None


def _remembered(number: _Number, part: float, whole: float) -> float:
    """What was counted of a share before counts for so much, given what is counted now."""
    expected = number.part / number.whole * whole if number.whole else part
    fewer, more = sorted((expected, part))
    if more >= ENOUGH and more > CONTRADICTION * fewer:
        return REMEMBERED_IF_CONTRADICTED
    return REMEMBERED_IF_RARE if number.part < ENOUGH else REMEMBERED


def stepped(before: int | None, measured: Fraction) -> int:
    """The exponent of the power of two that a positive number is known by, which is left only for good.

    >>> [stepped(None, Fraction(number)) for number in (1, 2, 3, 5, 6, 8)]
    [0, 1, 2, 2, 3, 3]
    >>> [stepped(2, Fraction(number)) for number in (2, 3, 7, 8)]
    [1, 2, 2, 3]
    """
    if before is not None and Fraction(2) ** (before - 1) < measured < Fraction(2) ** (before + 1):
        return before
    below = octave(measured)
    # The nearest by ratio: beyond the geometric mean of two powers, the upper one is nearer.
    return below + (measured**2 > Fraction(2) ** (2 * below + 1))


def in_turn(items: Sequence[Item], cycle: int, most: int) -> Sequence[Item]:
    """Those items whose turn it is, if there are more than so many."""
    first = cycle * most % len(items) if len(items) > most else 0
    return [*items[first:], *items[:first]][:most]


def _whole(number: Fraction | None) -> int | None:
    return None if number is None else ceil(number)
