"""Implication by comparing pairs: literals, disjunctions, predicate sets.

Words: if p implies q, then q **subsumes** p; q is the weaker condition and its result the larger one. A node can be
shared by a query whose predicate set implies the node's.

    literals        one subject, and (operator, operator, how the constants compare) is in the table
    disjunctions    every literal of p implies some literal of q
    sets            every disjunction of Q is implied by some disjunction of P

All three are sound. The first is complete for one subject. The last is not complete: it looks at two disjunctions at a
time, and misses that `(a < 4 OR a > 5) AND a > 4.5` implies `a > 5`. What it misses, `containment` finds; but only
this one can be looked up in an index (`index`).
"""

from __future__ import annotations

from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.literals import IS_NOT_NULL, IS_NULL, Triple

#: How the first constant compares with the second.
EQUAL, DECREASING, INCREASING = "=", ">", "<"

#: Subsumable triples: (x op1 c1) implies (x op2 c2) if c1 and c2 compare so. These 16 are complete for all operators
#: but `!=`, apart from a literal that implies itself.
SUBSUMABLE = frozenset(
    {
        *((">", ">=", EQUAL), ("<", "<=", EQUAL), ("=", ">=", EQUAL), ("=", "<=", EQUAL)),
        *((">", ">=", DECREASING), (">", ">", DECREASING), (">=", ">=", DECREASING), (">=", ">", DECREASING)),
        *(("=", ">", DECREASING), ("=", ">=", DECREASING)),
        *(("<", "<=", INCREASING), ("<", "<", INCREASING), ("<=", "<=", INCREASING), ("<=", "<", INCREASING)),
        *(("=", "<", INCREASING), ("=", "<=", INCREASING)),
    }
)

#: And those that end in `!=`.
SUBSUMABLE_UNEQUAL = frozenset(
    {
        *(("=", "!=", DECREASING), ("=", "!=", INCREASING)),
        *((">", "!=", EQUAL), (">", "!=", DECREASING), (">=", "!=", DECREASING)),
        *(("<", "!=", EQUAL), ("<", "!=", INCREASING), ("<=", "!=", INCREASING)),
    }
)

_TABLE = SUBSUMABLE | SUBSUMABLE_UNEQUAL


def literal_implies(left: Triple, right: Triple) -> bool:
    """Whether the right literal is TRUE wherever the left one is."""
    if left == right:
        return True
    if IS_NULL in (left.operator, right.operator):
        return False
    if right.operator == IS_NOT_NULL:
        # A value of the one subject needs values of all its parts.
        return set(right.subject.parts) <= set(left.subject.parts)
    if left.subject != right.subject or left.operator == IS_NOT_NULL:
        return False
    return (left.operator, right.operator, _compared(left, right)) in _TABLE


def _compared(left: Triple, right: Triple) -> str:
    if left.bound == right.bound:
        return EQUAL
    return DECREASING if left.bound > right.bound else INCREASING  # type: ignore[operator]


def disjunction_implies(left: Disjunction, right: Disjunction) -> bool:
    """Whether every literal on the left implies some literal on the right."""
    if len(left.literals) == len(right.literals) == 1:
        return literal_implies(left.literals[0], right.literals[0])
    same = set(right.literals)
    # An equation and IS NULL follow from themselves alone, so that long lists need not be compared with each other.
    weaker = [each for each in right.literals if each.operator not in ("=", IS_NULL)]
    return all(each in same or any(literal_implies(each, other) for other in weaker) for each in left.literals)


def follows_from_one(disjunction: Disjunction, predicates: PredicateSet) -> bool:
    """Whether a disjunction is implied by some disjunction of a set.

    A literal implies others of its own subject, and that something has a value. So where no literal says the latter,
    only disjunctions that begin with one of its subjects need to be looked at.
    """
    if predicates.is_false:
        return True
    if any(each.operator == IS_NOT_NULL for each in disjunction.literals):
        return any(disjunction_implies(each, disjunction) for each in predicates.disjunctions)
    begun = predicates.by_first_subject
    return any(
        disjunction_implies(each, disjunction) for subject in disjunction.by_subject for each in begun.get(subject, ())
    )


def set_implies(left: PredicateSet, right: PredicateSet) -> bool:
    """Whether every disjunction on the right is implied by some disjunction on the left."""
    return all(follows_from_one(other, left) for other in right.disjunctions)
