"""Joins that are chosen again while they run, when measurements contradict the estimates they were chosen by.

    moved        a number has left its step: the selects that it matters to are looked at again, some in every cycle
    better       the best order now costs less than half of the one they have, or a selection is on the wrong side of
                 the share that makes it a node: they wait, to see whether that lasts
    decided      it still does when the other order has won enough tickets: they leave the network and are registered
                 again, in one step between two cycles

When that is, and why rows are not divided between two orders meanwhile, is in `docs/sharing.md` ("While it runs") and
`docs/adaptation.md` ("The same in an engine").

Selects that share their first join go together: as long as one of them stays, that join costs the others nothing, and
none would ever leave it. What they cost is what the network would have to do more than without them:

    q1, q2 ── J = r1 x r2 ──> …     now      |S1| + |S2| + |J| + …        in the order that they have
                                    better   |S2| + |S3| + |K| + …        in the best order, without J

Nothing of this is state: rows that had not been kept for a select are put together again from the logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from weft.optimizer.network.choose_joins import ExistingRows, JoinChoice, Order, Part, rank
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.sizes import Estimates, MeasuredSizes, SizeKey, SizeStatistics
from weft.optimizer.network.wanted import SelectNeeds, leg_name
from weft.predicates.operations import residual

#: How many of the selects that go together are priced.
LOOKED_AT = 8


@dataclass(frozen=True, slots=True)
class Costs:
    """What selects that go together cost as they are, and as they would be chosen now.

    `selected` are rows that joins would be spared if selections below them were nodes, or were none, as they should be.
    """

    places: tuple[str, ...]
    now: int
    best: int
    selected: int = 0

    @property
    def gain(self) -> int:
        return self.now - self.best + self.selected

    @property
    def tickets(self) -> int:
        """How many times the costs can be halved before they are what the best order costs; at least once."""
        return max(1, (self.now // max(self.best, 1)).bit_length() - 1)


def costs(planner: Planner, places: tuple[str, ...], wanted: Mapping[str, SelectNeeds]) -> Costs:
    """What some selects cost, looking at a few of them. If one of these would stay as it is, none would gain."""
    nodes, without = planner.nodes, needed_by_these_alone(planner.nodes, places)
    now, best, stays = 0, 0, False
    for place in places[:LOOKED_AT]:
        choice = planner.choice(wanted[place], without)
        order, chosen = order_of(nodes, place), choice.best()
        stays |= order == order_of_part(nodes, chosen)
        now, best = now + rank(choice.in_order(order))[0], best + rank(chosen)[0]
    return Costs(places, now, now if stays else best, sum(_misplaced(planner, each) for each in without))


def best_order(planner: Planner, place: str, wanted: SelectNeeds) -> Order:
    """The order that a select would be given if it was chosen now."""
    without = needed_by_these_alone(planner.nodes, (place,))
    return order_of_part(planner.nodes, planner.choice(wanted, without).best())


def _misplaced(planner: Planner, number: int) -> int:
    """The rows that a join is handed which it should not be, or which it should have been spared."""
    nodes, estimates, join = planner.nodes, planner.estimates, planner.nodes[number]
    if join.anchors is None:
        return 0
    rows = 0
    sides = planner.demands_of_sides(join.anchors, join.joined)[:2]
    for parent, anchor, predicates in zip(join.parents, join.anchors[:2], sides, strict=True):
        if predicates.disjunctions:
            is_apart = not residual(predicates, nodes[parent].selected).disjunctions
            selected = estimates.satisfying(predicates, anchor)
            if is_apart != estimates.is_worth_a_node(anchor, predicates):
                rows += selected if is_apart else estimates.rows(anchor) - selected
    return rows


def together_with(nodes: Nodes, place: str, most: int) -> tuple[str, ...]:
    """The selects that share a select's first join, itself first; it alone if there are more than `most`."""
    waiting = [first_join(nodes, nodes.found[place].result.node)]
    seen, places = set(waiting), {place: None}
    while waiting:
        entry = nodes[waiting.pop()]
        places |= dict.fromkeys(sorted(entry.places))
        if len(places) > most:
            return (place,)
        for child in sorted(entry.children - seen):
            seen.add(child)
            waiting.append(child)
    return tuple(places)


