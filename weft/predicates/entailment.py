"""Whether one predicate set implies another, found by looking at all disjunctions together.

P implies a disjunction q iff no row satisfies P and makes q not TRUE. The literals of q that must not be TRUE are
conditions themselves (the values outside their sets, NULL included), so the question is whether a predicate set can
hold at all. Its canonical form already answers most of that: a subject without values left is a contradiction, and so
is a disjunction without literals left.

    (a < 4 OR a > 5) AND a > 4.5   and not   a > 5      →   4.5 < a <= 5, a < 4 OR a > 5   →   FALSE

What this leaves open are choices and sums. Choices are tried one by one, within a limit of effort. For each, the
inequalities among several columns are held against each other; texts and DOUBLEs take part in that through their order
alone. So `a < b AND b < c` implies `a < c` for columns of every type.

Whether **linear inequalities** can hold together is decided by Fourier and Motzkin's elimination: a variable that is
bounded from below by some sums and from above by others can go, if each of the former is held against each of the
latter. When no variable is left, what remains are statements about numbers.

All of it is sound: what it calls implied is implied. It is complete for conditions on single columns within its effort,
and for linear ones over dense numbers. It may miss what only whole numbers or products make true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import TypeAlias

from weft.predicates.clauses import (
    Disjunction,
    PredicateSet,
    disjunction_of,
    disjunction_with,
    follows_from_one,
    predicate_set,
)
from weft.predicates.domains import Place
from weft.predicates.literals import IS_NULL, Triple, alternatives, excluded, literals_of
from weft.predicates.polynomials import Monomial
from weft.predicates.terms import Order, Sum, Term, text_of

#: Coefficients by variable, in the order of the names: whole and coprime numbers, none of them zero.
Coefficients: TypeAlias = tuple[tuple[str, int], ...]

_MOST_INEQUALITIES = 1_500


@dataclass(frozen=True, slots=True)
class Inequality:
    """Σ coefficient · variable < bound, or ≤ bound unless it is strict."""

    coefficients: Coefficients
    bound: Fraction
    is_strict: bool


def inequality(coefficients: Mapping[str, int], bound: Fraction, is_strict: bool) -> Inequality:
    """An inequality with its coefficients in the one way to write them."""
    size = gcd(*coefficients.values())
    if size > 1:
        coefficients = {name: each // size for name, each in coefficients.items()}
        bound /= size
    return Inequality(tuple(sorted((name, each) for name, each in coefficients.items() if each)), bound, is_strict)


def linear_comparison(coefficients: Mapping[str, int], operator: str, bound: Fraction) -> tuple[Inequality, ...]:
    """Σ coefficient · variable `operator` bound. (`!=` is no inequality, and says nothing here.)"""
    negated = {name: -each for name, each in coefficients.items()}
    upper = (inequality(coefficients, bound, operator == "<"),) if operator in ("<", "<=", "=") else ()
    lower = (inequality(negated, -bound, operator == ">"),) if operator in (">", ">=", "=") else ()
    return upper + lower


def is_infeasible(inequalities: Iterable[Inequality]) -> bool:
    """Whether no numbers satisfy all the inequalities.

    >>> less = linear_comparison({"a": 1, "b": -1}, "<", Fraction(0))
    >>> low, high = linear_comparison({"b": 1}, "<", Fraction(1)), linear_comparison({"a": 1}, ">=", Fraction(1))
    >>> is_infeasible([*less, *low, *high])
    True
    """
    system = _tightest(inequalities)
    while system is not None and system:
        variable = _cheapest(system)
        system = _without(variable, system)
        if system is not None and len(system) > _MOST_INEQUALITIES:
            return False
    return system is None


def _tightest(inequalities: Iterable[Inequality]) -> dict[Coefficients, Inequality] | None:
    """The tightest inequality for each left side; None if one of them cannot hold."""
    best: dict[Coefficients, Inequality] = {}
    for each in inequalities:
        if not each.coefficients:
            if each.bound < 0 or (each.is_strict and each.bound == 0):
                return None
            continue
        known = best.get(each.coefficients)
        if known is None or (each.bound, not each.is_strict) < (known.bound, not known.is_strict):
            best[each.coefficients] = each
    return best


def _cheapest(system: Mapping[Coefficients, Inequality]) -> str:
    """The variable whose elimination leaves the fewest inequalities."""
    below: dict[str, int] = {}
    above: dict[str, int] = {}
    for coefficients in system:
        for name, coefficient in coefficients:
            side = above if coefficient > 0 else below
            side[name] = side.get(name, 0) + 1
    return min(sorted({*below, *above}), key=lambda name: below.get(name, 0) * above.get(name, 0))


def _without(variable: str, system: Mapping[Coefficients, Inequality]) -> dict[Coefficients, Inequality] | None:
    rest: list[Inequality] = []
    lowers: list[tuple[Inequality, int]] = []
    uppers: list[tuple[Inequality, int]] = []
    for each in system.values():
        coefficient = dict(each.coefficients).get(variable)
        if coefficient is None:
            rest.append(each)
        else:
            (uppers if coefficient > 0 else lowers).append((each, abs(coefficient)))
    combined = (_combined(low, b, high, a) for low, a in lowers for high, b in uppers)
    return _tightest([*rest, *combined])


def _combined(left: Inequality, a: int, right: Inequality, b: int) -> Inequality:
    total = {name: each * a for name, each in left.coefficients}
    for name, each in right.coefficients:
        total[name] = total.get(name, 0) + each * b
    return inequality(total, left.bound * a + right.bound * b, left.is_strict or right.is_strict)


#: How many choices are tried before the answer is "not found".
EFFORT = 128


def entails_disjunction(predicates: PredicateSet, disjunction: Disjunction, effort: int = EFFORT) -> bool:
    """Whether a disjunction is found to be TRUE wherever a set is."""
    if follows_from_one(disjunction, predicates):
        return True
    opposed = (disjunction_of(alternatives(each.subject, excluded(each))) for each in disjunction.literals)
    counterexamples = predicate_set([*predicates.disjunctions, *(each for each in opposed if each is not None)])
    return _is_impossible(counterexamples, iter(range(effort)))


def _is_impossible(predicates: PredicateSet, steps: Iterator[int]) -> bool:
    """Whether no row satisfies a set; every choice that is tried is a step."""
    if predicates.is_false or is_infeasible(_inequalities(predicates)):
        return True
    clause = _next_choice(predicates)
    if clause is None:
        return False
    rest = [each for each in predicates.disjunctions if each != clause]
    return all(
        next(steps, None) is not None and _is_impossible(predicate_set([*rest, choice]), steps)
        for choice in _choices(clause)
    )


def _next_choice(predicates: PredicateSet) -> Disjunction | None:
    """The disjunction to try the literals of: the shortest one that may tell something.

    Values that one subject cannot have are known as such already. To choose among those it can have is of use only if
    it is compared with others.
    """
    related = _related(predicates)
    open_ = []
    for each in predicates.disjunctions:
        is_split = len(each.literals) > 1 or each.literals[0].operator == "!="
        if len(each.by_subject) > 1 or (is_split and related & _variables(each.literals[0])):
            open_.append(each)
    return min(open_, key=lambda each: (len(each.by_subject) == 1, len(each.literals)), default=None)


def _related(predicates: PredicateSet) -> set[str]:
    """The variables of comparisons among several."""
    several: set[str] = set()
    for each in predicates.disjunctions:
        for literal in each.literals:
            variables = _variables(literal)
            if len(variables) > 1:
                several |= variables
    return several


def _choices(clause: Disjunction) -> Iterator[Disjunction]:
    if len(clause.literals) > 1:
        yield from (disjunction_with((literal,)) for literal in clause.literals)
        return
    (unequal,) = clause.literals
    assert unequal.bound is not None
    for operator in ("<", ">"):
        yield disjunction_with(literals_of(unequal.subject, operator, unequal.bound))


def _variables(literal: Triple) -> set[str]:
    subject = literal.subject
    if isinstance(subject, Sum):
        return {_name(monomial) for monomial, _ in subject.polynomial.terms}
    return {text_of(subject.left), text_of(subject.right)} if isinstance(subject, Order) else {subject.text}


def _name(monomial: Monomial) -> str:
    return "*".join(atom.text for atom in monomial)


def _inequalities(predicates: PredicateSet) -> list[Inequality]:
    """What the literals that must hold say as inequalities, if there are any among several variables."""
    related = _related(predicates)
    units = [each.literals[0] for each in predicates.disjunctions if len(each.literals) == 1]
    telling = [each for each in units if each.operator != IS_NULL and related & _variables(each)]
    result: list[Inequality] = []
    constants: dict[type, set[Place]] = {}
    for literal in telling:
        result.extend(_as_inequalities(literal))
        result.extend(_domain_inequalities(literal))
        if isinstance(literal.subject, Term) and literal.bound is not None:
            constants.setdefault(type(literal.bound), set()).add(literal.bound)
    for places in constants.values():
        for low, high in pairwise(sorted(places)):
            result.extend(linear_comparison(_difference(repr(low), repr(high)), "<", Fraction(0)))
    return result


def _as_inequalities(literal: Triple) -> tuple[Inequality, ...]:
    subject, bound = literal.subject, literal.bound
    if bound is None:
        return ()
    if isinstance(subject, Sum):
        assert isinstance(bound, Fraction)
        # The coefficients of a subject are whole.
        coefficients = {_name(monomial): each.numerator for monomial, each in subject.polynomial.terms}
        return linear_comparison(coefficients, literal.operator, bound)
    if isinstance(subject, Order):
        pair = _difference(text_of(subject.left), text_of(subject.right))
        return linear_comparison(pair, literal.operator, Fraction(0))
    # A constant without arithmetic is a variable of its own, which has its place among the other constants.
    return linear_comparison(_difference(subject.text, repr(bound)), literal.operator, Fraction(0))


def _difference(left: str, right: str) -> Mapping[str, int]:
    return {left: 1, right: -1}


def _domain_inequalities(literal: Triple) -> Iterator[Inequality]:
    """The ends of the domains of a sum's atoms."""
    if isinstance(literal.subject, Sum) and literal.subject.atom is None:
        for atom in sorted(literal.subject.polynomial.atoms):
            yield from linear_comparison({atom.text: 1}, ">=", atom.range[0])
            yield from linear_comparison({atom.text: 1}, "<=", atom.range[1])
