"""From what a group answers to queries that the engine can evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.algebra import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    AggregateRef,
    Column,
    Expression,
    Input,
    KeyRef,
    Output,
    Query,
    Select,
    Stream,
    Window,
    WindowBound,
)
from weft.algebra.properties import clock_column
from weft.optimizer.group_results.changes import Kind, Part, Representative
from weft.optimizer.group_results.conditions import condition_of_boxes, condition_of_regions
from weft.optimizer.group_results.forms import Family, Form
from weft.optimizer.group_results.shapes import clocks_of, is_of_groups
from weft.plan.normal_form import substituted
from weft.predicates.clauses import disjunction_with
from weft.predicates.literal_expressions import conjunction
from weft.predicates.literals import null_test
from weft.predicates.normal_forms import Box
from weft.predicates.terms import columns_of, text_of
from weft.windows.slicing import ResidueClass


def representative(
    group: str,
    epoch: int,
    family: Family,
    form: Form,
    columns: Mapping[str, Expression],
    aggregates: Mapping[str, Aggregate],
) -> Representative:
    """What a group evaluates: a query for each schedule, or just one."""
    ordered = dict(sorted(columns.items()))
    name = f"{group}_{epoch}"
    if family.kind is not Kind.AGGREGATE:
        query = _query(name, _combination(family, form, ordered))
        windows = form.windows
        return Representative(
            group,
            epoch,
            family.kind,
            (Part(query),),
            tuple(ordered),
            tuple(map(text_of, clocks_of(family))) if windows else (),
            max(windows.ranges) - 1 if windows else 0,
        )
    assert form.ends is not None
    ends: Sequence[ResidueClass] = sorted(form.ends)
    parts = tuple(
        Part(
            _query(name if len(ends) == 1 else f"{name}_{number}", _aggregate(family, form, each, ordered, aggregates)),
            each if len(ends) > 1 else None,
        )
        for number, each in enumerate(ends)
    )
    return Representative(group, epoch, family.kind, parts, tuple(ordered))


def _query(name: str, select: Select) -> Query:
    return Query(name, select, clock_column(select))


def _named(item: Input) -> Input:
    """An input with a name; the only one of a query has none in its family."""
    return item if item.alias or not isinstance(item.source, Stream) else replace(item, alias=item.source.name)


def _over(family: Family) -> Mapping[Expression, Expression]:
    """What the columns of a family are called in a query."""
    return {
        Column(item.alias, each.name, each.type): Column(_named(item).alias, each.name, each.type)
        for item in family.inputs
        for each in item.source.fields
    }


def _combination(family: Family, form: Form, columns: Mapping[str, Expression]) -> Select:
    meaning = _over(family)
    inputs = [_named(each) for each in family.inputs]
    if form.windows is not None:
        ranges = iter(form.windows.ranges)
        inputs = [
            replace(each, window=Window(next(ranges), form.windows.slide, form.windows.origin))
            if isinstance(each.source, Stream)
            else each
            for each in inputs
        ]
    conditions = [each for each in (family.common, condition_of_regions(form.regions)) if each is not None]
    where = conjunction(conditions)
    return Select(
        inputs=tuple(inputs),
        where=None if where is None else substituted(where, meaning),
        outputs=tuple(Output(name, substituted(each, meaning)) for name, each in columns.items()),
        clock_type=family.clock_type,
    )


def _aggregate(
    family: Family,
    form: Form,
    end: ResidueClass,
    columns: Mapping[str, Expression],
    aggregates: Mapping[str, Aggregate],
) -> Select:
    assert family.range is not None
    meaning = _over(family)
    having = condition_of_regions(form.regions)
    read = frozenset().union(*(columns_of(each) for each in (*columns.values(), *([having] if having else []))))
    used = sorted({column.name for column in read if column.name in aggregates})
    if not family.keys and not used:
        # Nobody shows an aggregate, but it is one that makes a row of an instance.
        used = sorted(aggregates)[:1]
    groups: dict[Expression, Expression] = {
        Column("", WINDOW_END if bound else WINDOW_START, family.clock_type): WindowBound(bound, family.clock_type)
        for bound in (False, True)
    }
    for number, key in enumerate(family.keys):
        name = key.name if isinstance(key, Column) else text_of(key)
        groups[Column("", name, key.type)] = KeyRef(number, key.type)
    for number, name in enumerate(used):
        groups[Column("", name, aggregates[name].type)] = AggregateRef(number, aggregates[name].type)
    of_rows = _condition_of_rows(family, form)
    where = conjunction([each for each in (family.common, of_rows) if each is not None])
    return Select(
        inputs=tuple(map(_named, family.inputs)),
        where=None if where is None else substituted(where, meaning),
        outputs=tuple(Output(name, substituted(each, groups)) for name, each in columns.items()),
        clock_type=family.clock_type,
        window=Window(family.range, end.modulus, (end.residue - family.range) % end.modulus),
        keys=tuple(substituted(key, meaning) for key in family.keys),
        aggregates=tuple(
            replace(aggregates[name], args=tuple(substituted(arg, meaning) for arg in aggregates[name].args))
            for name in used
        ),
        having=None if having is None else substituted(having, groups),
    )


def _condition_of_rows(family: Family, form: Form) -> Expression | None:
    """What the regions demand of grouping columns, before grouping: most groups need not be made at all."""
    columns = {key.name: key for key in family.keys if isinstance(key, Column)}
    boxes: list[Box] = []
    for region in form.regions:
        box = {
            subject: values
            for subject, values in region.box.items()
            if is_of_groups(disjunction_with([null_test(subject, is_null=False)]), columns)
        }
        if not box:
            return None
        boxes.append(box)
    return condition_of_boxes(boxes)
