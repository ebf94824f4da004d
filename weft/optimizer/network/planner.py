"""Selects into the network, one at a time, and out of it again.

    planner = Planner()
    planner.register("12", select, ["stream f", "stream f"])
    planner.network                       # nodes, and where each select finds its rows
    planner.deregister("12")

A select is read (`wanted`), its joins are chosen together with what there is to share (`choose_joins`), and what is
missing is built from the bottom up. Two selects that want the same get the same node, whatever they are written like.
A weaker join may come in the place of two: what both have in common, joined once, with the two as selections of it.

    there is    J1   T1.k = T2.k, T1.amount > 100000, T2.ts - T1.ts <= 10
    new         J2   T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 5
    instead     C    T1.k = T2.k, T1.amount > 50000,  T2.ts - T1.ts <= 10          J1 and J2 are selections of C

Joins are put together like this only if they look their pairs up by the same equations, and if that costs less: one
pass over the inputs of the weaker join and two over its rows, instead of a pass over the inputs and the rows of each.

When a select goes, nodes that were there for the sake of several and now serve one go too: J1 is a join again if
only J1 reads C, and if only S2 reads a selection S1, then S2 reads what S1 read.

Nodes that get their rows from somewhere else keep their numbers; what changes is the anchor that they are looked up by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from weft.algebra import Select
from weft.optimizer.network.choose_joins import ExistingRows, JoinChoice, NewJoin, Part
from weft.optimizer.network.nodes import Anchors, Entry, Nodes, equations
from weft.optimizer.network.sizes import NOTHING_KNOWN, Estimates, SizeStatistics, passing
from weft.optimizer.network.wanted import SelectNeeds, leg_name, legs_read, wanted
from weft.plan.log_ids import LogId
from weft.plan.network import FoundRows, Network, Result
from weft.predicates.clauses import TRUE_SET, Disjunction, PredicateSet, set_implies, set_with
from weft.predicates.operations import Renaming, both, in_common, residual, under

#: Inputs of a select that a join or a log has together: its number, its legs, and the conditions that hold of its rows.
_Anchored: TypeAlias = tuple[int, tuple[int, ...], frozenset[int]]


class Planner:
    """The network of all selects that are registered."""

    def __init__(self, statistics: SizeStatistics = NOTHING_KNOWN) -> None:
        self.statistics = statistics
        self.nodes = Nodes()
        self.renaming = Renaming()
        self.estimates = Estimates(self.nodes, statistics, self.renaming)

    @property
    def network(self) -> Network:
        return self.nodes.network()

    def needs_of(self, select: Select, logs: Sequence[LogId]) -> SelectNeeds:
        """What a select that `is_shareable` wants; `logs` names the log of each of its inputs."""
        return wanted(select, logs)

    def choice(self, needs: SelectNeeds, without: frozenset[int] = frozenset()) -> JoinChoice:
        """The search for the joins of a select, with some nodes taken not to be there."""
        return JoinChoice(needs, self.estimates, without)

    def rows(self, number: int) -> int:
        """How many rows a node has: measured, or expected when it was made."""
        return self.estimates.rows(number)

    def rows_looked_at(self, number: int) -> int:
        """What a node costs: a selection looks at its parent's rows, a join at those of its parents and its own."""
        entry = self.nodes[number]
        return sum(map(self.rows, entry.parents)) + (self.rows(number) if entry.anchors is not None else 0)

    def register(self, place: str, select: Select, logs: Sequence[LogId]) -> None:
        """Gives a select its rows."""
        self.register_needs(place, self.needs_of(select, logs))

    def register_needs(self, place: str, needs: SelectNeeds) -> None:
        if place in self.nodes.found:
            raise ValueError(f"{place} is in the network already: deregister it first")
        choice = self.choice(needs)
        part = choice.best()
        # Selections of logs first, so that joins find them.
        made_first = [self.selection(*each) for each in _weaker_first(self._selections_of_logs(part, choice))]
        anchor, inputs, done = self._anchored(part, choice)
        node = self.selection(anchor, choice.over(inputs, choice.within(frozenset(inputs)) - done))
        legs = tuple(map(inputs.index, range(len(inputs))))
        columns = frozenset((legs[number], name) for number, name in needs.columns)
        self.nodes.settle(place, FoundRows(Result(node, legs), columns))
        for number in made_first:
            # A weaker join may have come about that reads others.
            self.nodes.remove_unused(number)

    def deregister(self, place: str) -> None:
        """Takes a select away, and all nodes that it alone needed."""
        logs = len(self.nodes.logs)
        self._tighten(self.nodes.remove_unused(self.nodes.unsettle(place)))
        if len(self.nodes.logs) < logs:
            self.renaming.forget()

    def _tighten(self, numbers: Iterable[int]) -> None:
        """Looks at nodes that have lost a child or a select."""
        waiting = sorted(set(numbers))
        while waiting:
            entry = self.nodes.entries.get(waiting.pop(0))
            if entry is None or entry.places or len(entry.children) != 1 or not entry.parents:
                continue
            (child,) = entry.children
            if not self.nodes[child].is_selection:
                continue
            if entry.is_selection:
                shorten(self.nodes, child)
                continue
            assert entry.anchors is not None
            joined = both(entry.joined, self.nodes[child].selected)
            strengthen(self.nodes, child, *self._inputs(entry.anchors, joined), joined)
            # The selections that it joins now may be made from those that only the weaker join read.
            waiting += sorted({below for parent in self.nodes[child].parents for below in self.nodes[parent].parents})

    # -- selections ---------------------------------------------------------------------------------------------------

    def selection(self, anchor: int, predicates: PredicateSet) -> int:
        """The node that selects from an anchor's rows: a shared one, or a new one above the closest."""
        same = self.nodes.equal(anchor, predicates)
        if same is not None:
            return same
        parent = self._closest(anchor, predicates)
        left = residual(predicates, self.nodes[parent].selected)
        if not left.disjunctions:
            return parent
        return self.nodes.add_selection(parent, left, predicates, self.estimates.satisfying(predicates, anchor))

    def _closest(self, anchor: int, predicates: PredicateSet) -> int:
        """The smallest of the nodes over an anchor that give all that is wanted, and perhaps more."""
        above = self.nodes.closest(anchor, predicates)
        return min(above, key=lambda number: (self.rows(number), number), default=anchor)

    def _selections_of_logs(self, part: Part, choice: JoinChoice) -> Iterator[tuple[int, PredicateSet]]:
        """The selections that the joins of a part will need of logs and of joins that exist."""
        if isinstance(part, NewJoin):
            for side in (part.left_part, part.right_part):
                yield from self._selections_of_logs(side, choice)
                if isinstance(side, ExistingRows) and side.left:
                    predicates = choice.over(side.legs, side.left)
                    if self.estimates.is_worth_a_node(side.anchor, predicates):
                        yield side.anchor, predicates

    # -- joins --------------------------------------------------------------------------------------------------------

    def _anchored(self, part: Part, choice: JoinChoice) -> _Anchored:
        """The join or log that a part's rows come from, which is built if it is not there."""
        if isinstance(part, ExistingRows):
            return part.anchor, part.legs, part.done
        sides = self._anchored(part.left_part, choice), self._anchored(part.right_part, choice)
        # The longer side of a new join comes first, then the older one, then the one that FROM has first.
        (first, first_legs, first_done), (second, second_legs, second_done) = sorted(
            sides, key=lambda each: (-len(each[1]), each[0], each[1])
        )
        legs, turned_legs, done = first_legs + second_legs, second_legs + first_legs, first_done | second_done
        wanted, timely = choice.within(frozenset(legs)) - done, choice.wanted.timely
        anchors, joined = (first, second, timely), choice.over(legs, wanted)
        number = self._equal_join(anchors, joined)
        if number is not None:
            return number, legs, done | wanted
        turned = choice.over(turned_legs, wanted)
        option = self._weaker_join(((anchors, joined, False), ((second, first, timely), turned, True)))
        if option is None:
            return self._join(anchors, joined), legs, done | wanted
        there, is_turned, common = option
        legs = turned_legs if is_turned else legs
        number = self._weakened(there, common)
        return number, legs, done | (wanted - choice.not_implied(legs, wanted, self.nodes[number].joined))

    def _equal_join(self, anchors: Anchors, joined: PredicateSet) -> int | None:
        """The join that is wanted, if building the parts below has brought it about."""
        return self.nodes.equal(anchors, joined)

    def _weaker_join(self, ways: Iterable[tuple[Anchors, PredicateSet, bool]]) -> tuple[int, bool, PredicateSet] | None:
        return best_option(self.estimates, ways)

    def _weakened(self, number: int, common: PredicateSet) -> int:
        """A weaker join, with the join that was there as a selection of its rows."""
        there = self.nodes[number]
        assert there.anchors is not None
        weaker = self._join(there.anchors, common)
        left = residual(there.joined, common)
        parent = self._closest(weaker, left)
        weaken(self.nodes, number, parent, residual(left, self.nodes[parent].selected))
        return weaker

    def _join(self, anchors: Anchors, joined: PredicateSet) -> int:
        """A new join of what two anchors give, with selections below it where they are worth it."""
        parents, checked = self._inputs(anchors, joined)
        rows = self.estimates.satisfying(joined, *anchors[:2])
        return self.nodes.add_join(parents, checked, joined, anchors[2], rows)

    def _inputs(self, anchors: Anchors, joined: PredicateSet) -> tuple[tuple[int, int], PredicateSet]:
        """The two parents of a join, and what it has to check of their pairs."""
        *sides, across = self.demands_of_sides(anchors, joined)
        (left, left_open), (right, right_open) = map(self._input, anchors[:2], sides)
        right_open = self._with_legs_moved(right_open, anchors[1], len(self.nodes[anchors[0]].legs))
        checked = [*across.disjunctions, *left_open.disjunctions, *right_open.disjunctions]
        return (left, right), set_with(checked)

    def _input(self, anchor: int, predicates: PredicateSet) -> tuple[int, PredicateSet]:
        """One side of a join: its node, and what the join has to check of its rows."""
        if self.estimates.is_worth_a_node(anchor, predicates):
            return self.selection(anchor, predicates), TRUE_SET
        node = self._closest(anchor, predicates)
        return node, residual(predicates, self.nodes[node].selected)

    def demands_of_sides(
        self, anchors: Anchors, joined: PredicateSet
    ) -> tuple[PredicateSet, PredicateSet, PredicateSet]:
        """What a join demands of each of its anchors' rows, as the anchor has it, and of both together."""
        width = len(self.nodes[anchors[0]].legs)
        sides: tuple[list[Disjunction], list[Disjunction], list[Disjunction]] = ([], [], [])
        for each in joined.disjunctions:
            legs = [int(name[1:]) <= width for name in each.sources]
            # What reads nothing is FALSE, and can be said of either side.
            sides[0 if all(legs) else 2 if any(legs) else 1].append(each)
        left, right, across = map(set_with, sides)
        return left, self._with_legs_moved(right, anchors[1], -width), across

    def _with_legs_moved(self, predicates: PredicateSet, right: int, by: int) -> PredicateSet:
        """A predicate set of a join's right anchor as the join has it, `by` legs further on, or the other way round."""
        logs, first = self.nodes[right].legs, max(0, -by)
        return set_with(
            self.renaming.renamed(
                each, tuple((logs[leg - first], leg_name(leg), leg_name(leg + by)) for leg in legs_read(each))
            )
            for each in predicates.disjunctions
        )


