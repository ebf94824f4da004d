"""How many rows logs and nodes have: measured, expected by what is measured, or supposed.

Everything is a whole number or a Fraction: two plans that cost the same must cost exactly the same, whatever the order
in which they were looked at.

What is measured is counted in every cycle, smoothed, and known by the nearest power of two, a step, which it leaves
when it has doubled or halved (`docs/sharing.md`, "While it runs"). Planning sees the steps alone.

Shares are of combinations of rows of logs. What is known of a join's conditions is what was seen among the pairs that
it looked at, and how many these were; together they say how many rows the join gives, however its conditions hang
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import ceil, ldexp, prod
from typing import TypeVar

from weft.algebra import Column
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.wanted import leg_name, legs_read
from weft.plan.facts import octave
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple
from weft.predicates.operations import Renaming

Item = TypeVar("Item")

#: The rows of a log of which nothing is known.
ROWS = 100_000
#: The distinct values of a column of which nothing is known.
DISTINCT = 1_000

#: The share of rows that pass a comparison of which nothing is known.
_KEPT = {
    "=": Fraction(1, 10),
    "!=": Fraction(9, 10),
    IS_NULL: Fraction(1, 20),
    IS_NOT_NULL: Fraction(19, 20),
    **dict.fromkeys(("<", "<=", ">", ">="), Fraction(1, 3)),
}

#: A selection below a join is a node of its own if it keeps no larger a share of its rows than this. A selection that
#: keeps most of them is checked by the join: to hand on that many rows once more would cost more than it saves.
MATERIALISED_SHARE = Fraction(3, 10)


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
    """What is known: its kind, the logs that it is about, and the condition, the column, the node or the join.

    A condition is given by its text over T1, T2 and so on, the logs in their order.
    """

    kind: SizeKind
    logs: tuple[str, ...]
    of: str = ""


def share_known(condition: Disjunction, logs: Sequence[str], legs: Sequence[int], renaming: Renaming) -> SizeKey:
    """The key of the share of rows, or of combinations of rows of several legs, that satisfy a condition."""
    by_place = _by_place(condition, logs, legs, renaming)
    return SizeKey(SizeKind.SHARE, tuple(logs[leg] for leg in legs), by_place.text)


def _by_place(condition: Disjunction, logs: Sequence[str], legs: Sequence[int], renaming: Renaming) -> Disjunction:
    """A condition whose legs, of these logs, are called by their places among those given."""
    names = sorted((logs[leg], leg_name(leg), leg_name(place)) for place, leg in enumerate(legs))
    return renaming.renamed(condition, tuple(names))


class SizeStatistics:
    """What is known of sizes: nothing, unless a subclass knows more."""

    def step(self, _known: SizeKey) -> Fraction | None:
        """The number that plans use."""
        return None

    def node_rows(self, _node: int) -> int | None:
        """How many rows a node has given and are kept."""
        return None

    def rows(self, log: str) -> int | None:
        """How many rows of a log are kept."""
        step = self.step(SizeKey(SizeKind.ROWS, (log,)))
        return None if step is None else ceil(step)


NOTHING_KNOWN = SizeStatistics()


def passing(rows: int, shares: Iterable[Fraction]) -> int:
    """How many of some rows pass several conditions, rounded up: a plan that gives nothing at all is never sure."""
    listed = tuple(shares)
    # The parts apart from each other: to shorten the fraction after every step would take most of the time.
    numerator, denominator = rows * prod(each.numerator for each in listed), prod(each.denominator for each in listed)
    return -(-numerator // denominator)


class Estimates:
    """Sizes of the nodes of a network: measured ones where there are any, expected ones otherwise."""

    def __init__(self, nodes: Nodes, statistics: SizeStatistics, renaming: Renaming) -> None:
        self.nodes, self.renaming, self._statistics = nodes, renaming, statistics
        #: What nodes are expected to have by what is known now; None as long as that is what was known all the time.
        self._expected: dict[int, int] | None = None

    def reset(self) -> None:
        """Forget what was expected of nodes when they were made: other things are known now."""
        self._expected = {}

    def log_rows(self, log: str) -> int:
        """How many rows a log has, or is taken to have."""
        known = self._statistics.rows(log)
        return ROWS if known is None else known

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected."""
        measured = self._statistics.node_rows(number)
        if measured is not None:
            return measured
        entry = self.nodes[number]
        if not entry.parents:
            return self.log_rows(entry.legs[0])
        if self._expected is None:
            return entry.rows
        if number not in self._expected:
            self._expected[number] = self.satisfying(entry.demands, *(entry.join_anchors or (entry.anchor,)))
        return self._expected[number]

    def satisfying(self, predicates: PredicateSet, *anchors: int) -> int:
        """How many of an anchor's rows, or pairs of rows of two, satisfy some conditions."""
        return passing(prod(map(self.rows, anchors)), self.shares(predicates, *anchors))

    def is_worth_a_node(self, anchor: int, predicates: PredicateSet) -> bool:
        """Whether a selection below a join keeps so few rows that it should be computed apart from the join."""
        return prod(self.shares(predicates, anchor), start=Fraction(1)) <= MATERIALISED_SHARE

    def shares(self, predicates: PredicateSet, *anchors: int) -> list[Fraction]:
        """The share of an anchor's rows, or of pairs of rows of two, that satisfy each condition."""
        legs = [log for anchor in anchors for log in self.nodes[anchor].legs]
        return [self.share(each, legs) for each in predicates.disjunctions]

    def share(self, disjunction: Disjunction, legs: Sequence[str]) -> Fraction:
        """The share of combinations of rows of some legs' logs that satisfy a condition on some of them.

        Where it has not been measured, literals of a disjunction are taken to be independent of each other.
        """
        read = legs_read(disjunction)
        logs, by_place = tuple(legs[leg] for leg in read), _by_place(disjunction, legs, read, self.renaming)
        measured = self._statistics.step(SizeKey(SizeKind.SHARE, logs, by_place.text))
        if measured is not None:
            return measured
        names = {leg_name(leg): log for leg, log in enumerate(logs)}
        return 1 - prod((1 - self._literal_share(each, names) for each in by_place.literals), start=Fraction(1))

    def _literal_share(self, literal: Triple, logs: Mapping[str, str]) -> Fraction:
        across = len(literal.subject.sources) > 1
        if literal.operator != "=" and not (across and literal.operator == "!="):
            return _KEPT[literal.operator]
        columns = [each.expression for each in literal.subject.terms if isinstance(each.expression, Column)]
        steps = [self._statistics.step(SizeKey(SizeKind.VALUES, (logs[each.source],), each.name)) for each in columns]
        if across:
            equal = Fraction(1, max((DISTINCT if each is None else ceil(each) for each in steps), default=DISTINCT))
            return equal if literal.operator == "=" else 1 - equal
        known = [ceil(each) for each in steps if each is not None]
        return Fraction(1, max(known)) if known else _KEPT["="]


