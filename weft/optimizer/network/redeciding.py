"""Joins that are chosen again while they run, when measurements contradict the estimates they were chosen by.

    moved        a number has left its step: the selects that it matters to are looked at again, some in every cycle
    better       the best order now costs less than half of the one they have, or a selection is on the wrong side of
                 the share that makes it a node: they wait, to see whether that lasts
    decided      it still does when the other order has won enough tickets, one in each cycle for every halving of the
                 cost: they leave the network and are registered again, in one step between two cycles

Who was chosen by supposition does not wait: what is measured for the first time contradicts nothing that was known.

Tickets make clear cases quick: what costs half has to last for three cycles, what costs an eighth for one. Selects that
have been moved stay as they are for a while, and twice as long if that was not long enough, so that two orders of which
each looks better while the other runs cannot keep an engine busy. An order that was right for longer than that is left
as easily as the first one: data that change now and then are followed each time. What one cycle does is bounded,
however many selects there are.

Tickets decide *when*, not how rows are divided meanwhile. An eddy sends some tuples one way and some the other because
each of its operators keeps single streams. Here a join keeps the pairs that others look for, and a new row has to find
all of them: to divide rows between two orders, both would have to keep all pairs, and what is divided would cost as
much as both orders together. So one order runs, and a sample of rows is tried on the joins that do not
(`weft/runtime/stages/joins/join_statistics.py`), so that what is known of them is not what the order that runs lets
through.

Nothing of this is state. Answers do not depend on the network: a select that reads a node finds the rows from its first
cycle on there, and if they had not been kept for it, they are put together again from the logs in the cycle in which it
comes (`stages/joins/join_state.py`). So a network that is drawn up in another way after a crash, or a decision that
was made in a cycle that never was committed, changes what is computed and never what is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from weft.optimizer.network.choose_joins import JoinRequest
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.recosting import LOOKED_AT, Costs, costs, first_join, order_of, order_text, together_with
from weft.optimizer.network.sizes import Estimates, MeasuredSizes, SizeKey, SizeStatistics
from weft.optimizer.network.wanted import SelectNeeds


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
    #: What its costs depend on; None as long as it has not been looked at.
    read: frozenset[SizeKey] | None = None
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
        """Look after a select that is in the network."""
        # All that has been seen so far was known when it was registered.
        self._watched[place] = _Watched(self._next_number, make, self.observed.rounds + 1)
        self._next_number += 1
        self._waiting[place] = None

    def forget(self, place: str) -> None:
        """A select leaves the network."""
        watched = self._watched.pop(place)
        self._waiting.pop(place, None)
        self._better.discard(place)
        for known in watched.read or ():
            self._readers[known].discard(place)
            if not self._readers[known]:
                del self._readers[known]

    # -- a cycle ------------------------------------------------------------------------------------------------------

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
            self._index(place, self._watched[place])
            first = first_join(self.planner.nodes, self.planner.nodes.found[place].result.node)
            # Of those that share a join, one speaks for all, and the others for themselves.
            self._judged(place, cycle, with_others=first not in first_joins)
            first_joins.add(first)

    def _index(self, place: str, watched: _Watched) -> None:
        read = watched.read
        watched.read = _read_by(self.planner, self.observed, watched.wanted)
        for known in (read or frozenset()) - watched.read:
            self._readers[known].discard(place)
        for known in watched.read:
            self._readers.setdefault(known, set()).add(place)

    def _is_ripe(self, place: str, cycle: int) -> bool:
        watched = self._watched[place]
        if self._was_supposed(watched):
            return True
        if watched.since is None or cycle < watched.stays_until:
            return False
        return (cycle - watched.since) * watched.tickets >= self.patience.sustained

    def _was_supposed(self, watched: _Watched) -> bool:
        """Whether something that a select was chosen by was not known then, and is now."""
        return any(self.observed.is_news(known, watched.chosen_in) for known in watched.read or ())

    def _judged(self, place: str, cycle: int, with_others: bool) -> Costs | None:
        """What a select would gain: with all that share its first join, or else alone; None for too little."""
        together = together_with(self.planner.nodes, place, self.patience.selects) if with_others else (place,)
        watched = self._watched[place]
        for places in dict.fromkeys((together, (place,))):
            found = self._costs(places)
            if found.is_worth_it(self.patience.factor):
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
        read = sorted(
            self._watched[place].read or (), key=lambda each: (-self._moved_in.get(each, -1), each.logs, each.of)
        )
        found = [(known, self.observed.value(known)) for known in read]
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


def _read_by(planner: Planner, observed: MeasuredSizes, wanted: SelectNeeds) -> frozenset[SizeKey]:
    """What the costs of a select depend on."""
    noted = _Noted(observed)
    request = JoinRequest(wanted, Estimates(planner.nodes, noted, planner.renaming), planner.renaming)
    assert request.shares is not None
    assert request.input_rows is not None
    return frozenset(noted.asked)
