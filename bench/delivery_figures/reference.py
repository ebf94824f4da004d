"""The source's procedure by the letter, and the best that grouping could do: what weft's figures are held against.

**Plain**: each query joins the group that gains most on the first link, groups are flat lists, a group publishes all
columns that its members show, compare or need the clocks of, and a link carries the rows that somebody behind it wants,
each with all columns that anybody behind it needs. A query that is alone publishes what its user sees. This is how the
digest of the source counted, too, when it measured 14.7, 16.6, 24.7 and 28.8 % with rates, overlays and random numbers
that it does not name.

**Best**: all ways to divide the queries of a family into groups, if they are few; if not, what moving single queries
and merging groups comes to, from the groups that there are and from one group of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.delivery_figures.overlay import Overlay, traffic, traffic_alone
from weft.optimizer.group_results import Groups
from weft.optimizer.group_results.forest import Forest
from weft.optimizer.group_results.forms import Form, met
from weft.optimizer.group_results.pricing import ForestMember, Pricing, members_below

#: Families of no more queries than that are divided in all possible ways.
_FEW = 9


@dataclass(slots=True)
class _Flat:
    """A group of the plain procedure."""

    form: Form
    rows: int
    columns: int
    cost: float
    members: list[ForestMember]


def plain_reduction(groups: Groups, overlay: Overlay, where: dict[str, int], names: Sequence[str]) -> float:
    """The share of latency × traffic that the plain procedure saves."""
    apart = together = 0.0
    by_forest: dict[Forest, list[_Flat]] = {}
    for name in names:
        forest = groups._where[name]
        assert isinstance(forest, Forest)
        alone = traffic_alone(groups, name)
        _insert_plainly(by_forest.setdefault(forest, []), forest.members[name], forest.prices, alone)
        far = sum(overlay.latency[node] for node in overlay.path(where[name]))
        apart += alone * far
    for forest, flat in by_forest.items():
        together += sum(_carried_plainly(groups, each.members, forest.prices, overlay, where) for each in flat)
    return 1.0 - together / apart


def _insert_plainly(flat: list[_Flat], new: ForestMember, prices: Pricing, alone: float) -> None:
    own, form = new.node.own, new.node.form
    best, gain, merged = None, 1e-12 * alone, None
    for each in flat:
        together = met([each.form, form])
        cost = _cost(prices, together, each.rows | own.rows, each.columns | own.columns)
        if each.cost + alone - cost > gain:
            best, gain, merged = each, each.cost + alone - cost, together
    if best is None or merged is None:
        flat.append(_Flat(form, own.rows, own.columns, alone, [new]))
        return
    best.form, best.rows, best.columns = merged, best.rows | own.rows, best.columns | own.columns
    best.cost = _cost(prices, merged, best.rows, best.columns)
    best.members.append(new)


def _cost(prices: Pricing, form: Form, rows: int, columns: int) -> float:
    return prices.rate(form) * prices.share(rows) * prices.width(columns)


def _carried_plainly(
    groups: Groups, members: Sequence[ForestMember], prices: Pricing, overlay: Overlay, where: dict[str, int]
) -> float:
    """Latency × traffic of a group of the plain procedure, over all links."""
    behind: dict[int, list[ForestMember]] = {}
    for member in members:
        for node in overlay.path(where[str(member.node.name)]):
            behind.setdefault(node, []).append(member)
    total = 0.0
    for node, some in behind.items():
        if len(members) == 1:
            total += overlay.latency[node] * traffic_alone(groups, str(some[0].node.name))
            continue
        rows = columns = 0
        for each in some:
            rows, columns = rows | each.node.own.rows, columns | each.node.own.columns
        total += overlay.latency[node] * _cost(prices, met([each.node.form for each in some]), rows, columns)
    return total


# --- the best ---------------------------------------------------------------------------------------------------------

_Partition = list[tuple[int, ...]]


def saved_on_first_links(groups: Groups) -> tuple[float, float]:
    """The share of traffic on the first links that groups save, and that the best ones found would save."""
    apart = reached = best = 0.0
    for forest in groups._forests.values():
        members = list(forest.members.values())
        number = {str(each.node.name): at for at, each in enumerate(members)}
        here = [tuple(number[str(each.name)] for each in members_below(tree.root)) for tree in forest.trees]
        prices = _Prices(forest.prices, members)
        apart += sum(prices.of((at,)) for at in range(len(members)))
        reached += prices.total(here)
        best += _least(prices, here)
    return 1.0 - reached / apart, 1.0 - best / apart


class _Prices:
    """What sets of members cost, each worked out once."""

    def __init__(self, prices: Pricing, members: Sequence[ForestMember]) -> None:
        self._prices, self.members = prices, members
        self._known: dict[frozenset[int], float] = {}

    def of(self, chosen: tuple[int, ...]) -> float:
        key = frozenset(chosen)
        if key not in self._known:
            self._known[key] = traffic(self._prices, [self.members[at] for at in chosen])
        return self._known[key]

    def total(self, partition: _Partition) -> float:
        return sum(map(self.of, partition))


def _least(prices: _Prices, here: _Partition) -> float:
    count = len(prices.members)
    if count <= _FEW:
        return _least_of_all(prices, count)
    return min(_improved(prices, here), _improved(prices, [tuple(range(count))]))


def _least_of_all(prices: _Prices, count: int) -> float:
    """Over all partitions: the best of a set is some subset with its lowest member, and the best of the rest."""
    least = [0.0] * (1 << count)
    for chosen in range(1, 1 << count):
        lowest = chosen & -chosen
        rest = chosen ^ lowest
        found, part = float("inf"), rest
        while True:
            group = tuple(at for at in range(count) if (part | lowest) >> at & 1)
            found = min(found, prices.of(group) + least[rest ^ part])
            if not part:
                break
            part = (part - 1) & rest
        least[chosen] = found
    return least[-1]


def _improved(prices: _Prices, partition: _Partition, rounds: int = 3) -> float:
    """After moving single members, and merging groups, for as long as that gains anything."""
    groups = [list(each) for each in partition]
    totals = [prices.total([tuple(each) for each in groups])]
    for _ in range(rounds):
        for member in range(len(prices.members)):
            _move(prices, groups, member)
        groups = _merged(prices, groups)
        totals.append(prices.total([tuple(each) for each in groups]))
        if any(after >= before * (1 - 1e-9) for before, after in pairwise(totals[-2:])):
            break
    return totals[-1]


def _move(prices: _Prices, groups: list[list[int]], member: int) -> None:
    home = next(each for each in groups if member in each)
    others = [each for each in home if each != member]
    leaving = prices.of(tuple(home)) - (prices.of(tuple(others)) if others else 0.0)
    choices = [each for each in groups if each is not home] + ([[]] if others else [])
    if not choices:
        return
    to = min(choices, key=lambda each: _joining(prices, each, member))
    if _joining(prices, to, member) < leaving * (1 - 1e-9):
        home.remove(member)
        to.append(member)
        if len(to) == 1:
            groups.append(to)
        if not home:
            groups.remove(home)


def _joining(prices: _Prices, group: list[int], member: int) -> float:
    return prices.of((*group, member)) - (prices.of(tuple(group)) if group else 0.0)


def _merged(prices: _Prices, groups: list[list[int]]) -> list[list[int]]:
    kept: list[list[int]] = []
    for group in groups:
        gains = [prices.of(tuple(o)) + prices.of(tuple(group)) - prices.of((*o, *group)) for o in kept]
        if gains and max(gains) > 0:
            kept[gains.index(max(gains))].extend(group)
        else:
            kept.append(group)
    return kept
