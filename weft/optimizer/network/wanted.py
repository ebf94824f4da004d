"""What a select wants of the network: rows of which logs, together, satisfying what, with which columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from weft.algebra import Call, Column, Expression, Input, Select
from weft.optimizer.network.meeting_predicates import facts_of, meeting_predicates
from weft.optimizer.network.sharing import ALL_SHARING, Sharing
from weft.predicates import Facts, PredicateSet, condition_of, condition_of_disjunction, conjunctive_form, with_inferred
from weft.predicates.clauses import Disjunction, disjunction_with, set_with
from weft.predicates.conjunctions import predicate_set
from weft.predicates.domains import domain_of
from weft.predicates.literals import literals_of
from weft.predicates.subjects import Term
from weft.predicates.terms import canonical, columns_of, text_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """A select as the network sees it. Input i is called `T<i+1>` in the predicates, and i in the columns.

    `timely` says that rows which came too late for every window take no part. `facts` are known of the inputs' clocks.
    """

    logs: tuple[str, ...]
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


def wanted(select: Select, logs: Sequence[str], sharing: Sharing = ALL_SHARING) -> Wanted:
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
    return Wanted(tuple(logs), predicates, shown, select.is_bounded, facts)


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
        [*map(_whole, _conjuncts(select.where)), *(_whole(condition_of_disjunction(each)) for each in added)]
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


def _whole(condition: Expression) -> Disjunction:
    term = canonical(condition)
    return disjunction_with(literals_of(Term(text_of(term), term, domain_of(term.type)), "=", Fraction(1)))
