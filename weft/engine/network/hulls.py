"""Hulls: one condition that every row of some nodes satisfies, cheap enough for Spark to check natively.

For each subject that all nodes restrict, the values that some node allows, as few spans; and what all nodes demand in
the same words. It is weaker than the nodes together, never stronger: whoever passes is looked at again, as data.

    amount > 1000 AND code = 1,   amount > 500 AND code = 2,   amount BETWEEN 600 AND 700    →    amount > 500
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.predicates import Disjunction, PredicateSet
from weft.predicates.clauses import disjunction_with, set_with
from weft.predicates.intervals import ValueSet, intersection, union
from weft.predicates.literals import requirements
from weft.predicates.subjects import Subject

#: Values that lie in more spans than this are taken to lie between the first and the last of them.
_MOST_SPANS = 4


def hull(nodes: Sequence[Sequence[Disjunction]]) -> PredicateSet:
    """What the disjunctions of every node demand, or something weaker."""
    distinct = list(dict.fromkeys(map(frozenset, nodes)))
    if not distinct or frozenset() in distinct:
        return set_with(())
    boxes = [_box(each) for each in distinct]
    found = set[Disjunction].intersection(*map(set, distinct))
    for subject in sorted(set.intersection(*(set(box) for box in boxes)), key=lambda each: each.text):
        values = _few_spans(union(box[subject] for box in boxes))
        if values.spans and values != subject.domain.everything:
            found.update(disjunction_with(each) for each in requirements(subject, values))
    return set_with(each for each in found if each.literals)


def _box(disjunctions: frozenset[Disjunction]) -> dict[Subject, ValueSet]:
    """The values that a node allows each subject, as far as disjunctions of one subject say it."""
    box: dict[Subject, ValueSet] = {}
    for each in disjunctions:
        subjects = each.by_subject
        if len(subjects) == 1:
            ((subject, values),) = subjects.items()
            box[subject] = intersection(box[subject], values) if subject in box else values
    return box


def _few_spans(values: ValueSet) -> ValueSet:
    if len(values.spans) <= _MOST_SPANS:
        return values
    return ValueSet(((values.spans[0][0], values.spans[-1][1]),), values.null)