def first_join(nodes: Nodes, number: int) -> int:
    """The lowest join that a node's rows come through, or the log if there is none."""
    anchor = nodes[nodes[number].anchor]
    lower = [each for each in anchor.join_anchors or () if nodes[each].parents]
    return first_join(nodes, lower[0]) if lower else anchor.number


def needed_by_these_alone(nodes: Nodes, places: Iterable[str]) -> frozenset[int]:
    """The nodes that would go if some selects did, but for logs."""
    leaving, gone = frozenset(places), set[int]()
    waiting = [nodes.found[place].result.node for place in leaving]
    while waiting:
        entry = nodes[waiting.pop()]
        if entry.parents and not entry.places - leaving and not entry.children - gone:
            gone.add(entry.number)
            waiting.extend(entry.parents)
    return frozenset(gone)


def order_of(nodes: Nodes, place: str) -> Order:
    """The order that the inputs of a select are joined in."""
    result = nodes.found[place].result
    inputs = {leg: number for number, leg in enumerate(result.legs)}
    return _order_below(nodes, result.node, tuple(inputs[leg] for leg in range(len(inputs))))


def order_of_part(nodes: Nodes, part: Part) -> Order:
    if isinstance(part, ExistingRows):
        return _order_below(nodes, part.anchor, part.legs)
    return _ordered(order_of_part(nodes, part.left_part), order_of_part(nodes, part.right_part))


def _order_below(nodes: Nodes, number: int, inputs: tuple[int, ...]) -> Order:
    # Selections do not change the order.
    entry = nodes[nodes[number].anchor]
    if not entry.parents:
        return inputs[0]
    left, right = entry.parents
    width = len(nodes[left].legs)
    return _ordered(_order_below(nodes, left, inputs[:width]), _order_below(nodes, right, inputs[width:]))


def _ordered(left: Order, right: Order) -> Order:
    """The side that has the first input is the left one, since which one it is makes no difference."""
    return (left, right) if _first(left) < _first(right) else (right, left)


def _first(order: Order) -> int:
    return order if isinstance(order, int) else _first(order[0])


def order_text(order: Order) -> str:
    """An order for people, the inputs called T1, T2, … as FROM has them.

    >>> order_text(((0, 2), 1))
    '(T1 x T3) x T2'
    """
    if isinstance(order, int):
        return leg_name(order)
    left, right = (order_text(side) if isinstance(side, int) else f"({order_text(side)})" for side in order)
    return f"{left} x {right}"


@dataclass(frozen=True, slots=True)
class Patience:
    """When joins are chosen again, and how many at once."""

    #: The best order must cost this many times less than the current one,
    factor: int = 2
    #: and win this many tickets, one in each cycle for every halving of the cost;
    sustained: int = 3
    #: and selects that were moved stay for this many cycles, twice as many if they leave as soon as they may, up to a
    #: limit.
    interval: int = 8
    longest_interval: int = 1_024
    #: How many selects are priced in a cycle, and how many groups of them and selects in all are moved.
    looked_at: int = 32
    groups: int = 4
    selects: int = 256


@dataclass(frozen=True, slots=True)
class Redecided:
    """A decision: in which cycle, for which selects, from which order to which, and what was known then."""

    cycle: int
    places: tuple[str, ...]
    #: The order of the first of the selects.
    before: str
    after: str
    cost_before: int
    cost_after: int
    #: What was measured of what its costs come from, what had moved last first.
    observed: tuple[tuple[SizeKey, float], ...]


