"""What the joins of selects that are in the network cost, and what they would cost if they were chosen now.

Selects that share their first join go together: as long as one of them stays, that join costs the others nothing, and
none would ever leave it. What they cost is what the network would have to do more than without them:

    q1, q2 ── J = r1 x r2 ──> …     now      |S1| + |S2| + |J| + …        in the order that they have
                                    better   |S2| + |S3| + |K| + …        in the best order, without J

Whether a selection below a join should be a node of its own is not a question of that sum. The share of rows that it
keeps decides, as for a new join: `sizes.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from weft.optimizer.network.choose_joins import ExistingRows, Order, Part, rank
from weft.optimizer.network.nodes import Nodes
from weft.optimizer.network.planner import Planner
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

    def is_worth_it(self, factor: int) -> bool:
        return self.now >= factor * max(self.best, 1) or self.selected > 0


def costs(planner: Planner, places: tuple[str, ...], wanted: Mapping[str, SelectNeeds]) -> Costs:
    """What some selects cost, looking at a few of them. If one of these would stay as it is, none would gain."""
    nodes = planner.nodes
    without = needed_by_these_alone(nodes, places)
    now = best = 0
    stays = False
    for place in places[:LOOKED_AT]:
        choice = planner.choice(wanted[place], without)
        order, chosen = order_of(nodes, place), choice.best()
        stays = stays or order == order_of_part(nodes, chosen)
        now += rank(choice.in_order(order))[0]
        best += rank(chosen)[0]
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
            selected = estimates.selected(anchor, predicates)
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
    lower = [each for each in (anchor.anchors or ())[:2] if nodes[each].parents]
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


# -- orders -----------------------------------------------------------------------------------------------------------


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
    entry = nodes[number]
    if not entry.parents:
        return inputs[0]
    if entry.is_selection:
        return _order_below(nodes, entry.parents[0], inputs)
    left, right = entry.parents
    width = len(nodes[left].legs)
    return _ordered(_order_below(nodes, left, inputs[:width]), _order_below(nodes, right, inputs[width:]))


def _ordered(left: Order, right: Order) -> Order:
    """Which side is the left one makes no difference."""
    return (left, right) if min(_inputs(left)) < min(_inputs(right)) else (right, left)


def _inputs(order: Order) -> Iterator[int]:
    if isinstance(order, int):
        yield order
    else:
        for side in order:
            yield from _inputs(side)


def order_text(order: Order) -> str:
    """An order for people, the inputs called T1, T2, … as FROM has them.

    >>> order_text(((0, 2), 1))
    '(T1 x T3) x T2'
    """
    if isinstance(order, int):
        return leg_name(order)
    left, right = (order_text(side) if isinstance(side, int) else f"({order_text(side)})" for side in order)
    return f"{left} x {right}"
