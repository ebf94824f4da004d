"""The nodes that a select still lacks, built from the bottom up along the joins that were chosen for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.optimizer.network.choose_joins import ExistingRows, JoinRequest, NewJoin, Part
from weft.optimizer.network.estimates import Estimates
from weft.optimizer.network.node_predicates import Renaming, both, residual, with_legs_moved
from weft.optimizer.network.nodes import Anchors, Nodes
from weft.optimizer.network.restructure import Option, best_option, strengthen, weaken
from weft.predicates.clauses import Disjunction, PredicateSet, set_implies, set_with


@dataclass(frozen=True, slots=True)
class Anchored:
    """Inputs of a select that a join or a log has together: its legs, and the conditions that its rows satisfy."""

    anchor: int
    legs: tuple[int, ...]
    done: frozenset[int]


class Builder:
    """Builds nodes for one select after the other."""

    def __init__(
        self, nodes: Nodes, estimates: Estimates, renaming: Renaming, *, shares_joins: bool, restructures: bool
    ) -> None:
        self._nodes, self._estimates, self._renaming = nodes, estimates, renaming
        self._shares_joins, self._restructures = shares_joins, restructures
        self._made_first: list[int] = []

    def build(self, part: Part, request: JoinRequest) -> tuple[int, tuple[int, ...]]:
        """The node that gives a select its rows, and which of its inputs each leg is."""
        selections = _weaker_first(self._selections_of_logs(part, request))
        self._made_first = [self.selection(anchor, predicates) for anchor, predicates in selections]
        top = self._anchored(part, request)
        left = request.within(frozenset(top.legs)) - top.done
        return self.selection(top.anchor, request.over(top.legs, left)), top.legs

    def clear_up(self) -> None:
        """Removes selections that were made in advance, if a weaker join has come about that reads others."""
        for number in self._made_first:
            self._nodes.remove_unused(number)

    # -- selections ---------------------------------------------------------------------------------------------------

    def selection(self, anchor: int, predicates: PredicateSet) -> int:
        """The node that selects from an anchor's rows: a shared one, or a new one above the closest."""
        same = self._nodes.equal_selection(anchor, predicates)
        if same is not None:
            return same
        parent = self._closest(anchor, predicates)
        left = residual(predicates, self._nodes[parent].selected)
        if not left.disjunctions:
            return parent
        return self._nodes.add_selection(parent, left, predicates, self._estimates.selected(anchor, predicates))

    def _closest(self, anchor: int, predicates: PredicateSet) -> int:
        """The smallest of the nodes over an anchor that give all that is wanted, and perhaps more."""
        above = self._nodes.closest_selections(anchor, predicates)
        return min(above, key=lambda number: (self._estimates.rows(number), number), default=anchor)

    def _selections_of_logs(self, part: Part, request: JoinRequest) -> Iterator[tuple[int, PredicateSet]]:
        """The selections that the joins of a part will need of logs and of joins that exist."""
        if isinstance(part, NewJoin):
            for side in (part.left_part, part.right_part):
                yield from self._selections_of_logs(side, request)
                if isinstance(side, ExistingRows) and side.left:
                    predicates = request.over(side.legs, side.left)
                    if self._estimates.is_worth_a_node(side.anchor, predicates):
                        yield side.anchor, predicates

    # -- joins --------------------------------------------------------------------------------------------------------

    def _anchored(self, part: Part, request: JoinRequest) -> Anchored:
        """The join or log that a part's rows come from, which is built if it is not there."""
        if isinstance(part, ExistingRows):
            return Anchored(part.anchor, part.legs, part.done)
        left, right = self._anchored(part.left_part, request), self._anchored(part.right_part, request)
        first, second = _oriented(left, right)
        done = left.done | right.done
        wanted = request.within(frozenset(first.legs + second.legs)) - done
        legs, anchors = first.legs + second.legs, (first.anchor, second.anchor, request.wanted.timely)
        joined = request.over(legs, wanted)
        if self._shares_joins:
            # Building the parts below may have brought about an equal join.
            number = self._nodes.equal_join(anchors, joined)
            if number is not None:
                return Anchored(number, legs, done | wanted)
            if self._restructures:
                turned = (second.anchor, first.anchor, request.wanted.timely)
                turned_legs = second.legs + first.legs
                ways = (anchors, joined, False), (turned, request.over(turned_legs, wanted), True)
                option = best_option(self._nodes, self._estimates, ways)
                if option is not None:
                    legs = turned_legs if option.is_turned else legs
                    number = self._weakened(option)
                    open_ = request.not_implied(legs, wanted, self._nodes[number].joined)
                    return Anchored(number, legs, done | (wanted - open_))
        return Anchored(self.join(anchors, joined), legs, done | wanted)

    def join(self, anchors: Anchors, joined: PredicateSet) -> int:
        """A new join of what two anchors give, with selections below it where they are worth it."""
        parents, checked = self._inputs(anchors, joined)
        rows = self._estimates.joined(anchors[0], anchors[1], joined)
        return self._nodes.add_join(parents, checked, joined, anchors[2], rows)

    def rejoin(self, number: int) -> None:
        """Makes a join again of a selection that is all there is above a weaker join."""
        entry = self._nodes[number]
        weaker = self._nodes[entry.anchor]
        assert weaker.anchors is not None
        joined = both(weaker.joined, entry.selected)
        strengthen(self._nodes, number, *self._inputs(weaker.anchors, joined), joined)

    def _inputs(self, anchors: Anchors, joined: PredicateSet) -> tuple[tuple[int, int], PredicateSet]:
        """The two parents of a join, and what it has to check of their pairs."""
        first, second, _ = anchors
        width, logs = len(self._nodes[first].legs), self._nodes[second].legs
        left, right, across = demands_of_sides(self._nodes, self._renaming, anchors, joined)
        left_node, left_open = self._input(first, left)
        right_node, right_open = self._input(second, right)
        right_open = with_legs_moved(self._renaming, right_open, logs, width)
        checked = [*across.disjunctions, *left_open.disjunctions, *right_open.disjunctions]
        return (left_node, right_node), set_with(checked)

    def _input(self, anchor: int, predicates: PredicateSet) -> tuple[int, PredicateSet]:
        """One side of a join: its node, and what the join has to check of its rows."""
        if self._estimates.is_worth_a_node(anchor, predicates):
            return self.selection(anchor, predicates), set_with(())
        node = self._closest(anchor, predicates)
        return node, residual(predicates, self._nodes[node].selected)

    # -- weaker joins -------------------------------------------------------------------------------------------------

    def _weakened(self, option: Option) -> int:
        """The weaker join of an option, with the join that was there as a selection of its rows."""
        existing = self._nodes[option.number]
        assert existing.anchors is not None
        weaker = self.join(existing.anchors, option.common)
        left = residual(existing.joined, option.common)
        parent = self._closest(weaker, left)
        weaken(self._nodes, option.number, parent, residual(left, self._nodes[parent].selected))
        return weaker


