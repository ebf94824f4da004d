"""Which bound queries can be merged with others, and what of them.

    selection     rows of one stream, perhaps with tables, that satisfy a condition
    join          combinations of rows of several streams that meet in bounded windows
    aggregate     groups of the rows of one stream, when windows close

Everything else is alone: UNBOUNDED aggregates and joins, set operators, DISTINCT, EMIT EMPTY, windows that give rows,
queries over queries, and what said SHARING OFF.

A **shape** has the query in terms that do not depend on its user: inputs have standard aliases, and whatever it needs
of the published rows has a name that is its own text. What is computed after grouping is written over columns that are
called like the keys and aggregates in their place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import weft.algebra as algebra
from weft.optimizer.group_results.forms import QueryFamily, QueryKind
from weft.plan.canonical import normalised, substituted, with_expressions
from weft.predicates.clauses import Disjunction, predicate_set, set_with
from weft.predicates.domains import clock_facts
from weft.predicates.normal_forms import Box, condition_of, conjunctive_form, disjunctive_form
from weft.predicates.operations import standard_form
from weft.predicates.subjects import Subject
from weft.predicates.terms import Term, canonical, text_of, with_sources
from weft.windows.join_windows import JoinWindows
from weft.windows.slicing import ResidueClass, residue_class

#: A condition of more boxes than that is not taken apart, and its query stays alone.
MOST_BOXES_OF_A_MEMBER = 32


@dataclass(frozen=True, slots=True)
class QueryShape:
    """A query that can be merged: its family, its condition as boxes, its windows, and what it shows.

    `outputs` have the names that its user sees. `aggregates` are those that outputs and boxes speak of, by name.
    """

    family: QueryFamily
    boxes: tuple[Box, ...]
    outputs: tuple[algebra.Output, ...]
    windows: JoinWindows | None = None
    end: ResidueClass | None = None
    aggregates: Mapping[str, algebra.Aggregate] = field(default_factory=dict)


def clocks_of(family: QueryFamily) -> tuple[algebra.Column, ...]:
    """The clock columns of the inputs that flow, in the order of the inputs."""
    return tuple(
        algebra.Column(each.alias, each.source.clock, family.clock_type)
        for each in family.inputs
        if isinstance(each.source, algebra.Stream)
    )


def shape_of(query: algebra.Query) -> QueryShape | None:
    select = normalised(query.relation) if query.sharing else None
    if not isinstance(select, algebra.Select) or select.distinct or select.retain or select.emit_empty:
        return None
    if not all(isinstance(each.source, (algebra.Stream, algebra.Table)) for each in select.inputs):
        return None
    if select.is_grouped:
        return _aggregate(select)
    return _combination(select) if select.window is None else None


# --- selections and joins --------------------------------------------------------------------------------------------


def _combination(select: algebra.Select) -> QueryShape | None:
    flowing = select.flowing
    is_join = len(flowing) > 1
    if any((each.window is None or each.window.is_unbounded) if is_join else each.window for each in flowing):
        return None
    select = _with_standard_aliases(select)
    conditions = conjunctive_form(select.where, clock_facts(select)).disjunctions
    equations = [each for each in conditions if _is_equation(each)]
    boxes = _boxes([each for each in conditions if not _is_equation(each)])
    if boxes is None:
        return None
    common = set_with(equations)
    family = QueryFamily(
        QueryKind.JOIN if is_join else QueryKind.SELECTION,
        tuple(replace(each, window=None) for each in select.inputs),
        select.clock_type,
        common.text,
        condition_of(common),
    )
    windows = [each.window for each in select.flowing if each.window is not None]
    ranges = tuple(each.range for each in windows if each.range is not None)
    outputs = tuple(algebra.Output(each.name, canonical(each.expression)) for each in select.outputs)
    meeting = JoinWindows(ranges, windows[0].slide, windows[0].origin) if is_join else None
    return QueryShape(family, boxes, outputs, meeting)


def _is_equation(condition: Disjunction) -> bool:
    """Whether it is an equation between inputs: what joins can be looked up by."""
    return len(condition.literals) == 1 and condition.literals[0].operator == "=" and len(condition.sources) > 1


def _boxes(conditions: list[Disjunction]) -> tuple[Box, ...] | None:
    """Conditions as boxes; None if they are too many, or none at all because nothing satisfies them."""
    return disjunctive_form(set_with(conditions), MOST_BOXES_OF_A_MEMBER) or None


def _with_standard_aliases(select: algebra.Select) -> algebra.Select:
    """The select with inputs named by what they read, in the order of their names; the only one is called ""."""
    tables = {
        each.alias: each.source.name
        for each in select.inputs
        if isinstance(each.source, (algebra.Stream, algebra.Table))
    }
    if len(tables) == 1:
        names: Mapping[str, str] = dict.fromkeys(tables, "")
    elif max(Counter(tables.values()).values()) == 1:
        names = tables
    else:
        _, names = standard_form(conjunctive_form(select.where, clock_facts(select)), tables)
    select = with_aliases(select, names)
    inputs = sorted(select.inputs, key=lambda each: each.alias)
    aggregates = (replace(each, args=tuple(map(canonical, each.args))) for each in select.aggregates)
    return replace(select, inputs=tuple(inputs), aggregates=tuple(aggregates))


def with_aliases(select: algebra.Select, names: Mapping[str, str]) -> algebra.Select:
    """The select with other aliases for its inputs."""
    inputs = tuple(replace(each, alias=names[each.alias]) for each in select.inputs)
    return with_expressions(replace(select, inputs=inputs), partial(with_sources, names=names))


# --- aggregates ------------------------------------------------------------------------------------------------------


def _aggregate(select: algebra.Select) -> QueryShape | None:
    window = select.window
    if window is None or window.range is None or len(select.inputs) > 1:
        return None
    select = _with_standard_aliases(select)
    keys = {_key_column(key).name: key for key in map(canonical, select.keys)}
    meaning = columns_after_grouping(map(canonical, select.keys), select.aggregates, select.clock_type)
    if not _are_told_apart(select, meaning.values()):
        return None
    facts = clock_facts(select)
    conditions = conjunctive_form(select.where, facts).disjunctions
    of_groups = [each for each in conditions if all(is_of_groups(one.subject, keys) for one in each.literals)]
    having = conjunctive_form(None if select.having is None else substituted(select.having, meaning), facts)
    boxes = _boxes(list(predicate_set([*of_groups, *having.disjunctions]).disjunctions))
    if boxes is None:
        return None
    common = set_with(each for each in conditions if each not in of_groups)
    named = sorted(keys)
    family = QueryFamily(
        QueryKind.AGGREGATE,
        select.inputs,
        select.clock_type,
        f"{common.text} GROUP BY {', '.join(named)}",
        condition_of(common),
        tuple(keys[name] for name in named),
        window.range,
    )
    return QueryShape(
        family,
        boxes,
        tuple(algebra.Output(each.name, canonical(substituted(each.expression, meaning))) for each in select.outputs),
        end=residue_class(window.slide, window.origin + window.range),
        aggregates={aggregate_name(each): each for each in select.aggregates},
    )


def columns_after_grouping(
    keys: Iterable[algebra.Expression], aggregates: Iterable[algebra.Aggregate], clock_type: algebra.DataType
) -> dict[algebra.Expression, algebra.Column]:
    """The columns that bounds, keys and aggregates are written as after grouping."""
    columns: dict[algebra.Expression, algebra.Column] = {
        algebra.WindowBound(end, clock_type): algebra.Column(
            "", algebra.WINDOW_END if end else algebra.WINDOW_START, clock_type
        )
        for end in (False, True)
    }
    for number, key in enumerate(keys):
        columns[algebra.KeyRef(number, key.type)] = _key_column(key)
    for number, each in enumerate(aggregates):
        columns[algebra.AggregateRef(number, each.type)] = algebra.Column("", aggregate_name(each), each.type)
    return columns


def _key_column(key: algebra.Expression) -> algebra.Column:
    return algebra.Column("", key.name if isinstance(key, algebra.Column) else text_of(key), key.type)


def _are_told_apart(select: algebra.Select, columns: Iterable[algebra.Column]) -> bool:
    """Whether the names of columns are enough to tell what they show."""
    computed = [*select.keys, *(arg for each in select.aggregates for arg in each.args)]
    odd = (key for key in select.keys if isinstance(key, algebra.Column) and not key.name.isidentifier())
    if any(_reads_bounds(each) for each in computed) or any(odd):
        return False
    keys, aggregates = set(map(_key_column, map(canonical, select.keys))), set(map(aggregate_name, select.aggregates))
    return len({column.name for column in columns}) == 2 + len(keys) + len(aggregates)


def _reads_bounds(expression: algebra.Expression) -> bool:
    if isinstance(expression, algebra.Call):
        return any(map(_reads_bounds, expression.args))
    return isinstance(expression, algebra.WindowBound)


@lru_cache(maxsize=10_000)
def aggregate_name(aggregate: algebra.Aggregate) -> str:
    """The name of an aggregate's column: its text."""
    args = ", ".join(map(text_of, aggregate.args)) or "*"
    return f"{aggregate.function.upper()}({'DISTINCT ' * aggregate.distinct}{args})"


def published_name(family: QueryFamily, expression: algebra.Expression) -> str:
    """The name of a published column: the text of what it shows."""
    # After grouping, columns are called by their texts already.
    if family.kind is QueryKind.AGGREGATE and isinstance(expression, algebra.Column):
        return expression.name
    return text_of(expression)


def is_of_groups(subject: Subject, keys: Mapping[str, algebra.Expression]) -> bool:
    """Whether a subject has one value for all rows of a group: it reads nothing but grouping columns.

    0.0 and -0.0 are one key. A comparison does not tell them apart; a function may.
    """
    is_column = isinstance(subject, Term) and isinstance(subject.expression, algebra.Column)
    is_told = is_column or not any(column.type.is_floating for column in subject.columns)
    return is_told and all(keys.get(column.name) == column for column in subject.columns)