def _weaker_first(selections: Iterable[tuple[int, PredicateSet]]) -> list[tuple[int, PredicateSet]]:
    """Selections such that stronger ones find the weaker ones made, and are chained to them.

    The three inputs of `r1.amount > 1000000 AND r2.amount > 500000 AND r3.amount > 500000` become one chain.
    """
    listed = list(dict.fromkeys(selections))

    def implying(anchor: int, predicates: PredicateSet) -> int:
        return sum(other == anchor and set_implies(each, predicates) for other, each in listed)

    return sorted(listed, key=lambda item: (-implying(*item), item[0], item[1].text))


def best_option(
    estimates: Estimates, ways: Iterable[tuple[Anchors, PredicateSet, bool]]
) -> tuple[int, bool, PredicateSet] | None:
    """The join that a new one is best put together with, whether the new one's sides change places for it, and what
    the two have in common; None if it is worth it with no join."""
    nodes, options = estimates.nodes, []
    for anchors, predicates, is_turned in ways:
        for number in nodes.joins_alike(anchors, predicates):
            there = nodes[number].joined
            common = in_common(predicates, there)
            if equations(common) == equations(predicates):
                new, old, weaker = (_work(estimates, anchors, each) for each in (predicates, there, common))
                saving = new + old - weaker - 2 * estimates.satisfying(common, *anchors[:2])
                if saving > 0:
                    options.append((-saving, number, is_turned, common))
    return min(options, key=lambda each: each[:3])[1:] if options else None


