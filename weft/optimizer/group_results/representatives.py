"""The queries that the engine evaluates for a group, and the subscriptions that cut a member's answers out of them.

A subscription says all that the member's query demands, whatever the group happens to answer today: its condition, its
windows, the ends of its window instances. So it stays right when members come and go and the group answers more, or
less.

    price > 100 AND upper(symbol) IN ('A', 'B')      price > 100.0, UPPER(symbol) in ('A', 'B')     two columns
    bid + 2 * ask < 90                               (…) = TRUE                                     a BOOLEAN column
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TypeAlias

import weft.algebra as algebra
from weft.algebra.properties import clock_column
from weft.optimizer.group_results import shapes
from weft.optimizer.group_results.forms import Form, QueryFamily, QueryKind, condition_of_boxes
from weft.plan.canonical import substituted
from weft.plan.subscription import ALL_ROWS, Comparison, Conjunction, Meeting, Schedule, Subscription
from weft.predicates.domains import ValueSet
from weft.predicates.literals import Triple, conjunction, expression_of, requirements
from weft.predicates.normal_forms import Box
from weft.predicates.subjects import Subject
from weft.predicates.terms import canonical, columns_of, text_of
from weft.windows.slicing import ResidueClass

#: A box whose values would make more conjunctions than that is published as one BOOLEAN column.
MOST_CONJUNCTIONS = 16

_COMPARISONS = frozenset({"<", "<=", "=", "!=", ">", ">="})

_Publish = Callable[[algebra.Expression], str]


@dataclass(frozen=True, slots=True)
class EvaluatedPart:
    """One query that the engine evaluates for a group. All parts of an epoch have the same columns.

    `ends` are the ends of its window instances, if there are several parts: a row is published by the first part whose
    `ends` have its `window_end`, so that what two parts answer is published once.
    """

    query: algebra.Query
    ends: ResidueClass | None = None


@dataclass(frozen=True, slots=True)
class GroupRepresentative:
    """What a group evaluates and publishes from one epoch to the next.

    `columns` are the published columns, in the order of the parts' outputs. For a join, `clocks` are those that show
    the clocks of its flowing inputs, and `reach` is the largest number of ticks that two of its rows may be apart.
    """

    group: str
    epoch: int
    kind: QueryKind
    parts: tuple[EvaluatedPart, ...]
    columns: tuple[str, ...]
    clocks: tuple[str, ...] = ()
    reach: int = 0


def representative(
    group: str,
    epoch: int,
    family: QueryFamily,
    form: Form,
    columns: Mapping[str, algebra.Expression],
    aggregates: Mapping[str, algebra.Aggregate],
) -> GroupRepresentative:
    """What a group evaluates: a query for each schedule, or just one."""
    ordered, name, windows = dict(sorted(columns.items())), f"{group}_{epoch}", form.windows
    if form.ends is None:
        parts = [EvaluatedPart(_query(name, _combination(family, form, ordered)))]
    else:
        selects = [(end, _aggregate(family, form, end, ordered, aggregates)) for end in sorted(form.ends)]
        parts = [EvaluatedPart(_query(f"{name}_{number}", each), end) for number, (end, each) in enumerate(selects)]
        if len(selects) == 1:
            parts = [EvaluatedPart(_query(name, selects[0][1]))]
    clocks = tuple(map(text_of, shapes.clocks_of(family))) if windows else ()
    reach = max(windows.ranges) - 1 if windows else 0
    return GroupRepresentative(group, epoch, family.kind, tuple(parts), tuple(ordered), clocks, reach)


def _query(name: str, select: algebra.Select) -> algebra.Query:
    """A query of a select over the inputs of a family, of which the only one has no name there."""
    streams = {each.alias: each.source.name for each in select.inputs if isinstance(each.source, algebra.Stream)}
    select = shapes.with_aliases(select, {each.alias: each.alias or streams[each.alias] for each in select.inputs})
    return algebra.Query(name, select, clock_column(select))


def _where(*conditions: algebra.Expression | None) -> algebra.Expression | None:
    return conjunction([each for each in conditions if each is not None])


def _combination(family: QueryFamily, form: Form, columns: Mapping[str, algebra.Expression]) -> algebra.Select:
    inputs = family.inputs
    if form.windows is not None:
        slide, origin, ranges = form.windows.slide, form.windows.origin, iter(form.windows.ranges)
        inputs = tuple(
            replace(each, window=algebra.Window(next(ranges), slide, origin))
            if isinstance(each.source, algebra.Stream)
            else each
            for each in inputs
        )
    return algebra.Select(
        inputs=inputs,
        where=_where(family.common, condition_of_boxes([each.box for each in form.regions])),
        outputs=tuple(algebra.Output(name, each) for name, each in columns.items()),
        clock_type=family.clock_type,
    )


def _aggregate(
    family: QueryFamily,
    form: Form,
    end: ResidueClass,
    columns: Mapping[str, algebra.Expression],
    aggregates: Mapping[str, algebra.Aggregate],
) -> algebra.Select:
    assert family.range is not None
    having = condition_of_boxes([each.box for each in form.regions])
    read = frozenset().union(*(columns_of(each) for each in (*columns.values(), *([having] if having else []))))
    used = sorted({column.name for column in read if column.name in aggregates})
    if not family.keys and not used:
        # No member shows an aggregate, but an instance has a row only because of one.
        used = sorted(aggregates)[:1]
    shown = [aggregates[name] for name in used]
    after = shapes.columns_after_grouping(family.keys, shown, family.clock_type)
    groups: dict[algebra.Expression, algebra.Expression] = {column: reference for reference, column in after.items()}
    return algebra.Select(
        inputs=family.inputs,
        where=_where(family.common, _condition_of_rows(family, form)),
        outputs=tuple(algebra.Output(name, substituted(each, groups)) for name, each in columns.items()),
        clock_type=family.clock_type,
        window=algebra.Window(family.range, end.modulus, (end.residue - family.range) % end.modulus),
        keys=family.keys,
        aggregates=tuple(shown),
        having=None if having is None else substituted(having, groups),
    )


def _condition_of_rows(family: QueryFamily, form: Form) -> algebra.Expression | None:
    """What the regions demand of grouping columns, before grouping: most groups need not be made at all."""
    columns = {key.name: key for key in family.keys if isinstance(key, algebra.Column)}
    boxes = [
        {each: values for each, values in region.box.items() if shapes.is_of_groups(each, columns)}
        for region in form.regions
    ]
    return condition_of_boxes(boxes) if all(boxes) else None


# -- subscriptions ----------------------------------------------------------------------------------------------------


def subscribed(shape: shapes.QueryShape) -> tuple[Subscription, dict[str, algebra.Expression]]:
    """The subscription of a member, to a stream that has no name yet, and the published columns that it needs."""
    columns: dict[str, algebra.Expression] = {}

    def publish(expression: algebra.Expression) -> str:
        name = shapes.published_name(shape.family, expression)
        columns.setdefault(name, expression)
        return name

    shown = tuple((each.name, publish(each.expression)) for each in shape.outputs)
    any_of = tuple(conjunction for box in shape.boxes for conjunction in _conjunctions(box, publish))
    meeting = schedule = None
    if shape.windows is not None:
        clocks = map(publish, shapes.clocks_of(shape.family))
        ranges = tuple(zip(clocks, shape.windows.ranges, strict=True))
        meeting = Meeting(ranges, shape.windows.slide, shape.windows.origin)
    if shape.end is not None:
        column = publish(algebra.Column("", algebra.WINDOW_END, shape.family.clock_type))
        schedule = Schedule(column, shape.end.modulus, shape.end.residue)
    return Subscription("", shown, ALL_ROWS if () in any_of else any_of, meeting, schedule), columns


def _conjunctions(box: Box, publish: _Publish) -> Iterator[Conjunction]:
    subjects = sorted(box.items(), key=lambda item: item[0].text)
    alternatives = [_alternatives(subject, values) for subject, values in subjects]
    if prod(map(len, alternatives)) > MOST_CONJUNCTIONS:
        whole = condition_of_boxes([box])
        assert whole is not None
        yield (_holds(whole, publish),)
        return
    choices = [[each for alternative in several for each in _listed(alternative, publish)] for several in alternatives]
    for chosen in product(*choices):
        yield tuple(comparison for part in chosen for comparison in part)


#: Literals that must all hold.
_Literals: TypeAlias = tuple[Triple, ...]


def _alternatives(subject: Subject, values: ValueSet) -> list[list[_Literals]]:
    """The ways for a subject to be in a set: one for each span, but single values together, as the choices of one."""
    if all(len(clause) == 1 for clause in requirements(subject, values)):
        return [[_all_of(subject, values)]]
    spans = [_all_of(subject, ValueSet((span,))) for span in values.spans]
    points: list[_Literals] = [each for each in spans if len(each) == 1 and each[0].operator == "="]
    others = [[each] for each in spans if each not in points]
    others += [[_all_of(subject, ValueSet((), null=True))]] if values.null else []
    return [points, *others] if points else others


def _all_of(subject: Subject, values: ValueSet) -> _Literals:
    return tuple(literal for (literal,) in requirements(subject, values))


def _listed(choices: Sequence[_Literals], publish: _Publish) -> list[Conjunction]:
    """One conjunction for each choice; several equations of one column with constants are a list of constants."""
    found = [
        tuple(each for literal in literals for each in _comparisons(expression_of(literal), publish))
        for literals in choices
    ]
    equations = [each for (each, *others) in found if not others and each.op == "=" and each.other is None]
    if len(found) > 1 and len(equations) == len(found) and len({each.column for each in equations}) == 1:
        return [(Comparison(equations[0].column, "in", tuple(each.value for each in equations)),)]  # type: ignore[misc]
    return found


def _comparisons(condition: algebra.Expression, publish: _Publish) -> Iterator[Comparison]:
    """What a literal says of published columns."""
    match condition:
        case algebra.Column():
            yield Comparison(publish(condition), "=", True)
        case algebra.Call("and", args):
            for arg in args:
                yield from _comparisons(arg, publish)
        case algebra.Call(op, (left, algebra.Literal(value))) if op in _COMPARISONS:
            yield Comparison(publish(left), op, value)
        case algebra.Call(op, (algebra.Column() as left, algebra.Column() as right)) if (
            op in _COMPARISONS and left.type == right.type
        ):
            yield Comparison(publish(left), op, other=publish(right))
        case algebra.Call("is_null", (arg,)):
            yield Comparison(publish(arg), "is null")
        case algebra.Call("not", (algebra.Call("is_null", (arg,)),)):
            yield Comparison(publish(arg), "is not null")
        case algebra.Call("not", (arg,)):
            yield Comparison(publish(arg), "=", False)
        case _:
            yield _holds(condition, publish)


def _holds(condition: algebra.Expression, publish: _Publish) -> Comparison:
    return Comparison(publish(canonical(condition)), "=", True)
