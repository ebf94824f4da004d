"""Which joins a new select uses: those that are there already, and in what order those that are not.

A join that another query has computed costs nothing; one that is close costs the work to select from its rows; a new
one costs its inputs' rows and its own. So all ways to put the inputs together are looked at, smaller sets of inputs
first, and for every two parts that can be joined the index is asked whether that join, or a weaker one, exists:

    {r1}, {r2}   joined over (F, F)     →  J1 subsumes it        free; `r2.tran_date <= r1.tran_date + 10` is left over
    {r1, r2}, {r3}   over (J1, F)       →  J2 subsumes it        free; both ten-day windows are left over
    {r2}, {r3}   over (F, F)            →  none                  costs |S1| + |S1| + |S1 ⋈ S1|

What a shared join leaves over is carried on: it may be left over by the next shared join too, and then all of it is
one selection at the end. For each set of inputs a few of the best ways are kept, since the nearest join is not always
the one that has the next join above it.

Tables are not joined with each other: whatever is joined, something of it flows. Inputs are added one by one: one side
of every join is a log or a selection of one, whose rows are kept anyway, for all queries together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import TypeAlias

from weft.optimizer.network.nodes import Anchors
from weft.optimizer.network.sizes import Estimates, passing
from weft.optimizer.network.wanted import SelectNeeds, leg_name, legs_read
from weft.predicates.clauses import Disjunction, PredicateSet, follows_from_one, set_with
from weft.predicates.operations import subsumes

#: How many ways are kept for each set of inputs.
_KEPT_WAYS = 3
#: Up to how many inputs all orders are compared; beyond, the cheapest pair is joined, again and again.
MOST_INPUTS_IN_ALL_ORDERS = 8


@dataclass(frozen=True, slots=True)
class ExistingRows:
    """Inputs of a select that an anchor has together already: its leg k is input `legs[k]`.

    `done` are the conditions that its rows are known to satisfy; `left` those that are left for these inputs.
    """

    anchor: int
    legs: tuple[int, ...]
    done: frozenset[int]
    left: frozenset[int]
    #: What it costs to select what is left, and how many rows that gives.
    selecting: int
    selected_rows: int
    cost: int = 0

    @property
    def key(self) -> tuple[int, ...]:
        return (0, self.anchor, *self.legs)


@dataclass(frozen=True, slots=True)
class NewJoin:
    """A join of two parts that does not exist yet."""

    left_part: Part
    right_part: Part
    selected_rows: int
    cost: int
    selecting: int = 0

    @property
    def legs(self) -> tuple[int, ...]:
        return self.left_part.legs + self.right_part.legs

    @property
    def key(self) -> tuple[int, ...]:
        return (1, *self.left_part.key, *self.right_part.key)


Part: TypeAlias = ExistingRows | NewJoin

#: The order that inputs are joined in: an input, or two orders whose rows are joined.
Order: TypeAlias = "int | tuple[Order, Order]"


class JoinChoice:
    """What one select wants, and the search for its joins, for the time of its registration."""

    def __init__(self, wanted: SelectNeeds, estimates: Estimates, without: frozenset[int] = frozenset()) -> None:
        """`without` are nodes that are taken not to be there."""
        self.wanted, self._estimates, self._nodes, self._without = wanted, estimates, estimates.nodes, without
        self.conditions = wanted.predicates.disjunctions
        #: For each condition the inputs that it reads. One that is FALSE reads none, and is checked at the first input.
        self.reads = [legs_read(each) or (0,) for each in self.conditions]
        self._within: dict[frozenset[int], frozenset[int]] = {}
        self._called: dict[tuple[int, tuple[int, ...]], Disjunction] = {}
        self._linked = self._links()
        self._tables = _bits(number for number, log in enumerate(wanted.logs) if log.is_table)

    @cached_property
    def shares(self) -> list[Fraction]:
        """The share of rows, or of combinations, that satisfy each condition."""
        return [self._estimates.share(each, self.wanted.logs) for each in self.conditions]

    @cached_property
    def input_rows(self) -> list[int]:
        return [self._estimates.log_rows(log) for log in self.wanted.logs]

    def within(self, inputs: frozenset[int]) -> frozenset[int]:
        """The conditions that these inputs decide."""
        if inputs not in self._within:
            self._within[inputs] = frozenset(n for n, read in enumerate(self.reads) if inputs.issuperset(read))
        return self._within[inputs]

    def over(self, legs: tuple[int, ...], conditions: Iterable[int]) -> PredicateSet:
        """Conditions as a node has them whose leg k is input `legs[k]`."""
        return set_with(self._over(legs, number) for number in conditions)

    def not_implied(self, legs: tuple[int, ...], conditions: Iterable[int], known: PredicateSet) -> frozenset[int]:
        """The conditions that what is known of a node with these legs does not imply, looking at two at a time."""
        return frozenset(number for number in conditions if not follows_from_one(self._over(legs, number), known))

    def _over(self, legs: tuple[int, ...], number: int) -> Disjunction:
        read, logs = self.reads[number], self.wanted.logs
        key = number, tuple(map(legs.index, read))
        if key not in self._called:
            names = ((logs[each], leg_name(each), leg_name(place)) for each, place in zip(read, key[1], strict=True))
            self._called[key] = self._estimates.renaming.renamed(self.conditions[number], tuple(names))
        return self._called[key]

    def best(self) -> Part:
        """The cheapest way to put all inputs together."""
        leaves = [self._leaf(number) for number in range(len(self.wanted.logs))]
        if len(leaves) > MOST_INPUTS_IN_ALL_ORDERS:
            return self._greedy(leaves)
        ways: dict[int, list[Part]] = {1 << number: [leaf] for number, leaf in enumerate(leaves)}
        for inputs in range(1, 1 << len(leaves)):
            if inputs not in ways and (found := list(self._ways_to(inputs, ways))):
                # The best few ways, each with another anchor or another order.
                ways[inputs] = sorted({part.key: part for part in found}.values(), key=rank)[:_KEPT_WAYS]
        return ways[(1 << len(leaves)) - 1][0]

    def in_order(self, order: Order) -> Part:
        """The cheapest way to put the inputs together in an order."""
        if isinstance(order, int):
            return self._leaf(order)
        left, right = map(self.in_order, order)
        return min(self._put_together(left, right), key=rank)

    def _ways_to(self, inputs: int, ways: dict[int, list[Part]]) -> Iterator[Part]:
        """All ways to get a set of inputs from a smaller one and one more input."""
        for last in _single(inputs):
            rest = inputs ^ last
            is_counted = rest in _single(rest) and rest > last
            if rest in ways and not is_counted and self._are_linked(rest, last):
                for left in ways[rest]:
                    yield from self._put_together(left, ways[last][0])

    def _greedy(self, leaves: list[ExistingRows]) -> Part:
        """The cheapest pair first, and then whatever is the cheapest to add."""
        part = self._cheapest_of(combinations(leaves, 2))
        while len(part.legs) < len(leaves):
            part = self._cheapest_of((part, leaf) for leaf in leaves if leaf.legs[0] not in part.legs)
        return part

    def _cheapest_of(self, pairs: Iterable[tuple[Part, Part]]) -> Part:
        linked = (pair for pair in pairs if self._are_linked(_bits(pair[0].legs), _bits(pair[1].legs)))
        return min((way for pair in linked for way in self._put_together(*pair)), key=rank)

    def _are_linked(self, left: int, right: int) -> bool:
        flows = (left | right) & ~self._tables
        return bool(flows) and any(pair & left and pair & right for pair in self._linked)

    def _put_together(self, left: Part, right: Part) -> Iterator[Part]:
        if isinstance(left, ExistingRows) and isinstance(right, ExistingRows):
            yield from self._shared(left, right)
        inputs = frozenset(left.legs + right.legs)
        # How many combinations of the inputs there are does not depend on the order they are joined in.
        shares = (self.shares[number] for number in self.within(inputs))
        rows = passing(prod(self.input_rows[number] for number in inputs), shares)
        work = left.selecting + right.selecting + left.selected_rows + right.selected_rows + rows
        yield NewJoin(left, right, rows, left.cost + right.cost + work)

    def _shared(self, left: ExistingRows, right: ExistingRows) -> Iterator[ExistingRows]:
        """The joins that exist of two parts' anchors and can be shared."""
        done = left.done | right.done
        inputs = frozenset(left.legs + right.legs)
        wanted = self.within(inputs) - done
        for first, second in ((left, right), (right, left)):
            anchors = first.anchor, second.anchor, self.wanted.timely
            if not self._nodes.has_any(anchors):
                continue
            legs = first.legs + second.legs
            predicates = self.over(legs, wanted)
            same = self._nodes.equal(anchors, predicates)
            for number in [same] if same is not None else self._subsuming(anchors, predicates):
                if number in self._without:
                    continue
                known = self._nodes[number].joined
                open_ = frozenset() if number == same else self.not_implied(legs, wanted, known)
                yield self._ready(number, legs, done | (wanted - open_), open_)

    def _subsuming(self, anchors: Anchors, predicates: PredicateSet) -> list[int]:
        """The closest joins that subsume a predicate set. If no pair of conditions tells, all of them together may.

        `T2.amount > 0` and `T1.amount < 5*T2.amount` imply `T1.amount < 10*T2.amount`, and neither does alone.
        """
        closest = sorted(self._nodes.closest(anchors, predicates))
        if closest:
            return closest
        alike = self._nodes.joins_alike(anchors, predicates)
        return [each for each in alike if subsumes(self._nodes[each].joined, predicates)]

    def _leaf(self, number: int) -> ExistingRows:
        log = self.wanted.logs[number]
        return self._ready(self._nodes.base(log), (number,), frozenset(), self.within(frozenset({number})))

    def _ready(self, anchor: int, legs: tuple[int, ...], done: frozenset[int], left: frozenset[int]) -> ExistingRows:
        rows = self._estimates.rows(anchor)
        if not left:
            return ExistingRows(anchor, legs, done, left, 0, rows)
        predicates = self.over(legs, left)
        kept, selecting = passing(rows, (self.shares[number] for number in left)), 0
        same = self._nodes.equal(anchor, predicates)
        if same is None or same in self._without:
            above = (each for each in self._nodes.closest(anchor, predicates) if each not in self._without)
            selecting = min((self._estimates.rows(each) for each in above), default=rows)
        return ExistingRows(anchor, legs, done, left, selecting, kept)

    def _links(self) -> list[int]:
        """Pairs of inputs that may be joined: those that a condition compares. What is not compared comes last."""
        links = [_bits(read) for read in self.reads if len(read) > 1]
        groups = [1 << number for number in range(len(self.wanted.logs))]
        for link in links:
            touched = [each for each in groups if each & link]
            groups = [each for each in groups if not each & link] + [sum(touched)]
        # Parts that nothing holds together are joined all the same: every row meets every row.
        ends = sorted((each & -each) for each in groups)
        return links + [one | other for one, other in pairwise(ends)]


def _single(inputs: int) -> list[int]:
    """The inputs of a set, one by one."""
    return [1 << number for number in range(inputs.bit_length()) if inputs >> number & 1]


def _bits(inputs: Iterable[int]) -> int:
    return sum(1 << number for number in inputs)


def rank(part: Part) -> tuple[int, int, tuple[int, ...]]:
    """What a way costs, all in all, and then whatever tells two ways apart."""
    return part.cost + part.selecting, part.selected_rows, part.key