def _work(estimates: Estimates, anchors: Anchors, predicates: PredicateSet) -> int:
    """The rows of a join's inputs, and its own."""
    width = len(estimates.nodes[anchors[0]].legs)
    sides: dict[bool, list[Disjunction]] = {True: [], False: []}
    for each in predicates.disjunctions:
        is_left = {int(leg[1:]) <= width for leg in each.sources}
        if len(is_left) == 1:
            sides[is_left.pop()].append(each)
    inputs = (
        passing(estimates.rows(anchor), estimates.shares(set_with(side), *anchors[:2]))
        for anchor, side in zip(anchors[:2], sides.values(), strict=True)
    )
    return sum(inputs) + estimates.satisfying(predicates, *anchors[:2])


def weaken(nodes: Nodes, number: int, parent: int, predicates: PredicateSet) -> None:
    """Lets a join select its rows from a weaker join, or from a selection of that one's rows."""
    entry, below = nodes[number], nodes[parent]
    between = both(below.selected, predicates)

    def move_anchors() -> None:
        entry.join_anchors, entry.joined, entry.timely = None, TRUE_SET, False
        for each in above:
            _move_anchor(nodes, each, number, below.anchor, between, lambda beyond, added: both(added, beyond))

    above = _anchored_in(nodes, number)
    _rewire(nodes, entry, above, (parent,), predicates, move_anchors)


