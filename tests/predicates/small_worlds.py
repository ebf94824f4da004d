"""Small worlds: columns with so few values that every row can be listed, and truth is no matter of opinion.

A condition is kept as text, for the code under test, and as the set of rows for which it is TRUE, worked out literal by
literal from SQL's definition. The set is an integer with a bit for each row, so that implication is `p & ~q == 0`.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

from tests.predicates.given import condition, stream_text
from weft.algebra import Column
from weft.algebra.types import decimal
from weft.predicates.clauses import PredicateSet
from weft.predicates.domains import Domain, Facts
from weft.predicates.normal_forms import conjunctive_form

OPERATORS: Mapping[str, Callable[[Fraction, Fraction], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
    "<>": operator.ne,
}
COLUMNS = ("a", "b", "c")
_TYPE = decimal(4, 1)


@dataclass(frozen=True)
class World:
    """Columns a, b, … with the values from `low` to `high` by `step`, and NULL."""

    low: Fraction
    high: Fraction
    step: Fraction
    columns: Sequence[str] = COLUMNS[:2]

    @cached_property
    def values(self) -> list[Fraction | None]:
        count = int((self.high - self.low) / self.step) + 1
        return [None, *(self.low + n * self.step for n in range(count))]

    @cached_property
    def rows(self) -> list[dict[str, Fraction | None]]:
        return [dict(zip(self.columns, row, strict=True)) for row in product(self.values, repeat=len(self.columns))]

    @property
    def facts(self) -> Facts:
        domain = Domain(self.low, self.high, self.step)
        return {Column("s", name, _TYPE): domain for name in self.columns}

    @property
    def everywhere(self) -> int:
        return (1 << len(self.rows)) - 1


#: Constants are whole, and there is a value between any two of them: as good as dense.
DENSE = World(Fraction(-1, 2), Fraction(9, 2), Fraction(1, 2))
DENSE_3 = World(Fraction(-1, 2), Fraction(5, 2), Fraction(1, 2), COLUMNS)
#: Whole numbers.
WHOLE = World(Fraction(0), Fraction(5), Fraction(1))


@dataclass(frozen=True)
class Known:
    """A condition: its text, and the rows for which it is TRUE."""

    text: str
    rows: int

    def __and__(self, other: Known) -> Known:
        return Known(f"({self.text} AND {other.text})", self.rows & other.rows)

    def __or__(self, other: Known) -> Known:
        return Known(f"({self.text} OR {other.text})", self.rows | other.rows)


def predicates(known: Known, world: World) -> PredicateSet:
    streams = stream_text("s", dict.fromkeys(COLUMNS, "DECIMAL(4, 1)"))
    return conjunctive_form(condition(f"{known.text} AND TRUE", "s", streams), world.facts)


def literal(pick: random.Random, world: World, is_linear: bool) -> Known:
    """A comparison of a column, or of a sum of two, with a constant; or that it is NULL, or is not."""
    name, other = pick.sample(list(world.columns), 2)
    if pick.random() < 0.08:
        is_null = pick.random() < 0.5
        return _where(world, f"{name} IS {'' if is_null else 'NOT '}NULL", lambda row: (row[name] is None) == is_null)
    op, bound = pick.choice(list(OPERATORS)), Fraction(pick.randint(0, 4))
    if not is_linear or pick.random() < 0.5:
        return _comparison(world, {name: 1}, op, bound)
    if pick.random() < 0.5:
        return _comparison(world, {name: 1, other: -1}, op, Fraction(pick.randint(-1, 1)))
    return _comparison(world, {name: pick.choice((1, 2)), other: pick.choice((1, -1))}, op, bound)


def _comparison(world: World, factors: Mapping[str, int], op: str, bound: Fraction) -> Known:
    text = " + ".join(f"{factor}*{name}" if factor != 1 else name for name, factor in factors.items())

    def holds(row: Mapping[str, Fraction | None]) -> bool:
        terms = [(row[name], factor) for name, factor in factors.items()]
        known = [value * factor for value, factor in terms if value is not None]
        return len(known) == len(terms) and OPERATORS[op](sum(known, Fraction(0)), bound)

    return _where(world, f"{text} {op} {bound}", holds)


def _where(world: World, text: str, holds: Callable[[Mapping[str, Fraction | None]], bool]) -> Known:
    return Known(text, sum(1 << n for n, row in enumerate(world.rows) if holds(row)))


def conjunction_of_disjunctions(pick: random.Random, world: World, is_linear: bool, most: int = 3) -> Known:
    """One to three disjunctions of one or two literals; now and then a conjunction inside a disjunction."""
    result: Known | None = None
    for _ in range(pick.randint(1, most)):
        clause = literal(pick, world, is_linear)
        if pick.random() < 0.5:
            other = literal(pick, world, is_linear)
            clause = clause | (other & literal(pick, world, is_linear) if pick.random() < 0.2 else other)
        result = clause if result is None else result & clause
    assert result is not None
    return result