def _oriented(left: Anchored, right: Anchored) -> tuple[Anchored, Anchored]:
    """Which side of a new join comes first: the longer one, then the older one, then the one that FROM has first."""
    first, second = sorted((left, right), key=lambda each: (-len(each.legs), each.anchor, each.legs))
    return first, second


def demands_of_sides(
    nodes: Nodes, renaming: Renaming, anchors: Anchors, joined: PredicateSet
) -> tuple[PredicateSet, PredicateSet, PredicateSet]:
    """What a join demands of each of its anchors' rows, as the anchor has it, and of both together."""
    first, second, _ = anchors
    width = len(nodes[first].legs)
    left, right, across = _sides(joined, width)
    return left, with_legs_moved(renaming, right, nodes[second].legs, -width), across


def _sides(joined: PredicateSet, width: int) -> tuple[PredicateSet, PredicateSet, PredicateSet]:
    """What a join demands of its left legs, of its right ones, and of both together."""
    sides: tuple[list[Disjunction], list[Disjunction], list[Disjunction]] = ([], [], [])
    for each in joined.disjunctions:
        legs = [int(name[1:]) <= width for name in each.sources]
        # What reads nothing is FALSE, and can be said of either side.
        sides[0 if all(legs) else 2 if any(legs) else 1].append(each)
    left, right, across = map(set_with, sides)
    return left, right, across


def _weaker_first(selections: Iterator[tuple[int, PredicateSet]]) -> list[tuple[int, PredicateSet]]:
    """Selections such that stronger ones find the weaker ones made, and are chained to them.

    The three inputs of `r1.amount > 1000000 AND r2.amount > 500000 AND r3.amount > 500000` become one chain.
    """
    listed = list(dict.fromkeys(selections))

    def implying(anchor: int, predicates: PredicateSet) -> int:
        return sum(other == anchor and set_implies(each, predicates) for other, each in listed)

    return sorted(listed, key=lambda item: (-implying(*item), item[0], item[1].text))