def strengthen(
    nodes: Nodes, number: int, parents: tuple[int, int], predicates: PredicateSet, joined: PredicateSet
) -> None:
    """Makes a selection a join again, if it is the only node above the join that it reads, which goes."""
    entry = nodes[number]
    weaker = nodes[entry.anchor]
    between = entry.selected

    def move_anchors() -> None:
        for each in above:
            _move_anchor(nodes, each, weaker.number, number, between, residual)
        entry.join_anchors, entry.joined, entry.timely = weaker.join_anchors, joined, weaker.timely

    above = _anchored_in(nodes, weaker.number)[1:]
    _rewire(nodes, entry, above, parents, predicates, move_anchors)


def shorten(nodes: Nodes, number: int) -> None:
    """Lets a selection read what its parent reads, if it is all that there is above that one, which goes."""
    entry = nodes[number]
    parent = nodes[entry.parents[0]]
    _rewire(nodes, entry, [entry], parent.parents, both(parent.predicates, entry.predicates), lambda: None)


def _rewire(
    nodes: Nodes,
    entry: Entry,
    above: Sequence[Entry],
    parents: tuple[int, ...],
    predicates: PredicateSet,
    move_anchors: Callable[[], None],
) -> None:
    """Gives a node other parents, and what is above it other anchors."""
    before = entry.parents
    for each in above:
        nodes.unindex(each)
    nodes.detach(entry)
    move_anchors()
    entry.parents, entry.predicates = parents, predicates
    nodes.attach(entry)
    for each in above:
        nodes.index(each)
    for old in dict.fromkeys(before):
        nodes.remove_unused(old)


def _anchored_in(nodes: Nodes, number: int) -> list[Entry]:
    """A join, the selections above it, and the joins of its and their rows."""
    found, waiting = {number: nodes[number]}, [number]
    while waiting:
        for child in sorted(nodes[waiting.pop()].children):
            if child not in found:
                found[child] = nodes[child]
                if found[child].is_selection:
                    waiting.append(child)
    return list(found.values())


def _move_anchor(
    nodes: Nodes,
    entry: Entry,
    old: int,
    new: int,
    between: PredicateSet,
    restated: Callable[[PredicateSet, PredicateSet], PredicateSet],
) -> None:
    """Says what a node computes beyond another anchor; `between` is what lies between the two."""
    if entry.join_anchors is None:
        entry.anchor, entry.selected = new, restated(entry.selected, between)
        return
    first, second = entry.join_anchors
    if first == old:
        entry.joined = restated(entry.joined, between)
    if second == old:
        width = len(nodes[new].legs)
        by = len(entry.legs) - width
        names = {leg_name(leg): leg_name(leg + by) for leg in range(width)}
        entry.joined = restated(entry.joined, under(names, between))
    entry.join_anchors = (new if first == old else first, new if second == old else second)
