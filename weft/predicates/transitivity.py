"""Transitivity inference: selections that follow from joins.

A condition on one input and a comparison of two inputs give a condition on the other input, which a query need not
have written, and which lets its rows be thrown away before the join:

    r1.amount > 1000000,  r2.amount > 0.5*r1.amount,  r3.amount = r2.amount
      →  r2.amount > 500000,  r3.amount > 500000

With `a op1 c` and `a op2 f(b)`, all that follows is

             a = f     a < f     a <= f    a > f     a >= f
    a = c    f = c     f > c     f >= c    f < c     f <= c
    a > c    f > c     f > c     f > c     –         –
    a >= c   f >= c    f > c     f >= c    –         –
    a < c    f < c     –         –         f < c     f < c
    a <= c   f <= c    –         –         f < c     f <= c

which is to say: a comparison hands on the lower end of a's values, the upper end, or, if it is an equality, all of
them, ranges and lists alike. `f` is a multiple of the other side plus a constant, or for texts and DOUBLEs the other
side itself. Sides may be sums of several columns of one input.

What is inferred is the same whatever the order of the conditions: all ways are followed, each comparison being used
once on a way, which ends `a > 2*b, b > 2*a` too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from weft.predicates.clauses import PredicateSet, disjunction_with, predicate_set
from weft.predicates.domains import (
    FIRST,
    LAST,
    Cut,
    Span,
    ValueSet,
    above,
    below,
    intersection,
    is_subset,
    settled,
    value_set,
)
from weft.predicates.literal_expressions import try_expression
from weft.predicates.literals import MIRRORED, Triple, lower_end, requirements, upper_end
from weft.predicates.terms import Order, Subject, Sum, term_of

#: The most facts that are inferred.
_MOST_FACTS = 2_000


@dataclass(frozen=True, slots=True)
class ComparisonLink:
    """A comparison of two inputs, from one side: `target operator factor·origin + shift`."""

    name: str
    origin: Subject
    target: Subject
    operator: str
    factor: Fraction
    shift: Fraction


@dataclass(frozen=True, slots=True)
class Fact:
    """Values that a subject is among, and the comparisons that this was inferred by."""

    subject: Subject
    values: ValueSet
    way: frozenset[str]


def with_inferred(predicates: PredicateSet) -> PredicateSet:
    """A predicate set and the selections that its joins let one infer. It is TRUE for the same rows."""
    additional = [disjunction_with(each) for each in inferred(predicates)]
    return predicate_set([*predicates.disjunctions, *additional]) if additional else predicates


def inferred(predicates: PredicateSet) -> tuple[tuple[Triple, ...], ...]:
    """The inferred selections alone, each as the literals of a disjunction, in the order of their texts."""
    known = _selections(predicates)
    found: dict[Subject, ValueSet] = {}
    for fact in _closure(known, _links(predicates)):
        if fact.way:
            found[fact.subject] = intersection(found.get(fact.subject, fact.values), fact.values)
    result: list[tuple[Triple, ...]] = []
    for subject, values in found.items():
        before = known.get(subject)
        if before is not None and is_subset(before, values):
            continue
        clauses = requirements(subject, values)
        if all(try_expression(literal) is not None for clause in clauses for literal in clause):
            result.extend(clauses)
    return tuple(sorted(result, key=lambda clause: [literal.text for literal in clause]))


def _selections(predicates: PredicateSet) -> dict[Subject, ValueSet]:
    """What is known of subjects that read one input. A literal beside others in a disjunction is not known."""
    known: dict[Subject, ValueSet] = {}
    for clause in predicates.disjunctions:
        for subject, values in clause.by_subject.items():
            if len({each.subject for each in clause.literals}) == 1 and len(subject.sources) == 1:
                # NULL takes part in no comparison, so it is not handed on.
                present = ValueSet(values.spans)
                known[subject] = intersection(known.get(subject, present), present)
    return {subject: values for subject, values in known.items() if values != subject.domain.whole}


def _links(predicates: PredicateSet) -> list[ComparisonLink]:
    links: list[ComparisonLink] = []
    for clause in predicates.disjunctions:
        if len(clause.literals) == 1 and clause.literals[0].operator in ("<", "<=", "=", ">=", ">"):
            links.extend(_links_of(clause.literals[0]))
    return links


def _links_of(literal: Triple) -> Iterable[ComparisonLink]:
    subject, operator = literal.subject, literal.operator
    if isinstance(subject, Order):
        left, right = term_of(subject.left), term_of(subject.right)
        if len(left.sources) == len(right.sources) == 1 and left.sources != right.sources:
            yield ComparisonLink(literal.text, right, left, operator, Fraction(1), Fraction(0))
            yield ComparisonLink(literal.text, left, right, MIRRORED[operator], Fraction(1), Fraction(0))
    elif isinstance(subject, Sum) and subject.halves is not None:
        (first, a), (second, b) = subject.halves
        yield _linear_link(literal, first, a, second, b)
        yield _linear_link(literal, second, b, first, a)


def _linear_link(literal: Triple, origin: Sum, a: Fraction, target: Sum, b: Fraction) -> ComparisonLink:
    """From a·origin + b·target op c to target op' (c − a·origin) / b."""
    assert isinstance(literal.bound, Fraction)
    operator = literal.operator if b > 0 else MIRRORED[literal.operator]
    return ComparisonLink(literal.text, origin, target, operator, -a / b, literal.bound / b)


def _closure(known: dict[Subject, ValueSet], links: list[ComparisonLink]) -> list[Fact]:
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
    return fact.subject == other.subject and fact.way <= other.way and is_subset(fact.values, other.values)


def _handed_on(values: ValueSet, link: ComparisonLink) -> ValueSet | None:
    """What a comparison says of its target if its origin is among some values; None if nothing."""
    spans = sorted(_image(_written(span, link.origin), link) for span in values.spans)
    if not spans:
        return None
    low, high = spans[0][0], max(span[1] for span in spans)
    if link.operator == "=":
        result = value_set(spans)
    elif link.operator in (">", ">="):
        result = value_set([(above(low[1]) if link.operator == ">" and low != FIRST else low, LAST)])
    else:
        result = value_set([(FIRST, below(high[1]) if link.operator == "<" and high != LAST else high)])
    result = settled(result, link.target.domain)
    return None if result == link.target.domain.whole else result


def _written(span: Span, subject: Subject) -> Span:
    """A span with ends as literals write them, and without those that only the type sets.

    `a > 3` of amounts in cents hands on 3, not 3.01: what follows is as weak as what was said, by a cent, and meets
    what follows from other queries.
    """
    domain, (low, high) = subject.domain, span
    if low == domain.first:
        low = FIRST
    else:
        operator, place = lower_end(low, domain)
        low = above(place) if operator == ">" else below(place)
    if high == domain.last:
        return low, LAST
    operator, place = upper_end(high, domain)
    return low, (below(place) if operator == "<" else above(place))


def _image(span: Span, link: ComparisonLink) -> Span:
    if isinstance(link.target, Sum):
        low, high = (_mapped(cut, link) for cut in span)
        return (low, high) if link.factor > 0 else (high, low)
    return span


def _mapped(cut: Cut, link: ComparisonLink) -> Cut:
    if cut in (FIRST, LAST):
        return cut if link.factor > 0 else (LAST if cut == FIRST else FIRST)
    _, place, side = cut
    return (0, link.factor * place + link.shift, side if link.factor > 0 else 1 - side)
