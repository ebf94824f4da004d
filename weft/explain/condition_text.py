"""Conditions of nodes as people write them: over the names of streams, with times as times.

    T1.amount - 2*T2.amount < 0          transfers1.amount < 2*transfers2.amount
    T1.day - T2.day >= -1728000000000    transfers2.day <= transfers1.day + INTERVAL 20 DAYS
    T1.k = 1 OR T1.k = 3                 k IN (1, 3)                                        one leg needs no name

Texts of predicates are keys, and stay what they are; these are for reading alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from weft.algebra import Call, Column, DataType, Expression, Literal
from weft.algebra.types import BIGINT, BOOLEAN, DATE, INTERVAL, TIMESTAMP
from weft.explain.query_text import clock_text, duration_text, expression_text
from weft.plan.canonical import substituted
from weft.plan.network import CLOCK
from weft.predicates.clauses import Disjunction
from weft.predicates.domains import DAY, is_in_calendar
from weft.predicates.literals import MIRRORED, Triple, bound_text
from weft.predicates.subjects import Monomial, Order, Subject, Sum, number_text
from weft.predicates.terms import Term, columns_of


@dataclass(frozen=True, slots=True)
class Leg:
    """A leg of a node: what people call it, and the type of its clock. The only leg of a node needs no name."""

    name: str
    clock: DataType


def named_legs(logs: Sequence[Leg]) -> tuple[Leg, ...]:
    """The legs of a node, such that each has a name of its own: numbered where a log is there more than once."""
    if len(logs) == 1:
        return (replace(logs[0], name=""),)
    count = Counter(each.name for each in logs)
    seen: Counter[str] = Counter()
    legs = []
    for each in logs:
        seen[each.name] += 1
        between = "#" if f"{each.name}{seen[each.name]}" in count else ""
        numbered = replace(each, name=f"{each.name}{between}{seen[each.name]}")
        legs.append(numbered if count[each.name] > 1 else each)
    return tuple(legs)


def column_text(leg: Leg, name: str) -> str:
    shown = "clock" if name == CLOCK else name
    return f"{leg.name}.{shown}" if leg.name else shown


def disjunction_text(disjunction: Disjunction, legs: Sequence[Leg]) -> str:
    """One condition, whose inputs T1, T2 and so on are these legs: one literal, or several joined by OR."""
    literals = disjunction.literals
    if not literals:
        return "FALSE"
    first = literals[0]
    is_list = len(literals) > 1 and all(each.operator == "=" and each.subject == first.subject for each in literals)
    if is_list and not isinstance(first.subject, Order):
        ordered = sorted(literals, key=lambda each: each.bound)  # type: ignore[arg-type, return-value]
        values = ", ".join(_value(each.subject, each.bound, legs) for each in ordered)
        return f"{_subject(first.subject, legs)} IN ({values})"
    return " OR ".join(_literal(each, legs) for each in literals)


def _literal(literal: Triple, legs: Sequence[Leg]) -> str:
    subject, operator, bound = literal.subject, literal.operator, literal.bound
    if bound is None:
        return f"{_subject(subject, legs)} {operator}"
    if isinstance(subject, Order):
        left, right = (_expression(term.expression, legs) for term in subject.terms)
        return f"{left} {operator} {right}"
    if isinstance(subject, Term) and subject.expression.type == BOOLEAN:
        is_wanted = bool(bound) == (operator == "=")
        return f"{'' if is_wanted else 'NOT '}{_subject(subject, legs)}"
    if isinstance(subject, Sum):
        assert isinstance(bound, Fraction)
        return _comparison(subject, operator, bound, legs)
    return f"{_subject(subject, legs)} {operator} {_value(subject, bound, legs)}"


def _comparison(subject: Sum, operator: str, bound: Fraction, legs: Sequence[Leg]) -> str:
    """A sum and a number, with what is subtracted on the other side, and the number on the right."""
    terms = subject.polynomial.terms
    left, right = _side([each for each in terms if each[1] > 0], legs), _side([t for t in terms if t[1] < 0], legs)
    constant = _distance(subject, abs(bound), legs)
    if not right:
        return f"{left} {operator} {'-' * (bound < 0)}{constant}"
    if bound < 0:
        left, right, operator = right, left, MIRRORED[operator]
    return f"{left} {operator} {right}{f' + {constant}' if bound else ''}"


def _side(terms: Sequence[tuple[Monomial, Fraction]], legs: Sequence[Leg]) -> str:
    texts = []
    for monomial, coefficient in terms:
        factors = [] if abs(coefficient) == 1 else [number_text(abs(coefficient))]
        texts.append("*".join([*factors, *(_subject(term, legs) for term in monomial)]))
    return " + ".join(texts)


def _distance(subject: Sum, value: Fraction, legs: Sequence[Leg]) -> str:
    """A number beside a sum: a length of time if times are subtracted from each other."""
    monomials = [monomial for monomial, _ in subject.polynomial.terms]
    if value.denominator == 1 and all(len(each) == 1 for each in monomials):
        units = {_unit(each[0].expression, legs) for each in monomials}
        if units <= {1, DAY} and len(units) == 1:
            (unit,) = units
            return f"INTERVAL {duration_text(int(value) * int(unit or 1), TIMESTAMP)}"
    return number_text(value)


def _unit(term: Expression, legs: Sequence[Leg]) -> int | None:
    """How many microseconds one unit of a term is; None if it is no time."""
    if term.type in (TIMESTAMP, INTERVAL):
        return 1
    if term.type == DATE:
        return DAY
    if isinstance(term, Column) and term.name == CLOCK:
        return 1 if _leg(term, legs).clock == TIMESTAMP else None
    instant = _instant(term)
    if instant is not None:
        return _unit(instant[0], legs)
    return 1 if isinstance(term, Call) and term.op == "unix_micros" else None


def _value(subject: Subject, bound: object, legs: Sequence[Leg]) -> str:
    """A constant beside a subject that is one term."""
    if isinstance(subject, Term) and isinstance(bound, Fraction):
        term = subject.expression
        if term.type == INTERVAL:
            return f"INTERVAL {duration_text(int(bound), TIMESTAMP)}"
        if term.type == BIGINT and _unit(term, legs) == 1 and is_in_calendar(bound):
            return f"TIMESTAMP '{clock_text(int(bound), TIMESTAMP)}'"
    return bound_text(subject, bound)  # type: ignore[arg-type]


def _subject(subject: Subject, legs: Sequence[Leg]) -> str:
    if isinstance(subject, Sum):
        return _side(subject.polynomial.terms, legs)
    if isinstance(subject, Order):
        return f"({', '.join(_expression(term.expression, legs) for term in subject.terms)})"
    instant = _instant(subject.expression) if subject.is_exact else None
    if instant is None:
        return _expression(subject.expression, legs)
    clock, slide = instant
    every = duration_text(slide, TIMESTAMP if _unit(clock, legs) == 1 else BIGINT)
    return f"instant({_expression(_plain_clock(clock), legs)}, every {every})"


def _expression(expression: Expression, legs: Sequence[Leg]) -> str:
    called: dict[Expression, Expression] = {
        each: Column("", column_text(_leg(each, legs), each.name), each.type) for each in columns_of(expression)
    }
    return expression_text(substituted(expression, called))


def _leg(column: Column, legs: Sequence[Leg]) -> Leg:
    return legs[int(column.source[1:]) - 1]


def _instant(term: Expression) -> tuple[Expression, int] | None:
    """The clock and the slide of `t + pmod(origin - t, slide)`, the first instant of a sliding window at or after t."""
    if not (isinstance(term, Call) and term.op == "+" and len(term.args) == 2):
        return None
    for clock, rest in (term.args, term.args[::-1]):
        slide = rest.args[1] if isinstance(rest, Call) and rest.op == "%" else None
        if isinstance(slide, Literal) and isinstance(slide.value, int) and isinstance(_plain_clock(clock), Column):
            return clock, slide.value
    return None


def _plain_clock(term: Expression) -> Expression:
    return term.args[0] if isinstance(term, Call) and term.op == "unix_micros" else term
