"""What a member needs of the rows that its group publishes, and the subscription that cuts its answers out of them.

A subscription says all that the member's query demands, whatever the group happens to answer today: its condition, its
windows, the ends of its window instances. So it stays right when members come and go and the group answers more, or
less.

    price > 100 AND upper(symbol) IN ('A', 'B')      price > 100.0, UPPER(symbol) in ('A', 'B')     two columns
    bid + 2 * ask < 90                               (…) = TRUE                                     a BOOLEAN column
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

from weft.algebra import Call, Column, Expression, Literal
from weft.optimizer.group_results.conditions import condition_of_boxes
from weft.optimizer.group_results.shapes import Shape, published_name
from weft.plan.subscription import ALL_ROWS, Comparison, Conjunction, Subscription
from weft.predicates.intervals import ValueSet
from weft.predicates.literal_expressions import expression_of
from weft.predicates.literals import Triple, requirements
from weft.predicates.normal_forms import Box
from weft.predicates.terms import Subject, canonical

#: A box whose values would make more conjunctions than that is published as one BOOLEAN column.
MOST_CONJUNCTIONS = 16

_COMPARISONS = frozenset({"<", "<=", "=", "!=", ">", ">="})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a member takes of published rows: what its user sees, its condition, and all columns that it needs.

    `columns` has the expressions of the published columns by name. Those in `shown` are the user's.
    """

    shown: tuple[tuple[str, str], ...]
    any_of: tuple[Conjunction, ...]
    columns: Mapping[str, Expression]


def wanted_by(shape: Shape) -> Wanted:
    """What a query wants of the rows that contain its answers."""
    columns: dict[str, Expression] = {}

    def publish(expression: Expression) -> str:
        name = published_name(shape.family, expression)
        columns.setdefault(name, expression)
        return name

    shown = tuple((each.name, publish(each.expression)) for each in shape.outputs)
    any_of = tuple(conjunction for box in shape.boxes for conjunction in _conjunctions(box, publish))
    for clock in shape.clocks:
        publish(clock)
    if shape.schedule is not None:
        publish(Column("", shape.schedule.column, shape.family.clock_type))
    return Wanted(shown, ALL_ROWS if () in any_of else any_of, columns)


def subscription(stream: str, shape: Shape, wanted: Wanted) -> Subscription:
    """The subscription of a member, complete."""
    return Subscription(stream, wanted.shown, wanted.any_of, shape.meeting, shape.schedule)


_Publish = Callable[[Expression], str]


def _conjunctions(box: Box, publish: _Publish) -> Iterator[Conjunction]:
    subjects = sorted(box.items(), key=lambda item: item[0].text)
    if prod(_number_of_choices(subject, values) for subject, values in subjects) > MOST_CONJUNCTIONS:
        whole = condition_of_boxes([box])
        assert whole is not None
        yield (_holds(whole, publish),)
        return
    choices = [list(_choices(subject, values, publish)) for subject, values in subjects]
    for chosen in product(*choices):
        yield tuple(comparison for part in chosen for comparison in part)


def _number_of_choices(subject: Subject, values: ValueSet) -> int:
    if len(values.spans) + values.null == 1 or all(len(clause) == 1 for clause in requirements(subject, values)):
        return 1
    points, others = _points_and_others(subject, values)
    return bool(points) + len(others) + values.null


def _points_and_others(subject: Subject, values: ValueSet) -> tuple[list[Triple], list[tuple[Triple, ...]]]:
    """The single values of a set, and its other spans, each as the literals that must all hold."""
    points, others = [], []
    for span in values.spans:
        literals = tuple(literal for (literal,) in requirements(subject, ValueSet((span,))))
        if len(literals) == 1 and literals[0].operator == "=":
            points.append(literals[0])
        else:
            others.append(literals)
    return points, others


def _choices(subject: Subject, values: ValueSet, publish: _Publish) -> Iterator[Conjunction]:
    """The conjunctions of which one must hold for a subject to be in a set: one for each span, points together."""
    clauses = requirements(subject, values)
    if all(len(clause) == 1 for clause in clauses):
        yield tuple(each for clause in clauses for each in _comparisons(clause[0], publish))
        return
    points, others = _points_and_others(subject, values)
    yield from _in_list(points, publish)
    for literals in others:
        yield tuple(each for literal in literals for each in _comparisons(literal, publish))
    if values.null:
        ((literal,),) = requirements(subject, ValueSet((), null=True))
        yield tuple(_comparisons(literal, publish))


def _in_list(points: list[Triple], publish: _Publish) -> Iterator[Conjunction]:
    """Equations of one subject: a list of constants, if it is compared with constants."""
    equations = [tuple(_comparisons(point, publish)) for point in points]
    alone = [each for (each, *others) in equations if not others and each.op == "=" and each.other is None]
    if len(points) > 1 and len(alone) == len(points) and len({each.column for each in alone}) == 1:
        yield (Comparison(alone[0].column, "in", tuple(each.value for each in alone)),)  # type: ignore[misc]
    else:
        yield from equations


def _comparisons(literal: Triple, publish: _Publish) -> Iterator[Comparison]:
    """What a literal says of published columns."""
    yield from _of_expression(expression_of(literal), publish)


def _of_expression(condition: Expression, publish: _Publish) -> Iterator[Comparison]:
    if isinstance(condition, Column):
        yield Comparison(publish(condition), "=", True)
    elif isinstance(condition, Call) and condition.op == "and":
        for arg in condition.args:
            yield from _of_expression(arg, publish)
    elif isinstance(condition, Call) and condition.op in _COMPARISONS:
        left, right = condition.args
        if isinstance(right, Literal):
            yield Comparison(publish(left), condition.op, right.value)
        elif isinstance(left, Column) and isinstance(right, Column) and left.type == right.type:
            yield Comparison(publish(left), condition.op, other=publish(right))
        else:
            yield _holds(condition, publish)
    elif isinstance(condition, Call) and condition.op == "is_null":
        yield Comparison(publish(condition.args[0]), "is null")
    elif isinstance(condition, Call) and condition.op == "not":
        yield _negated(condition, publish)
    else:
        yield _holds(condition, publish)


def _negated(condition: Call, publish: _Publish) -> Comparison:
    (inner,) = condition.args
    if isinstance(inner, Call) and inner.op == "is_null":
        return Comparison(publish(inner.args[0]), "is not null")
    return Comparison(publish(inner), "=", False)


def _holds(condition: Expression, publish: _Publish) -> Comparison:
    return Comparison(publish(canonical(condition)), "=", True)