#: The weight of what was counted before when something new is counted; as long as fewer than `ENOUGH` were counted,
#: since of what is rare it takes longer to know how rare; and if a cycle sees `CONTRADICTION` times as much, or as
#: little: the data have changed, or a burst has come, and from that the next cycle leads back as quickly.
REMEMBERED, REMEMBERED_IF_RARE, REMEMBERED_IF_CONTRADICTED = 0.75, 0.9375, 0.0625
CONTRADICTION = 4
#: A share of fewer than this many is not known.
ENOUGH = 16
#: How many numbers are kept.
MOST = 8_192


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


class MeasuredSizes(SizeStatistics):
    """What has been seen so far."""

    def __init__(self) -> None:
        #: What was seen last comes last.
        self._numbers: dict[SizeKey, _Number] = {}
        self._moved: dict[SizeKey, int | None] = {}
        #: How often it was asked what has moved.
        self.rounds = 0
        #: The nodes of the network by the planner's numbers: what is known of them.
        self.nodes: Mapping[int, SizeKey] = {}

    def see(self, known: SizeKey, part: float, whole: float = 1) -> None:
        """Count a part of a whole, for a share; or take a number as it is in this cycle."""
        number = self._renewed(known)
        remembered = _remembered(number, part, whole) if known.kind in _SHARES else REMEMBERED
        number.part, number.whole = number.part * remembered + part, number.whole * remembered + whole
        self._step(known, number)

    def derive(self, known: SizeKey, value: float) -> None:
        """Takes a share that follows from others that are smoothed already."""
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
            del self._numbers[next(iter(self._numbers))]
        return number

    def _step(self, known: SizeKey, number: _Number) -> None:
        value = number.value(known)
        if not value:
            return
        before, number.step = number.step, stepped(number.step, value)
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

    def __iter__(self) -> Iterator[SizeKey]:
        """All that something is known of, what was seen last at the end."""
        return iter(self._numbers)

    def value(self, known: SizeKey) -> float | None:
        """What was measured, smoothed."""
        return self._numbers[known].value(known) if known in self._numbers else None

    def step(self, known: SizeKey) -> Fraction | None:
        """The power of two nearest to the number."""
        step = self._step_of(known)
        return None if step is None else Fraction(2) ** step

    def is_news(self, known: SizeKey, since: int) -> bool:
        """Whether a number is known, and was not before a round."""
        number = self._numbers.get(known)
        return number is not None and number.step is not None and number.known_since >= since

    def _step_of(self, known: SizeKey) -> int | None:
        return self._numbers[known].step if known in self._numbers else None

    def node_rows(self, node: int) -> int | None:
        known = self.nodes.get(node)
        share = None if known is None else self.step(known)
        if known is None or share is None:
            return None
        rows = [each for log in known.logs if (each := self.rows(log)) is not None]
        return ceil(prod(rows, start=share)) if len(rows) == len(known.logs) else None


def _remembered(number: _Number, part: float, whole: float) -> float:
    """What was counted of a share before counts for so much, given what is counted now."""
    expected = number.part / number.whole * whole if number.whole else part
    fewer, more = sorted((expected, part))
    if more >= ENOUGH and more > CONTRADICTION * fewer:
        return REMEMBERED_IF_CONTRADICTED
    return REMEMBERED_IF_RARE if number.part < ENOUGH else REMEMBERED


def stepped(before: int | None, measured: float | Fraction) -> int:
    """The exponent of the power of two that a positive number is known by, which is left only for good.

    >>> [stepped(None, number) for number in (1, 2, 3, 5, 6, 8)], [stepped(2, number) for number in (2, 3, 7, 8)]
    ([0, 1, 2, 2, 3, 3], [1, 2, 2, 3])
    """
    if before is not None and ldexp(1.0, before - 1) < measured < ldexp(1.0, before + 1):
        return before
    exact = Fraction(measured)
    below = octave(exact)
    # The nearest by ratio: beyond the geometric mean of two powers, the upper one is nearer.
    return below + (exact**2 > Fraction(2) ** (2 * below + 1))


def in_turn(items: Sequence[Item], cycle: int, most: int) -> Sequence[Item]:
    """The items whose turn it is, if there are more than `most`."""
    first = cycle * most % len(items) if len(items) > most else 0
    return [*items[first:], *items[:first]][:most]
