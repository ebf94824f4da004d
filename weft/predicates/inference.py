"""What follows from a predicate set, looking at all its disjunctions together: others, and selections from joins.

**Entailment.** P implies a disjunction q iff no row satisfies P and makes q not TRUE. The literals of q that must not
be TRUE are conditions themselves, so the question is whether a predicate set can hold at all. Its canonical form
answers most of that. What it leaves open are choices, which are tried one by one within a limit of effort, and the
inequalities among several columns, which Fourier and Motzkin's elimination decides; texts and DOUBLEs take part in
that through their order alone:

    (a < 4 OR a > 5) AND a > 4.5   and not   a > 5      →   4.5 < a <= 5, a < 4 OR a > 5   →   FALSE
    a < b AND b < c                implies   a < c          for columns of every type

All of it is sound: what it calls implied is implied. It is complete for conditions on single columns within its effort,
and for linear ones over dense numbers. It may miss what only whole numbers or products make true.

**Transitivity.** A condition on one input and a comparison of two inputs give a condition on the other input, which
lets its rows be thrown away before the join:

    r1.amount > 1000000,  r2.amount > 0.5*r1.amount,  r3.amount = r2.amount
      →  r2.amount > 500000,  r3.amount > 500000

What is inferred is the same whatever the order of the conditions: all ways are followed, each comparison being used
once on a way, which ends `a > 2*b, b > 2*a` too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import TypeAlias

from weft.predicates import clauses, domains, literals
from weft.predicates.literals import try_expression
from weft.predicates.subjects import Monomial, Order, Subject, Sum
from weft.predicates.terms import Term

#: Coefficients by variable, in the order of the names: whole and coprime numbers, none of them zero.
Coefficients: TypeAlias = tuple[tuple[str, int], ...]

_MOST_INEQUALITIES = 1_500
#: How many choices are tried before the answer is "not found".
EFFORT = 128
#: The most facts that are inferred.
_MOST_FACTS = 2_000


#: A sum is below a number; or at most that, if it is closed. The lower end of two is the tighter one.
End: TypeAlias = tuple[Fraction, bool]
Inequality: TypeAlias = tuple[Coefficients, End]


def _inequality(coefficients: Mapping[str, int], bound: Fraction, is_closed: bool) -> Inequality:
    """An inequality with its coefficients in the one way to write them."""
    size = gcd(*coefficients.values()) or 1
    whole = sorted((name, each // size) for name, each in coefficients.items() if each)
    return tuple(whole), (bound / size, is_closed)


def linear_comparison(coefficients: Mapping[str, int], operator: str, bound: Fraction) -> Iterator[Inequality]:
    """Σ coefficient · variable `operator` bound. (`!=` is no inequality, and says nothing here.)"""
    if operator in ("<", "<=", "="):
        yield _inequality(coefficients, bound, operator != "<")
    if operator in (">", ">=", "="):
        yield _inequality({name: -each for name, each in coefficients.items()}, -bound, operator != ">")


def is_infeasible(inequalities: Iterable[Inequality]) -> bool:
    """Whether no numbers satisfy all the inequalities.

    >>> less = linear_comparison({"a": 1, "b": -1}, "<", Fraction(0))
    >>> low, high = linear_comparison({"b": 1}, "<", Fraction(1)), linear_comparison({"a": 1}, ">=", Fraction(1))
    >>> is_infeasible([*less, *low, *high])
    True
    """
    system = _tightest(inequalities)
    while system:
        system = _tightest(_without(_cheapest(system), system))
        if system is not None and len(system) > _MOST_INEQUALITIES:
            return False
    return system is None


def _tightest(inequalities: Iterable[Inequality]) -> dict[Coefficients, End] | None:
    """The tightest inequality for each left side; None if one of them cannot hold."""
    best: dict[Coefficients, End] = {}
    for coefficients, end in inequalities:
        if coefficients:
            best[coefficients] = min(end, best.get(coefficients, end))
        elif end < (Fraction(0), True):
            return None
    return best


def _cheapest(system: Iterable[Coefficients]) -> str:
    """The variable whose elimination leaves the fewest inequalities."""
    signs = Counter((name, coefficient > 0) for coefficients in system for name, coefficient in coefficients)
    return min(sorted({name for name, _ in signs}), key=lambda name: signs[name, True] * signs[name, False])


def _without(variable: str, system: Mapping[Coefficients, End]) -> Iterator[Inequality]:
    lowers: list[tuple[dict[str, int], End]] = []
    uppers: list[tuple[dict[str, int], End]] = []
    for coefficients, end in system.items():
        factors = dict(coefficients)
        if variable not in factors:
            yield coefficients, end
        else:
            (uppers if factors[variable] > 0 else lowers).append((factors, end))
    for low, (lower, is_closed) in lowers:
        for high, (upper, is_closed_above) in uppers:
            a, b = -low[variable], high[variable]
            total = {name: low.get(name, 0) * b + high.get(name, 0) * a for name in low | high}
            yield _inequality(total, lower * b + upper * a, is_closed and is_closed_above)


def entails_disjunction(
    predicates: clauses.PredicateSet, disjunction: clauses.Disjunction, effort: int = EFFORT
) -> bool:
    """Whether a disjunction is found to be TRUE wherever a set is."""
    if clauses.follows_from_one(disjunction, predicates):
        return True
    opposed = (
        clauses.disjunction_of(literals.alternatives(each.subject, literals.excluded(each)))
        for each in disjunction.literals
    )
    counterexamples = clauses.predicate_set([*predicates.disjunctions, *(each for each in opposed if each is not None)])
    return _is_impossible(counterexamples, iter(range(effort)))


def _is_impossible(predicates: clauses.PredicateSet, steps: Iterator[int]) -> bool:
    """Whether no row satisfies a set; every choice that is tried is a step."""
    variables = (_variables(literal) for each in predicates.disjunctions for literal in each.literals)
    # The variables of comparisons among several.
    related = set[str]().union(*(several for several in variables if len(several) > 1))
    if predicates.is_false or is_infeasible(_inequalities(predicates, related)):
        return True
    clause = _next_choice(predicates, related)
    if clause is None:
        return False
    choices: Iterable[literals.Triple] = clause.literals
    if len(clause.literals) == 1:
        (unequal,) = clause.literals
        assert unequal.bound is not None
        choices = (each for op in ("<", ">") for each in literals.literals_of(unequal.subject, op, unequal.bound))
    rest = [each for each in predicates.disjunctions if each != clause]
    return all(
        next(steps, None) is not None
        and _is_impossible(clauses.predicate_set([*rest, clauses.disjunction_with((each,))]), steps)
        for each in choices
    )


def _next_choice(predicates: clauses.PredicateSet, related: set[str]) -> clauses.Disjunction | None:
    """The disjunction to try the literals of: the shortest one that may tell something.

    Values that one subject cannot have are known as such already. To choose among those it can have is of use only if
    it is compared with others.
    """
    open_ = []
    for each in predicates.disjunctions:
        is_split = len(each.literals) > 1 or each.literals[0].operator == "!="
        if len(each.by_subject) > 1 or (is_split and related & _variables(each.literals[0])):
            open_.append(each)
    return min(open_, key=lambda each: (len(each.by_subject) == 1, len(each.literals)), default=None)


def _variables(literal: literals.Triple) -> set[str]:
    subject = literal.subject
    if isinstance(subject, Sum):
        return {_name(monomial) for monomial, _ in subject.polynomial.terms}
    return {term.text for term in subject.terms}


def _name(monomial: Monomial) -> str:
    return "*".join(atom.text for atom in monomial)


def _inequalities(predicates: clauses.PredicateSet, related: set[str]) -> Iterator[Inequality]:
    """What the literals that must hold say as inequalities, if there are any among several variables."""
    constants: dict[type, set[domains.Place]] = {}
    for each in predicates.disjunctions:
        literal = each.literals[0] if len(each.literals) == 1 else None
        if literal is None or literal.operator == literals.IS_NULL or not related & _variables(literal):
            continue
        subject, bound = literal.subject, literal.bound
        if isinstance(subject, Sum):
            if isinstance(bound, Fraction):
                # The coefficients of a subject are whole.
                coefficients = {_name(monomial): each.numerator for monomial, each in subject.polynomial.terms}
                yield from linear_comparison(coefficients, literal.operator, bound)
            for term in subject.terms:
                yield from linear_comparison({term.text: 1}, ">=", term.range[0])
                yield from linear_comparison({term.text: 1}, "<=", term.range[1])
        elif bound is None:
            continue
        elif isinstance(subject, Order):
            yield from _compared(subject.left.text, literal.operator, subject.right.text)
        elif subject.is_exact:
            assert isinstance(bound, Fraction)
            yield from linear_comparison({subject.text: 1}, literal.operator, bound)
        else:
            # A constant without arithmetic is a variable of its own, which has its place among the other constants.
            constants.setdefault(type(bound), set()).add(bound)
            yield from _compared(subject.text, literal.operator, repr(bound))
    for places in constants.values():
        for low, high in pairwise(sorted(places)):
            yield from _compared(repr(low), "<", repr(high))


def _compared(left: str, operator: str, right: str) -> Iterator[Inequality]:
    return linear_comparison({left: 1, right: -1}, operator, Fraction(0))


@dataclass(frozen=True, slots=True)
class ComparisonLink:
    """A comparison of two inputs, from one side: `target operator factor·origin + shift`."""

    name: str
    origin: Sum | Term
    target: Sum | Term
    operator: str
    factor: Fraction = Fraction(1)
    shift: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Fact:
    """Values that a subject is among, and the comparisons that this was inferred by."""

    subject: Subject
    values: domains.ValueSet
    way: frozenset[str]


def with_inferred(predicates: clauses.PredicateSet) -> clauses.PredicateSet:
    """A predicate set and the selections that its joins let one infer. It is TRUE for the same rows."""
    additional = [clauses.disjunction_with(each) for each in inferred(predicates)]
    return clauses.predicate_set([*predicates.disjunctions, *additional]) if additional else predicates


def inferred(predicates: clauses.PredicateSet) -> tuple[tuple[literals.Triple, ...], ...]:
    """The inferred selections alone, each as the literals of a disjunction, in the order of their texts."""
    # NULL takes part in no comparison, so it is not handed on. What the type says already is not, either.
    present = {subject: domains.ValueSet(values.spans) for subject, values in predicates.values_by_subject.items()}
    known = {each: values for each, values in present.items() if len(each.sources) == 1 and values != each.domain.whole}
    found: dict[Subject, domains.ValueSet] = {}
    for fact in _closure(known, list(_links(predicates))):
        if fact.way:
            found[fact.subject] = domains.intersection(found.get(fact.subject, fact.values), fact.values)
    result: list[tuple[literals.Triple, ...]] = []
    for subject, values in found.items():
        if subject not in known or not domains.is_subset(known[subject], values):
            required = literals.requirements(subject, values)
            if all(try_expression(literal) is not None for clause in required for literal in clause):
                result.extend(required)
    return tuple(sorted(result, key=lambda clause: [literal.text for literal in clause]))


def _links(predicates: clauses.PredicateSet) -> Iterator[ComparisonLink]:
    for literal in (each.literals[0] for each in predicates.disjunctions if len(each.literals) == 1):
        subject, operator = literal.subject, literal.operator
        if operator not in ("<", "<=", "=", ">=", ">"):
            continue
        if isinstance(subject, Order):
            left, right = subject.left, subject.right
            if len(left.sources) == len(right.sources) == 1 and left.sources != right.sources:
                yield ComparisonLink(literal.text, right, left, operator)
                yield ComparisonLink(literal.text, left, right, literals.MIRRORED[operator])
        elif isinstance(subject, Sum) and subject.halves is not None:
            assert isinstance(literal.bound, Fraction)
            for (origin, a), (target, b) in (subject.halves, subject.halves[::-1]):
                # From a·origin + b·target op c to target op' (c − a·origin) / b.
                turned = operator if b > 0 else literals.MIRRORED[operator]
                yield ComparisonLink(literal.text, origin, target, turned, -a / b, literal.bound / b)


def _closure(known: dict[Subject, domains.ValueSet], links: list[ComparisonLink]) -> list[Fact]:
    facts = [Fact(subject, values, frozenset()) for subject, values in known.items()]
    latest = facts
    while latest and len(facts) <= _MOST_FACTS:
        derived = {
            Fact(link.target, values, fact.way | {link.name})
            for fact in latest
            for link in links
            if link.origin == fact.subject and link.name not in fact.way
            for values in [_handed_on(fact.values, link)]
            if values is not None
        }
        latest = [each for each in derived if not any(_covers(fact, each) for fact in facts)]
        facts = facts + latest
    return facts


def _covers(fact: Fact, other: Fact) -> bool:
    """Whether everything that follows from the other fact follows from this one."""
    return fact.subject == other.subject and fact.way <= other.way and domains.is_subset(fact.values, other.values)


def _handed_on(values: domains.ValueSet, link: ComparisonLink) -> domains.ValueSet | None:
    """What a comparison says of its target if its origin is among some values; None if nothing."""
    spans = sorted(_image(span, link) for span in values.spans)
    if not spans:
        return None
    low, high = spans[0][0], max(span[1] for span in spans)
    if link.operator in (">", ">="):
        spans = [(domains.above(low[1]) if link.operator == ">" and low != domains.FIRST else low, domains.LAST)]
    elif link.operator in ("<", "<="):
        spans = [(domains.FIRST, domains.below(high[1]) if link.operator == "<" and high != domains.LAST else high)]
    result = domains.settled(domains.value_set(spans), link.target.domain)
    return None if result == link.target.domain.whole else result


def _image(span: domains.Span, link: ComparisonLink) -> domains.Span:
    """What a span of the origin is for the target: its ends as literals write them, without those that the type sets.

    `a > 3` of amounts in cents hands on 3, not 3.01: what follows is as weak as what was said, by a cent, and meets
    what follows from other queries.
    """
    domain, (low, high) = link.origin.domain, span
    ends = (
        domains.FIRST if low == domain.first else _cut(*literals.lower_end(low, domain)),
        domains.LAST if high == domain.last else _cut(*literals.upper_end(high, domain)),
    )
    if not (isinstance(link.target, Sum) or link.target.is_exact):
        return ends
    first, last = (_mapped(cut, link) for cut in ends)
    return (first, last) if link.factor > 0 else (last, first)


def _cut(operator: str, place: domains.Place) -> domains.Cut:
    return domains.above(place) if operator in (">", "<=") else domains.below(place)


def _mapped(cut: domains.Cut, link: ComparisonLink) -> domains.Cut:
    if cut in (domains.FIRST, domains.LAST):
        return cut if link.factor > 0 else (domains.LAST if cut == domains.FIRST else domains.FIRST)
    _, place, side = cut
    return (0, link.factor * place + link.shift, side if link.factor > 0 else 1 - side)
