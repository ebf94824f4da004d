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
from enum import Enum
from fractions import Fraction

from weft.algebra import Call, Column, Expression, Input, Literal, Select, Window
from weft.algebra.properties import clock_column, clock_type
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.plan.log_ids import LogId
from weft.plan.network import CLOCK
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_with, predicate_set, set_with
from weft.predicates.domains import Domain, Facts, clock_facts, domain_of
from weft.predicates.literals import literals_of
from weft.predicates.normal_forms import condition_of, condition_of_disjunction, conjunctive_form
from weft.predicates.polynomials import Atom, minus, variable
from weft.predicates.terms import Term, atom_of, canonical, columns_of, sum_of, text_of
from weft.predicates.transitivity import with_inferred


class Strategy(Enum):
    """How the joins of a new query are chosen."""

    #: Together with what there is to share: a join that exists is worth more than the best order of joins.
    SELECTION = "sharing-selection"
    #: First the best order for the query alone, then what of it exists already, from the bottom up.
    MATCH_PLAN = "match-plan"


@dataclass(frozen=True, slots=True)
class SharingOptions:
    """A configuration.

    `joins` says whether queries share joins; selections they always share. Without `canonical`, conditions are compared
    as they are written. With `restructuring`, joins that are there give way to weaker ones that more queries can share.
    With `inference`, selections that follow from joins are made before them.
    """

    joins: bool = True
    canonical: bool = True
    strategy: Strategy = Strategy.SELECTION
    restructuring: bool = True
    inference: bool = True


ALL_SHARING = SharingOptions()
MATCH_PLAN = SharingOptions(strategy=Strategy.MATCH_PLAN, restructuring=False)
NON_CANON = SharingOptions(canonical=False, restructuring=False)
MATCH_PLAN_NON_CANON = SharingOptions(canonical=False, strategy=Strategy.MATCH_PLAN, restructuring=False)
NON_JOIN_SHARING = SharingOptions(joins=False, restructuring=False)

#: The five that are compared, by the names they have in the literature.
CONFIGURATIONS = {
    "AllSharing": ALL_SHARING,
    "MatchPlan": MATCH_PLAN,
    "NonCanon": NON_CANON,
    "MPlan_NCanon": MATCH_PLAN_NON_CANON,
    "NonJoinS": NON_JOIN_SHARING,
}


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
    found: list[Disjunction] = []
    for alias, window in windowed:
        if window.range is not None:
            for other, _ in windowed:
                found += _pair(window, clocks[alias], clocks[other], facts)
    return found


def _pair(window: Window, own: Column, other: Column, facts: Facts) -> Iterator[Disjunction]:
    """That the first instant after the other row finds a row in its window."""
    assert window.range is not None
    last = Fraction(window.range - 1)
    if own != other:
        yield from _at_most(atom_of(other, facts), atom_of(own, facts), last)
    # At the next instant a row is in its own window, unless instants are further apart than the window is long.
    if window.slide > 1 and (own != other or window.range < window.slide):
        yield from _at_most(_instant(other, window, facts), atom_of(own, facts), last)


def _at_most(later: Atom, earlier: Atom, ticks: Fraction) -> Iterator[Disjunction]:
    """later - earlier <= ticks, if that is not always so."""
    subject, factor = sum_of(minus(variable(later), variable(earlier)))
    literals = literals_of(subject, "<=" if factor > 0 else ">=", ticks / factor)
    yield disjunction_with(literals)


def _instant(clock: Column, window: Window, facts: Facts) -> Atom:
    """The first instant at or after a clock, t + pmod(origin - t, slide), as a term that is not taken apart."""
    term = canonical(_instant_ticks(clock, window))
    low, high = atom_of(clock, facts).range
    return Atom(text_of(term), term, Domain(low, high + window.slide, Fraction(1), nullable=False))


def _instant_ticks(clock: Column, window: Window) -> Expression:
    ticks: Expression = Call("unix_micros", (clock,), BIGINT) if clock.type == TIMESTAMP else clock
    slide = Literal(window.slide, BIGINT)
    rest = _whole("%", _whole("-", Literal(window.origin, BIGINT), ticks), slide)
    return _whole("+", ticks, _whole("%", _whole("+", rest, slide), slide))


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


def wanted(select: Select, logs: Sequence[LogId], sharing: SharingOptions = ALL_SHARING) -> SelectNeeds:
    """A select over inputs whose rows are in these logs."""
    numbered = _with_numbered_inputs(select)
    facts = facts_of(numbered)
    where = conjunctive_form(numbered.where, facts)
    predicates = _predicates(numbered, where, sharing.inference)
    shown = frozenset(
        (int(column.source[1:]) - 1, column.name) for each in numbered.outputs for column in columns_of(each.expression)
    )
    if not sharing.canonical:
        predicates = _as_written(numbered, where, predicates)
    return SelectNeeds(tuple(logs), predicates, shown, select.is_bounded, facts)


def _predicates(select: Select, where: PredicateSet, with_inference: bool) -> PredicateSet:
    """What a combination must satisfy: the condition, the windows, and what follows from them for single inputs."""
    if len(select.inputs) == 1:
        return where
    predicates = predicate_set([*where.disjunctions, *meeting_predicates(select)])
    return with_inferred(predicates) if with_inference else predicates


def _with_numbered_inputs(select: Select) -> Select:
    """The select with its inputs called T1, T2, … in their order."""
    names = {item.alias: leg_name(number) for number, item in enumerate(select.inputs)}
    return replace(
        select,
        inputs=tuple(Input(item.source, names[item.alias], item.window) for item in select.inputs),
        where=None if select.where is None else _renamed(select.where, names),
        outputs=tuple(replace(each, expression=_renamed(each.expression, names)) for each in select.outputs),
    )


def _renamed(expression: Expression, names: dict[str, str]) -> Expression:
    if isinstance(expression, Column):
        return replace(expression, source=names[expression.source])
    if isinstance(expression, Call):
        return replace(expression, args=tuple(_renamed(arg, names) for arg in expression.args))
    return expression


def _as_written(select: Select, where: PredicateSet, predicates: PredicateSet) -> PredicateSet:
    """Conditions as whole terms that match nothing but themselves: what sharing is like without canonical forms.

    What the windows demand and what is inferred, the user has not written; it is taken as canonical forms have it.
    """
    added = [each for each in predicates.disjunctions if each not in where.disjunctions]
    return set_with(
        [
            *map(_as_one_term, _conjuncts(select.where)),
            *(_as_one_term(condition_of_disjunction(each)) for each in added),
        ]
    )


def as_computed(predicates: PredicateSet, facts: Facts) -> PredicateSet:
    """Conditions that were kept as they are written, in the one way to write them: what runs knows no other."""
    return conjunctive_form(condition_of(predicates), facts)


def _conjuncts(condition: Expression | None) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.op == "and":
        for arg in condition.args:
            yield from _conjuncts(arg)
    elif condition is not None:
        yield condition


def _as_one_term(condition: Expression) -> Disjunction:
    term = canonical(condition)
    return disjunction_with(literals_of(Term(text_of(term), term, domain_of(term.type)), "=", Fraction(1)))
