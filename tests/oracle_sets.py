"""DISTINCT, UNION, INTERSECT and EXCEPT: over the history that RETAIN bounds, and over one window instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tests.oracle_values import row_key
from weft.algebra import Retain, SetOperator, Value

if TYPE_CHECKING:
    from tests.oracle import Row

Values = tuple[Value, ...]


class Memory:
    """Every value that was there, with its largest clock so far: last(v)."""

    def __init__(self, retain: Retain) -> None:
        self._ticks = retain.ticks
        self._last: dict[tuple[Any, ...], int] = {}

    def remember(self, row: Row) -> None:
        value = row_key(row.values)
        self._last[value] = max(row.clock, self._last.get(value, row.clock))

    def finds(self, row: Row) -> bool:
        """A row (v, t) finds v iff t − last(v) < R; without a bound it finds every value ever seen."""
        last = self._last.get(row_key(row.values))
        return last is not None and (self._ticks is None or row.clock - last < self._ticks)


class SetMemory:
    """What a set operator over history knows: each operand's rows, and those that it has let through itself."""

    def __init__(self, operator: SetOperator, retain: Retain) -> None:
        self._operator = operator
        self._left, self._right, self._passed = Memory(retain), Memory(retain), Memory(retain)

    def take(self, left: Iterable[Row], right: Iterable[Row]) -> list[Row]:
        """The rows that the operator emits for those of one cycle."""
        left, right = in_order(left), in_order(right)
        match self._operator:
            case SetOperator.UNION:
                passed = in_order([*left, *right])
            case SetOperator.INTERSECT:
                passed = self._matches(left, right)
            case SetOperator.EXCEPT:
                passed = self._kept(left, right)
        return distinct(passed, self._passed)

    def _matches(self, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        sides = [(row, self._left, self._right) for row in left] + [(row, self._right, self._left) for row in right]
        matches = []
        for row, own, other in sorted(sides, key=lambda side: side[0].clock):
            own.remember(row)
            if other.finds(row):
                matches.append(row)
        return matches

    def _kept(self, left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
        for row in right:
            self._right.remember(row)
        return [row for row in left if not self._right.finds(row)]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order of their clocks; what came first stays first at equal clocks."""
    return sorted(rows, key=lambda row: row.clock)


def distinct(rows: Iterable[Row], memory: Memory) -> list[Row]:
    """The rows that do not find their value among those before them. The rows come in order."""
    emitted = []
    for row in rows:
        if not memory.finds(row):
            emitted.append(row)
        memory.remember(row)
    return emitted


def combine(operator: SetOperator, keep_all: bool, left: Sequence[Values], right: Sequence[Values]) -> list[Values]:
    """SQL's operator on the rows of one window instance; ALL keeps duplicates as multisets do."""
    shown = {row_key(values): values for values in [*right, *left]}
    mine, theirs = Counter(map(row_key, left)), Counter(map(row_key, right))
    match operator:
        case SetOperator.UNION:
            counts = mine + theirs
        case SetOperator.INTERSECT:
            counts = mine & theirs
        case SetOperator.EXCEPT if keep_all:
            counts = mine - theirs
        case SetOperator.EXCEPT:
            counts = Counter(mine.keys() - theirs.keys())
    return [shown[key] for key, count in counts.items() for _ in range(count if keep_all else 1)]


def unique(rows: Iterable[Values]) -> list[Values]:
    """Each value once."""
    return list({row_key(values): values for values in rows}.values())
