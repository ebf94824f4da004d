"""What a select wants of the network: rows of which logs, together, satisfying what, with which columns.

The windows of a join's inputs are predicates on pairs of clocks. With windows of ranges r_i, rows meet iff one instant
finds all of them inside their windows:

    instant(max t) < t_i + r_i   for all i          instant(t): the first instant at or after t

The first instant after the latest row is the latest of the first instants after each row. So the condition falls apart
into pairs, `instant(t_j) < t_i + r_i` for all i and j, and every pair of inputs can be joined on its own.

    slide 1      every tick is an instant:  t_j - t_i <= r_i - 1, as a user would write it
    otherwise    instant(t) is a term that is not taken apart; t_j - t_i <= r_i - 1 is said besides, since a join can
                 look for it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from weft.algebra import Call, Column, Expression, Input, Literal, Select, Window
from weft.algebra.properties import clock_column, clock_type
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.plan.log_ids import LogId
from weft.plan.network import CLOCK
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_with, predicate_set
from weft.predicates.domains import Domain, Facts, clock_facts
from weft.predicates.inference import with_inferred
from weft.predicates.literals import literals_of
from weft.predicates.normal_forms import conjunctive_form
from weft.predicates.subjects import sum_of, variable
from weft.predicates.terms import Term, canonical, columns_of, term_of, text_of, with_sources

#: The clocks of answers: at most a window away from those of streams, and never NULL.
_TICKS = Domain(Fraction(-(1 << 62)), Fraction(1 << 62), Fraction(1), nullable=False)


def clock_columns(select: Select) -> Mapping[str, Column]:
    """The clock of each input that flows, by alias: the column that shows it, or one that no user can name."""
    clocks: dict[str, Column] = {}
    for item in select.flowing:
        shown = clock_column(item.source)
        clocks[item.alias] = (
            Column(item.alias, CLOCK, BIGINT) if shown is None else Column(item.alias, shown, clock_type(item.source))
        )
    return clocks


def facts_of(select: Select) -> Facts:
    """What is known of the clocks of a select's inputs."""
    return {**dict.fromkeys(clock_columns(select).values(), _TICKS), **clock_facts(select)}


def meeting_predicates(select: Select) -> list[Disjunction]:
    """What the windows of a join's inputs demand of each pair of them, and of each of them."""
    windowed = [(item.alias, item.window) for item in select.inputs if item.window is not None]
    clocks, facts = clock_columns(select), facts_of(select)
    return [
        disjunction
        for alias, window in windowed
        if window.range is not None
        for other, _ in windowed
        for disjunction in _pair(window, clocks[alias], clocks[other], facts)
    ]


def _pair(window: Window, own: Column, other: Column, facts: Facts) -> Iterator[Disjunction]:
    """That the first instant after the other row finds a row in its window."""
    assert window.range is not None
    last = Fraction(window.range - 1)
    if own != other:
        yield _at_most(term_of(other, facts), term_of(own, facts), last)
    # At the next instant a row is in its own window, unless instants are further apart than the window is long.
    if window.slide > 1 and (own != other or window.range < window.slide):
        yield _at_most(_instant(other, window, facts), term_of(own, facts), last)


def _at_most(later: Term, earlier: Term, ticks: Fraction) -> Disjunction:
    """later - earlier <= ticks."""
    subject, factor = sum_of(variable(later) - variable(earlier))
    return disjunction_with(literals_of(subject, "<=" if factor > 0 else ">=", ticks / factor))


def _instant(clock: Column, window: Window, facts: Facts) -> Term:
    """The first instant at or after a clock, t + pmod(origin - t, slide), as a term that is not taken apart."""
    ticks: Expression = Call("unix_micros", (clock,), BIGINT) if clock.type == TIMESTAMP else clock
    slide = Literal(window.slide, BIGINT)
    rest = _whole("%", _whole("-", Literal(window.origin, BIGINT), ticks), slide)
    term = canonical(_whole("+", ticks, _whole("%", _whole("+", rest, slide), slide)))
    low, high = term_of(clock, facts).range
    return Term(text_of(term), term, Domain(low, high + window.slide, Fraction(1), nullable=False))


def _whole(op: str, left: Expression, right: Expression) -> Expression:
    return Call(op, (left, right), BIGINT)


@dataclass(frozen=True, slots=True)
class SelectNeeds:
    """A select as the network sees it. Input i is called `T<i+1>` in the predicates, and i in the columns.

    `timely` says that rows which came too late for every window take no part. `facts` are known of the inputs' clocks.
    """

    logs: tuple[LogId, ...]
    predicates: PredicateSet
    columns: frozenset[tuple[int, str]]
    timely: bool
    facts: Facts = field(default_factory=dict, compare=False)


def is_shareable(select: Select) -> bool:
    """Whether the network can give a select its rows: it passes rows or combinations of rows through, once, at once."""
    remembers = select.distinct and select.retain is not None
    return not (select.is_grouped or select.window is not None or remembers)


def leg_name(leg: int) -> str:
    """The name of leg or input number `leg`, counted from 0."""
    return f"T{leg + 1}"


def legs_read(condition: Disjunction) -> tuple[int, ...]:
    """The numbers of the legs or inputs that a condition is about, in their order."""
    return tuple(sorted(int(name[1:]) - 1 for name in condition.sources))


def wanted(select: Select, logs: Sequence[LogId], *, with_inference: bool = True) -> SelectNeeds:
    """What a select over inputs whose rows are in these logs wants, and what follows from it for single inputs."""
    numbered = with_numbered_inputs(select)
    facts = facts_of(numbered)
    where = conjunctive_form(numbered.where, facts)
    predicates = where
    if len(select.inputs) > 1:
        predicates = predicate_set([*where.disjunctions, *meeting_predicates(numbered)])
        predicates = with_inferred(predicates) if with_inference else predicates
    shown = frozenset(
        (int(column.source[1:]) - 1, column.name) for each in numbered.outputs for column in columns_of(each.expression)
    )
    return SelectNeeds(tuple(logs), predicates, shown, select.is_bounded, facts)


def with_numbered_inputs(select: Select) -> Select:
    """The select with its inputs called T1, T2, … in their order."""
    names = {item.alias: leg_name(number) for number, item in enumerate(select.inputs)}
    return replace(
        select,
        inputs=tuple(Input(item.source, names[item.alias], item.window) for item in select.inputs),
        where=None if select.where is None else with_sources(select.where, names),
        outputs=tuple(replace(each, expression=with_sources(each.expression, names)) for each in select.outputs),
    )
