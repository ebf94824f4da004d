"""Sets of values against sets of numbers; elementary intervals against every literal by itself."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.algebra import Column
from weft.algebra.types import INT
from weft.predicates.domains import (
    Domain,
    ValueSet,
    complement,
    contains,
    gaps,
    intersection,
    is_subset,
    satisfying,
    settled,
    union,
)
from weft.predicates.literals import alternatives, requirements
from weft.predicates.terms import Term

PLACES = [Fraction(n, 2) for n in range(-1, 12)]

simple = st.builds(
    satisfying, st.sampled_from(("<", "<=", "=", ">=", ">", "!=")), st.sampled_from([Fraction(n) for n in range(6)])
)
comparisons = st.tuples(st.sampled_from(("<", "<=", "=", ">=", ">", "<>")), st.integers(0, 9))
value_sets = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(intersection, inner, inner),
        st.builds(lambda a, b: union((a, b)), inner, inner),
        st.builds(complement, inner),
    ),
    max_leaves=6,
)


def members(values: ValueSet) -> frozenset[Fraction | None]:
    return frozenset(place for place in (None, *PLACES) if contains(values, place))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(value_sets, value_sets)
def test_sets_of_values_are_sets(left: ValueSet, right: ValueSet) -> None:
    assert members(intersection(left, right)) == members(left) & members(right)
    assert members(union((left, right))) == members(left) | members(right)
    assert members(complement(left)) == {None, *PLACES} - members(left)
    assert is_subset(left, right) == (members(left) <= members(right))
    assert len(gaps(left)) == max(len(left.spans) - 1, 0)


def subject(step: Fraction) -> Term:
    return Term("a", Column("", "a", INT), Domain(Fraction(0), Fraction(5), step))


WHOLE, HALVES = subject(Fraction(1)), subject(Fraction(1, 2))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(value_sets, st.sampled_from((WHOLE, HALVES)))
def test_every_set_is_written_in_one_way_that_means_it(values: ValueSet, about: Term) -> None:
    own = settled(values, about.domain)
    clauses = requirements(about, own)
    meant = complement(ValueSet(()))
    for clause in clauses:
        meant = intersection(meant, union(each.values for each in clause))
    assert settled(meant, about.domain) == own
    if len(clauses) == 1:
        assert clauses == (alternatives(about, own),)
    # Sets with the same members are written alike.
    steps = [place for place in PLACES if 0 <= place <= 5 and (place / (about.domain.step or 1)).denominator == 1]
    again = union(satisfying("=", place) for place in steps if contains(own, place))
    assert requirements(about, settled(ValueSet(again.spans, own.null), about.domain)) == clauses
