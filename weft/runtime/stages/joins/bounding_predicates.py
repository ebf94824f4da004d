"""Bounding predicates: one condition that every row of some nodes satisfies, cheap enough for Spark to check natively.

Nodes that restrict the same subjects have one bounding predicate set together: for each subject the values that some of
them allow, as few spans or as a list, and what all of them demand in the same words. A row must satisfy one of the
sets. That is weaker than the nodes together, never stronger: rows that pass are checked again, as data.

    amount > 1000 AND code = 1,   amount > 500 AND code = 7    →    amount > 500 AND (code = 1 OR code = 7)
    amount BETWEEN 600 AND 700                                 →    … OR amount BETWEEN 600 AND 700

What looks at texts is checked last: a LIKE takes much longer than all comparisons of numbers, and a row that these
refuse is not looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.algebra import Call, Expression
from weft.algebra.types import BOOLEAN, STRING
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_with, set_with
from weft.predicates.domains import ValueSet, intersection, union
from weft.predicates.literal_expressions import conjunction, disjunction, expression_of
from weft.predicates.literals import only_value, requirements
from weft.predicates.terms import Subject

#: Values that lie in more spans than this are taken to lie between the first and the last of them; but this many
#: single values are listed.
_MOST_SPANS = 4
_MOST_VALUES = 64

#: If nodes restrict more different sets of subjects than this, all of them share one set.
_MOST_SETS = 8

#: What conditions are made of, apart from what they compare.
_COMPARING = frozenset({"and", "or", "not", "in", "is_null", "=", "!=", "<", "<=", ">", ">=", "<=>"})


def bounding_predicates(nodes: Sequence[Sequence[Disjunction]]) -> tuple[PredicateSet, ...]:
    """What the disjunctions of every node demand, or something weaker: one of these."""
    distinct = list(dict.fromkeys(map(frozenset, nodes)))
    if not distinct or frozenset() in distinct:
        return (set_with(()),)
    alike: dict[frozenset[Subject], list[frozenset[Disjunction]]] = {}
    for each in distinct:
        alike.setdefault(frozenset(_box(each)), []).append(each)
    if len(alike) > _MOST_SETS:
        return (_bounding(distinct),)
    return tuple(dict.fromkeys(_bounding(group) for group in alike.values()))


def bounding_condition(found: Sequence[PredicateSet]) -> Expression | None:
    """Bounding predicate sets as an expression; None if every row satisfies one of them."""
    conditions = [
        conjunction(sorted((_listed(each) for each in each_set.disjunctions), key=_effort)) for each_set in found
    ]
    restricting = [each for each in conditions if each is not None]
    return disjunction(restricting) if len(restricting) == len(conditions) else None


def _effort(expression: Expression) -> int:
    """0 where columns are compared as they are, 1 where something is computed of them first, 2 where that is of texts.

    Most rows are refused by what comes first, and then the rest is not computed.
    """
    if not isinstance(expression, Call):
        return 0
    looks_at_texts = any(each.type == STRING for each in expression.args)
    here = 0 if expression.op in _COMPARING else 1 + looks_at_texts
    return max([here, *map(_effort, expression.args)])


def _bounding(nodes: Sequence[frozenset[Disjunction]]) -> PredicateSet:
    boxes = [_box(each) for each in nodes]
    found = set[Disjunction].intersection(*map(set, nodes))
    for subject in sorted(set.intersection(*(set(box) for box in boxes)), key=lambda each: each.text):
        values = _few_spans(union(box[subject] for box in boxes), subject)
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


def _few_spans(values: ValueSet, subject: Subject) -> ValueSet:
    if len(values.spans) <= _MOST_SPANS:
        return values
    if len(values.spans) <= _MOST_VALUES and None not in (only_value(span, subject.domain) for span in values.spans):
        return values
    return ValueSet(((values.spans[0][0], values.spans[-1][1]),), values.null)


def _listed(clause: Disjunction) -> Expression:
    """A disjunction as an expression; a long one of equations is a list, which Spark looks up."""
    literals = [expression_of(each) for each in clause.literals]
    sides = [each.args for each in literals if isinstance(each, Call) and each.op == "=" and _is_looked_up(each)]
    if len(sides) == len(literals) > _MOST_SPANS and len({left for left, _ in sides}) == 1:
        return Call("in", (sides[0][0], *(right for _, right in sides)), BOOLEAN)
    return disjunction(literals)


def _is_looked_up(equation: Call) -> bool:
    """Whether Spark finds a value in a list if and only if it is equal: for 0.0 and -0.0, say, it might not."""
    return all(side.type.is_integer or side.type == STRING for side in equation.args)
