"""The order of joins, decided from what they were seen to do and decided anew while they run.

Rows of one stream have to meet several others, in any order that the query allows. Each join is an operator that takes
rows and returns more or fewer of them, at a cost for each row. What was observed goes in; out come the shares in which
the next rows should be divided among the orders, and the order that has clearly won:

    policy = OrderPolicy()
    state = begin(policy, orders=(("R", "T"), ("T", "R")))
    state = observe(state, {"R": Seen(1000, 200, 0.4), "T": Seen(200, 200, 0.1)})      # once in a cycle
    state.order             # ('R', 'T'), the order that holds
    state.shares            # {('R', 'T'): 0.99, ('T', 'R'): 0.01}
    state.why               # a sentence with the figures

Undecided, rows are divided by lotteries (`tickets.shares`): the first join of an order is drawn by its tickets per
second, (1 − selectivity) / cost, then the next one of those that are left. That is what a tuple-wise eddy does with
tickets and back-pressure, for it counts tickets per row and routes rows per second.

Hysteresis: an order wins only if it is cheaper by `margin` in `patience` observations one after the other, and it stays
until another one does the same to it. Even then a small share goes other ways, to see what has become of them. What is
observed is smoothed: after `memory` observations it counts half.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from weft.optimizer.rank_filters import expected_cost, rank
from weft.optimizer.tickets import shares

Order = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OrderPolicy:
    margin: float = 0.1
    patience: int = 2
    memory: float = 3.0
    exploration: float = 0.02

    def __post_init__(self) -> None:
        if not (0 <= self.margin < 1 and self.patience >= 1 and self.memory > 0 and 0 <= self.exploration < 1):
            raise ValueError(
                f"{self}: margin and exploration are shares below 1, patience counts observations from 1 on, "
                "and memory is a positive number of observations"
            )


@dataclass(frozen=True, slots=True)
class Seen:
    """What an operator did, in one cycle or (smoothed) in many."""

    rows_in: float
    rows_out: float
    seconds: float

    @property
    def selectivity(self) -> float:
        """Rows out for each row in; 1 as long as nothing is known."""
        return self.rows_out / self.rows_in if self.rows_in > 0 else 1.0

    @property
    def cost(self) -> float:
        """Seconds for each row in."""
        return self.seconds / self.rows_in if self.rows_in > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Switch:
    """That the order was decided, or decided anew: at which observation, and why."""

    observation: int
    before: Order | None
    after: Order
    why: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """All that is known about the orders of some joins. Never changed: `observe` makes the next one."""

    policy: OrderPolicy
    orders: tuple[Order, ...]
    order: Order | None = None
    """The one that has won, if any."""
    seen: Mapping[str, Seen] | None = None
    observations: int = 0
    challenger: Order | None = None
    in_a_row: int = 0
    history: tuple[Switch, ...] = ()

    @property
    def known(self) -> Mapping[str, Seen]:
        return {} if self.seen is None else self.seen

    @property
    def costs(self) -> dict[Order, float | None]:
        """What a row is expected to cost in each order; none while a join of it has not been seen."""
        return {order: self._cost(order) for order in self.orders}

    @property
    def shares(self) -> dict[Order, float]:
        """How to divide the next rows."""
        if self.order is None:
            divided = _by_lottery(self.orders, self.known)
        else:
            divided = {order: 1.0 if order == self.order else 0.0 for order in self.orders}
        tried = self.policy.exploration
        return {order: (1 - tried) * share + tried / len(self.orders) for order, share in divided.items()}

    @property
    def why(self) -> str:
        figures = ", ".join(
            f"{name}: {each.selectivity:.3g} rows for one, {each.cost * 1e6:.3g} µs"
            for name, each in sorted(self.known.items())
        )
        costs = "; ".join(
            f"{' then '.join(order)}: {'not known' if cost is None else f'{cost * 1e6:.3g} µs a row'}"
            for order, cost in self.costs.items()
        )
        held = "undecided" if self.order is None else f"{' then '.join(self.order)} holds"
        return f"{held} ({costs}; {figures or 'nothing seen yet'})"

    def _cost(self, order: Order) -> float | None:
        operators = [self.known[name] for name in order if name in self.known]
        return expected_cost(operators) if len(operators) == len(order) else None


def begin(policy: OrderPolicy, orders: Iterable[Order], order: Order | None = None) -> Ordering:
    """Nothing seen yet. The order that runs already may be given: it then has to be beaten."""
    possible = tuple(orders)
    if not possible or len({frozenset(each) for each in possible}) != 1:
        raise ValueError(f"orders of the same joins are needed, not {possible}")
    if order is not None and order not in possible:
        raise ValueError(f"{order} is not one of the possible orders, {possible}")
    return Ordering(policy, possible, order)


def observe(state: Ordering, cycle: Mapping[str, Seen]) -> Ordering:
    """What is known after one more cycle, and what follows from it. Joins that got no rows keep what they had."""
    keep = 0.5 ** (1 / state.policy.memory)
    seen = {**state.known}
    for name, now in cycle.items():
        if now.rows_in > 0:
            before = seen.get(name, Seen(0, 0, 0))
            seen[name] = Seen(
                keep * before.rows_in + now.rows_in,
                keep * before.rows_out + now.rows_out,
                keep * before.seconds + now.seconds,
            )
    return _decided(replace(state, seen=seen, observations=state.observations + 1))


def _decided(state: Ordering) -> Ordering:
    costs = {order: cost for order, cost in state.costs.items() if cost is not None}
    best = min(costs, key=lambda order: (costs[order], order != state.order), default=None)
    if best is None or best == state.order:
        return replace(state, challenger=None, in_a_row=0)
    others = [cost for order, cost in costs.items() if order != best] if state.order is None else [costs[state.order]]
    if not others or costs[best] > (1 - state.policy.margin) * min(others):
        return replace(state, challenger=None, in_a_row=0)
    in_a_row = state.in_a_row + 1 if best == state.challenger else 1
    if in_a_row < state.policy.patience:
        return replace(state, challenger=best, in_a_row=in_a_row)
    why = f"{costs[best] / min(others):.0%} of the cost, {in_a_row} times in a row"
    switch = Switch(state.observations, state.order, best, why)
    return replace(state, order=best, challenger=None, in_a_row=0, history=(*state.history, switch))


def _by_lottery(orders: tuple[Order, ...], known: Mapping[str, Seen]) -> dict[Order, float]:
    """The chance of each order if its joins are drawn one after the other from those that may come next."""
    chances = dict.fromkeys(orders, 1.0)
    for length in range(len(orders[0])):
        for prefix in {order[:length] for order in orders}:
            following = [order for order in orders if order[:length] == prefix]
            names = sorted({order[length] for order in following})
            tickets = [_tickets(known, name) for name in names]
            drawn = dict(zip(names, shares(tickets, _speeds(known, names)), strict=True))
            for order in following:
                chances[order] *= drawn[order[length]]
    return chances


def _tickets(known: Mapping[str, Seen], name: str) -> float:
    return rank(known[name]) if name in known else 0.0


def _speeds(known: Mapping[str, Seen], names: list[str]) -> list[float]:
    """Rows per second. Who was never seen is taken to be as quick as the quickest, so that it is seen."""
    speeds = {name: 1 / known[name].cost for name in names if name in known and known[name].cost > 0}
    quickest = max(speeds.values(), default=1.0)
    return [speeds.get(name, quickest) for name in names]
