"""Conditions in the one way to write them, and what follows from what.

A WHERE becomes a **predicate set**, a set of **disjunctions** of **literals**, such that conditions that mean the same
have the same text as often as can be, and a condition that another one implies is found.

    intervals.py        sets of values between cuts, whatever the values are
    domains.py          which values a type has, and what is known of clocks
    terms.py            expressions that are not taken apart, and their texts
    polynomials.py      sums and products with exact rational coefficients
    subjects.py         the left sides of comparisons
    literals.py         canonical triples: subject, operator, constant
    arithmetic.py       expressions as polynomials, where that keeps every answer
    comparisons.py      one comparison as literals
    expressions.py      literals back to expressions
    formulas.py         conditions without NOT
    clauses.py          disjunctions and predicate sets, as data
    disjunctions.py     … in the one way to write them
    conjunctions.py     … in the one way to write them
    normal_forms.py     conditions as predicate sets, with a guard on their size; predicate sets as boxes
    implication.py      what follows from what, comparing two at a time
    index.py            the same, looked up among very many
    closest.py          … of which only the closest are of use
    linear.py           inequalities that cannot hold together
    containment.py      what follows from what, looking at all at once
    sets.py             union, difference (residuals), conversion, explication, what two sets have in common
    aliases.py          names of inputs that do not depend on the user
    transitivity.py     selections that follow from joins
    pieces.py           elementary intervals
    evaluation.py       which of many predicate sets hold for each row of a table

The meaning is SQL's: a row passes if the condition is TRUE; NULL does not pass. NaN is equal to itself and above all
numbers. Every rewriting keeps exactly the rows that pass, overflow and rounding included; what cannot be rewritten like
that stays as it is written. Everything here is frozen data and functions, but for the two indexes.
"""

from weft.predicates.aliases import Assignment, assignments, standard_form, under
from weft.predicates.clauses import FALSE_SET, TRUE_SET, Disjunction, PredicateSet
from weft.predicates.closest import ClosestIndex
from weft.predicates.containment import entails, entails_disjunction, is_contradiction
from weft.predicates.domains import Domain, Facts, clock_facts
from weft.predicates.implication import disjunction_implies, literal_implies, set_implies
from weft.predicates.index import LiteralIndex, PredicateIndex
from weft.predicates.literals import Triple
from weft.predicates.normal_forms import (
    Box,
    boxes_contained,
    by_sources,
    condition_of,
    condition_of_disjunction,
    conjunctive_form,
    disjunctive_form,
)
from weft.predicates.pieces import Pieces, pieces_of
from weft.predicates.sets import are_equivalent, converted, difference, explicated, in_common, union
from weft.predicates.transitivity import inferred, with_inferred

__all__ = [
    "FALSE_SET",
    "TRUE_SET",
    "Assignment",
    "Box",
    "ClosestIndex",
    "Disjunction",
    "Domain",
    "Facts",
    "LiteralIndex",
    "Pieces",
    "PredicateIndex",
    "PredicateSet",
    "Triple",
    "are_equivalent",
    "assignments",
    "boxes_contained",
    "by_sources",
    "clock_facts",
    "condition_of",
    "condition_of_disjunction",
    "conjunctive_form",
    "converted",
    "difference",
    "disjunction_implies",
    "disjunctive_form",
    "entails",
    "entails_disjunction",
    "explicated",
    "in_common",
    "inferred",
    "is_contradiction",
    "literal_implies",
    "pieces_of",
    "set_implies",
    "standard_form",
    "under",
    "union",
    "with_inferred",
]