@dataclass
class _Watched:
    #: Who came earlier has a smaller number.
    number: int
    make: Callable[[], SelectNeeds]
    #: What was first measured in this round of `MeasuredSizes` or later was supposed when it was chosen.
    chosen_in: int
    #: What its costs depend on, as far as it has been looked at.
    read: frozenset[SizeKey] = frozenset()
    #: Since when another order has been better, how many tickets that wins in a cycle, and the rows that it saves.
    since: int | None = None
    tickets: int = 1
    gain: int = 0
    #: For how many cycles it had to stay when it was moved last, and until when.
    stay: int = 0
    stays_until: int = 0

    @cached_property
    def wanted(self) -> SelectNeeds:
        return self.make()


#: Selects to choose again whatever they cost, by cycle: tests disturb a network with it.
ForcedChoices = Callable[[int, Sequence[str]], Iterable[str]]

#: How many numbers are given as the reason of a decision.
_REASONS = 8


@dataclass
class Redeciding:
    """Watches the selects of a planner."""

    planner: Planner
    observed: MeasuredSizes
    patience: Patience = field(default_factory=Patience)
    forced: ForcedChoices | None = None
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _readers: dict[SizeKey, set[str]] = field(default_factory=dict)
    #: The selects that are still to be looked at, in turn, and those for which another order has been better.
    _waiting: dict[str, None] = field(default_factory=dict)
    _better: set[str] = field(default_factory=set)
    _moved_in: dict[SizeKey, int] = field(default_factory=dict)
    _next_number: int = 0

    def watch(self, place: str, make: Callable[[], SelectNeeds]) -> None:
        """Looks after a select that is in the network."""
        # All that has been seen so far was known when it was registered.
        self._watched[place] = _Watched(self._next_number, make, self.observed.rounds + 1)
        self._next_number += 1
        self._waiting[place] = None

    def watches(self, place: str) -> bool:
        """Whether a select is watched: those without joins are not."""
        return place in self._watched

    def forget(self, place: str) -> None:
        """A select leaves the network."""
        watched = self._watched.pop(place)
        self._waiting.pop(place, None)
        self._better.discard(place)
        for known in watched.read:
            self._readers[known].discard(place)
            if not self._readers[known]:
                del self._readers[known]

    def decide(self, cycle: int) -> list[Redecided]:
        """Price what has moved and what has waited, and choose again where another order has been better for long."""
        self._notice(cycle)
        self._look(cycle)
        moved: list[Redecided] = []
        for place in sorted(self._better, key=lambda each: (-self._watched[each].gain, each)):
            left = self.patience.selects - sum(len(each.places) for each in moved)
            if len(moved) == self.patience.groups or left <= 0:
                break
            if self._is_ripe(place, cycle):
                # The network may have become another one since.
                found = self._judged(place, cycle, with_others=True)
                if found is not None and len(found.places) <= left:
                    moved.append(self._move(found, cycle))
        for place in sorted(self.forced(cycle, tuple(self._watched))) if self.forced is not None else ():
            moved.append(self._move(self._costs((place,)), cycle))
        return moved

    def _notice(self, cycle: int) -> None:
        moved = self.observed.take_moved()
        if not moved:
            return
        self.planner.estimates.reset()
        self._moved_in = {known: when for known, when in self._moved_in.items() if known in self._readers}
        for known in moved:
            self._moved_in[known] = cycle
            self._waiting |= dict.fromkeys(sorted(self._readers.get(known, ())))

    def _look(self, cycle: int) -> None:
        """Look at some of the selects that wait."""
        first_joins: set[int] = set()
        for place in list(self._waiting)[: self.patience.looked_at]:
            del self._waiting[place]
            self._index(place)
            first = first_join(self.planner.nodes, self.planner.nodes.found[place].result.node)
            # Of those that share a join, one speaks for all, and the others for themselves.
            self._judged(place, cycle, with_others=first not in first_joins)
            first_joins.add(first)

    def _index(self, place: str) -> None:
        """Notes what the costs of a select depend on."""
        watched = self._watched[place]
        noted = _Noted(self.observed)
        choice = JoinChoice(watched.wanted, Estimates(self.planner.nodes, noted, self.planner.renaming))
        assert choice.shares is not None
        assert choice.input_rows is not None
        for known in watched.read - noted.asked:
            self._readers[known].discard(place)
        for known in noted.asked:
            self._readers.setdefault(known, set()).add(place)
        watched.read = frozenset(noted.asked)

    def _is_ripe(self, place: str, cycle: int) -> bool:
        watched = self._watched[place]
        if self._was_supposed(watched):
            return True
        if watched.since is None or cycle < watched.stays_until:
            return False
        return (cycle - watched.since) * watched.tickets >= self.patience.sustained

    def _was_supposed(self, watched: _Watched) -> bool:
        """Whether something that a select was chosen by was not known then, and is now."""
        return any(self.observed.is_news(known, watched.chosen_in) for known in watched.read)

    def _judged(self, place: str, cycle: int, with_others: bool) -> Costs | None:
        """What a select would gain: with all that share its first join, or else alone; None for too little."""
        together = together_with(self.planner.nodes, place, self.patience.selects) if with_others else (place,)
        watched = self._watched[place]
        for places in dict.fromkeys((together, (place,))):
            found = self._costs(places)
            if found.now >= self.patience.factor * max(found.best, 1) or found.selected > 0:
                watched.since = cycle if watched.since is None else watched.since
                watched.gain, watched.tickets = found.gain, found.tickets
                self._better.add(place)
                return found
        # It is right by what is known now, whatever it was chosen by.
        watched.chosen_in = self.observed.rounds
        self._settle(place)
        return None

    def _costs(self, places: tuple[str, ...]) -> Costs:
        return costs(self.planner, places, {each: self._watched[each].wanted for each in places[:LOOKED_AT]})

    def _settle(self, place: str) -> None:
        self._watched[place].since = None
        self._better.discard(place)

    def _move(self, found: Costs, cycle: int) -> Redecided:
        """Register selects again."""
        nodes, place = self.planner.nodes, found.places[0]
        before = order_text(order_of(nodes, place))
        for each in found.places:
            self.planner.deregister(each)
        # In the order that they came in: what a restart would register first comes first.
        for each in sorted(found.places, key=lambda place: self._watched[place].number):
            self.planner.register_needs(each, self._watched[each].wanted)
        for each in found.places:
            watched = self._watched[each]
            # To learn what was never known is no change of mind.
            if not self._was_supposed(watched):
                self._let_stay(watched, cycle)
            watched.chosen_in = self.observed.rounds
            self._settle(each)
        after = order_text(order_of(nodes, place))
        return Redecided(cycle, found.places, before, after, found.now, found.best, self._reasons(place))

    def _let_stay(self, watched: _Watched, cycle: int) -> None:
        """A select has been moved: how long it stays. If its last order was right for longer than it had to be, the
        data have changed, and nothing is held against the select."""
        was_right = cycle - watched.stays_until > watched.stay
        longer = self.patience.interval if was_right or not watched.stay else 2 * watched.stay
        watched.stay = min(longer, self.patience.longest_interval)
        watched.stays_until = cycle + watched.stay

    def _reasons(self, place: str) -> tuple[tuple[SizeKey, float], ...]:
        read = self._watched[place].read
        latest_first = sorted(read, key=lambda each: (-self._moved_in.get(each, -1), each.logs, each.of))
        found = ((known, self.observed.value(known)) for known in latest_first)
        return tuple((known, value) for known, value in found if value is not None)[:_REASONS]


class _Noted(SizeStatistics):
    """Statistics that write down what they are asked for."""

    def __init__(self, observed: MeasuredSizes) -> None:
        self._observed = observed
        self.asked: set[SizeKey] = set()

    def step(self, known: SizeKey) -> Fraction | None:
        self.asked.add(known)
        return self._observed.step(known)

    def node_rows(self, node: int) -> int | None:
        return self._observed.node_rows(node)
