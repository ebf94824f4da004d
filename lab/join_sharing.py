"""Configurations of sharing that the literature compares with the product's, and the weighted size of a network.

    AllSharing      the product: joins are shared, and give way to weaker ones that more selects can share
    MatchPlan       first the best order for a select alone, then what of it exists already, from the bottom up
    NonCanon        conditions are compared as they are written
    MPlan_NCanon    both
    NonJoinS        selects share selections, and no joins

All but the first plan without weaker joins.

The weighted size measures what the optimiser has found to share, without rows or an engine:

    selections after 0, 1, 2, 3, 4 joins     5, 4, 3, 2, 1
    joins number 1, 2, 3, 4 of a chain       16, 8, 4, 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from weft.algebra import Call, Column, Expression, Select
from weft.optimizer.network.choose_joins import ExistingRows, JoinChoice, NewJoin, Part, rank
from weft.optimizer.network.nodes import Anchors
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.sizes import NOTHING_KNOWN, SizeStatistics
from weft.optimizer.network.wanted import SelectNeeds, facts_of, leg_name, wanted, with_numbered_inputs
from weft.plan.log_ids import LogId
from weft.plan.network import Network
from weft.predicates.clauses import Disjunction, PredicateSet, disjunction_with, set_with
from weft.predicates.domains import Domain, domain_of
from weft.predicates.literals import literals_of
from weft.predicates.normal_forms import condition_of, condition_of_disjunction, conjunctive_form
from weft.predicates.terms import Term, canonical, text_of


class WithoutRestructuring(Planner):
    """The product without weaker joins."""

    def _weaker_join(self, ways: Iterable[tuple[Anchors, PredicateSet, bool]]) -> None:
        return None


class _ApartChoice(JoinChoice):
    """The search for joins of which none is there yet."""

    def _shared(self, left: ExistingRows, right: ExistingRows) -> Iterator[ExistingRows]:
        return iter(())


class WithoutJoinSharing(WithoutRestructuring):
    """Selects share selections alone."""

    def choice(self, needs: SelectNeeds, without: frozenset[int] = frozenset()) -> JoinChoice:
        return _ApartChoice(needs, self.estimates, without)

    def _equal_join(self, anchors: Anchors, joined: PredicateSet) -> None:
        return None


class WithoutInference(Planner):
    """The product without selections that follow from joins."""

    def needs_of(self, select: Select, logs: Sequence[LogId]) -> SelectNeeds:
        return wanted(select, logs, with_inference=False)


class MatchPlan(WithoutRestructuring):
    """The order of joins is chosen before it is known what exists of it."""

    def choice(self, needs: SelectNeeds, without: frozenset[int] = frozenset()) -> JoinChoice:
        return _MatchedChoice(needs, self.estimates, without)


class _MatchedChoice(JoinChoice):
    def best(self) -> Part:
        return self._matched(_ApartChoice(self.wanted, self._estimates, self._without).best())

    def _matched(self, part: Part) -> Part:
        """A fixed order with the joins that exist, from the bottom up."""
        if isinstance(part, ExistingRows):
            return part
        left, right = self._matched(part.left_part), self._matched(part.right_part)
        shared: list[Part] = []
        if isinstance(left, ExistingRows) and isinstance(right, ExistingRows):
            shared = [way for way in self._shared(left, right) if self._reads_the_same_selections(way, left, right)]
        return min(shared, key=rank) if shared else NewJoin(left, right, part.selected_rows, part.cost)

    def _reads_the_same_selections(self, join: ExistingRows, left: ExistingRows, right: ExistingRows) -> bool:
        """Whether a join reads the very selections of logs that a plan has below it.

        A plan is matched from the bottom up, so what it selects from logs is settled before joins are looked at. What
        joins leave over is carried on above them, and what is not worth a node of its own is part of the join.
        """
        sides = (left, right) if join.legs[: len(left.legs)] == left.legs else (right, left)
        parents = self._nodes[join.anchor].parents
        return all(self._is_read_through(*pair) for pair in zip(parents, sides, strict=True))

    def _is_read_through(self, parent: int, part: ExistingRows) -> bool:
        is_log = not self._nodes[part.anchor].parents
        predicates = self.over(part.legs, part.left)
        if is_log and part.left and self._estimates.is_worth_a_node(part.anchor, predicates):
            return parent == self._nodes.equal(part.anchor, predicates)
        return self._nodes[parent].anchor == part.anchor

    def _subsuming(self, anchors: Anchors, predicates: PredicateSet) -> list[int]:
        return sorted(self._nodes.closest(anchors, predicates))


class NonCanon(WithoutRestructuring):
    """Conditions are whole terms that match nothing but themselves: what sharing is like without canonical forms.

    What the windows demand and what is inferred, the user has not written; it is taken as canonical forms have it.
    """

    def __init__(self, statistics: SizeStatistics = NOTHING_KNOWN) -> None:
        super().__init__(statistics)
        self._clocks: dict[LogId, tuple[tuple[Column, Domain], ...]] = {}

    def needs_of(self, select: Select, logs: Sequence[LogId]) -> SelectNeeds:
        needs, numbered = wanted(select, logs), with_numbered_inputs(select)
        for column, domain in needs.facts.items():
            self._clocks.setdefault(logs[int(column.source[1:]) - 1], ((column, domain),))
        where = conjunctive_form(numbered.where, facts_of(numbered))
        added = [each for each in needs.predicates.disjunctions if each not in where.disjunctions]
        written = [*_conjuncts(numbered.where), *map(condition_of_disjunction, added)]
        return replace(needs, predicates=set_with(map(_as_one_term, written)))

    @property
    def network(self) -> Network:
        """The network with its conditions in canonical form: what runs knows no other."""
        network = super().network
        nodes = {
            number: replace(node, predicates=conjunctive_form(condition_of(node.predicates), self._facts_of(node.legs)))
            for number, node in network.nodes.items()
        }
        return replace(network, nodes=nodes)

    def _facts_of(self, legs: Sequence[LogId]) -> dict[Column, Domain]:
        return {
            replace(column, source=leg_name(leg)): domain
            for leg, log in enumerate(legs)
            for column, domain in self._clocks.get(log, ())
        }


class NonCanonMatchPlan(NonCanon, MatchPlan):
    """Both."""


def _conjuncts(condition: Expression | None) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.op == "and":
        for arg in condition.args:
            yield from _conjuncts(arg)
    elif condition is not None:
        yield condition


def _as_one_term(condition: Expression) -> Disjunction:
    term = canonical(condition)
    return disjunction_with(literals_of(Term(text_of(term), term, domain_of(term.type)), "=", Fraction(1)))


#: The five that are compared, by the names they have in the literature.
CONFIGURATIONS: dict[str, type[Planner]] = {
    "AllSharing": Planner,
    "MatchPlan": MatchPlan,
    "NonCanon": NonCanon,
    "MPlan_NCanon": NonCanonMatchPlan,
    "NonJoinS": WithoutJoinSharing,
}


def weighted_size(network: Network) -> int:
    """The sum of the weights of all nodes."""
    levels: dict[int, int] = {}
    total = 0
    for number, node in network.nodes.items():
        below = max((levels[parent] for parent in node.parents), default=0)
        levels[number] = below + node.is_join
        if node.is_join:
            total += max(32 >> levels[number], 1)
        elif not node.is_base:
            total += max(5 - levels[number], 1)
    return total
