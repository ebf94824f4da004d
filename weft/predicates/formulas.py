"""Conditions as formulas without NOT.

SQL's logic has three values, but a WHERE asks one question: is it TRUE? NOT is pushed down to the comparisons first,
which is exact: `NOT a < b` is `a >= b`, NULL where that is NULL, and De Morgan's laws hold for three values as for two.
Without NOT, AND is TRUE iff all its parts are and OR iff some part is, so that from here on a condition is the set of
rows for which it is TRUE, and two-valued logic is right again. What is NULL and what is FALSE are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from weft.algebra import Call, Expression, Literal
from weft.algebra.types import BOOLEAN
from weft.predicates.comparisons import comparison
from weft.predicates.domains import Facts
from weft.predicates.literals import NEGATED, Triple, literals_of, null_test
from weft.predicates.subjects import subject_of, term_of


@dataclass(frozen=True, slots=True)
class All:
    """TRUE where all parts are."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """TRUE where some part is. `whole` is the same as one literal that is not taken apart."""

    parts: tuple[Formula, ...]
    whole: Triple | None = None


Formula: TypeAlias = Triple | All | Some

TRUE = All(())
FALSE = Some(())


def formula_of(condition: Expression, facts: Facts, is_wanted: bool = True) -> Formula:
    """Where a condition is TRUE; with `is_wanted` False, where it is FALSE."""
    if isinstance(condition, Literal):
        return TRUE if condition.value is is_wanted else FALSE
    if isinstance(condition, Call):
        if condition.op == "not":
            return formula_of(condition.args[0], facts, not is_wanted)
        if condition.op in ("and", "or"):
            parts = tuple(formula_of(arg, facts, is_wanted) for arg in condition.args)
            return All(parts) if (condition.op == "and") == is_wanted else Some(parts, whole(condition, is_wanted))
        rule = _comparison if condition.op in NEGATED else _RULES.get(condition.op)
        if rule is not None:
            return rule(condition, facts, is_wanted)
    return whole(condition, is_wanted)


def whole(condition: Expression, is_wanted: bool) -> Triple:
    """A condition as one literal that is not taken apart."""
    (literal,) = literals_of(term_of(condition), "=", Fraction(is_wanted))
    return literal


def _comparison(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    left, right = call.args
    if call.op in ("=", "!=") and left.type == BOOLEAN:
        for truth, other in ((left, right), (right, left)):
            if isinstance(truth, Literal) and truth.value is not None:
                return formula_of(other, facts, is_wanted == (bool(truth.value) == (call.op == "=")))
    return _compared(call.op if is_wanted else NEGATED[call.op], left, right, facts)


def _compared(operator: str, left: Expression, right: Expression, facts: Facts) -> Formula:
    found = comparison(operator, left, right, facts)
    return FALSE if found is None else All(found)


def _in(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    value, *options = call.args
    parts = tuple(_compared("=" if is_wanted else "!=", value, option, facts) for option in options)
    return Some(parts, whole(call, is_wanted)) if is_wanted else All(parts)


def _is_null(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    value = call.args[0]
    if isinstance(value, Literal):
        return TRUE if (value.value is None) == is_wanted else FALSE
    subject = subject_of(value, facts)
    if not subject.domain.nullable:
        return FALSE if is_wanted else TRUE
    return null_test(subject, is_null=is_wanted)


def _same(call: Call, facts: Facts, is_wanted: bool) -> Formula:
    """`a <=> b`: both are equal, or both are NULL. It is never NULL itself."""
    left, right = call.args
    for truth, other in ((left, right), (right, left)):
        if is_wanted and isinstance(truth, Literal) and isinstance(truth.value, bool):
            return formula_of(other, facts, truth.value)
    nulls = [_is_null(Call("is_null", (side,), BOOLEAN), facts, True) for side in call.args]
    entire = whole(call, is_wanted)
    if is_wanted:
        return Some((_compared("=", left, right, facts), All(tuple(nulls))), entire)
    values = [_is_null(Call("is_null", (side,), BOOLEAN), facts, False) for side in call.args]
    differ = _compared("!=", left, right, facts)
    return All((Some((differ, *nulls), entire), Some((differ, *values), entire)))


_RULES = {"in": _in, "is_null": _is_null, "<=>": _same}
