"""Sets of values against sets of numbers; elementary intervals against every literal by itself."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.predicates.given import condition, dense, whole
from weft.algebra import Column
from weft.algebra.types import INT
from weft.predicates.domains import Domain, settled
from weft.predicates.intervals import (
    ValueSet,
    complement,
    contains,
    gaps,
    intersection,
    is_subset,
    satisfying,
    union,
)
from weft.predicates.literals import alternatives, pieces_of, requirements, sortable
from weft.predicates.normal_forms import conjunctive_form
from weft.predicates.polynomials import Atom, variable
from weft.predicates.terms import Sum, sum_of

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


def subject(step: Fraction) -> Sum:
    return sum_of(variable(Atom("a", Column("", "a", INT), Domain(Fraction(0), Fraction(5), step))))[0]


WHOLE, HALVES = subject(Fraction(1)), subject(Fraction(1, 2))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(value_sets, st.sampled_from((WHOLE, HALVES)))
def test_every_set_is_written_in_one_way_that_means_it(values: ValueSet, about: Sum) -> None:
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


def test_elementary_intervals() -> None:
    clauses = [dense(each).disjunctions[0] for each in ("a < 4", "a >= 2", "a = 7", "a != 2", "a IS NULL")]
    literals = [clause.literals[0] for clause in clauses]
    pieces = pieces_of(literals[0].subject, literals)
    assert len(pieces.spans) == 6  # … 2 … 4 … 7 …, with 2 and 7 alone
    assert pieces.holding(Fraction(1)) == {0, 3}
    assert pieces.holding(Fraction(2)) == {0, 1}
    assert pieces.holding(Fraction(3)) == {0, 1, 3}
    assert pieces.holding(Fraction(5)) == {1, 3}
    assert pieces.holding(Fraction(7)) == {1, 2, 3}
    assert pieces.holding(None) == {4}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(comparisons, min_size=1, max_size=8))
def test_a_piece_says_which_literals_hold(written: list[tuple[str, int]]) -> None:
    literals = [whole(f"a {op} {bound}").disjunctions[0].literals[0] for op, bound in written]
    pieces = pieces_of(literals[0].subject, literals)
    for number in range(-1, 11):
        place = Fraction(number)
        expected = {n for n, each in enumerate(literals) if contains(each.values, place)}
        assert pieces.holding(place) == expected


def test_elementary_intervals_of_texts_and_doubles() -> None:
    for column, constants in (("s1", ("'a'", "'b'")), ("x1", ("0e0", "CAST('NaN' AS DOUBLE)"))):
        written = [f"{column} {op} {constant}" for op in ("<", ">=", "=") for constant in constants]
        literals = [conjunctive_form(condition(each)).disjunctions[0].literals[0] for each in written]
        pieces = pieces_of(literals[0].subject, literals)
        for literal in literals:
            assert literal.bound is not None
            held = pieces.holding(literal.bound)
            assert held == {n for n, each in enumerate(literals) if contains(each.values, literal.bound)}


def test_keys_on_disk_sort_as_constants_do() -> None:
    ordered = {
        "d1": ("-99999999.99", "-0.5", "0", "0.01", "2", "10"),
        "i1": ("-5", "0", "7", "20"),
        "l1 + l2": ("-100", "100", "1000"),
        "s1": ("'B'", "'a'", "'a_b'", "'ab'", "'é'"),
        "c1": ("DATE '1969-12-31'", "DATE '1970-01-02'", "DATE '2024-02-29'"),
        "x1": ("-1e300", "-1e0", "-1e-300", "0e0", "1e-300", "2e0", "CAST('Infinity' AS DOUBLE)"),
    }
    for column, constants in ordered.items():
        literals = [
            literal
            for constant in constants
            for clause in conjunctive_form(condition(f"{column} = {constant}")).disjunctions
            for literal in clause.literals
        ]
        keys = [sortable(literal) for literal in literals]
        assert keys == sorted(keys)
        assert len(set(keys)) == len(constants)
    (null,) = conjunctive_form(condition("i1 IS NULL")).disjunctions[0].literals
    assert sortable(null) == b""
