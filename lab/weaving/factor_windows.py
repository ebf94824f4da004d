"""Factor windows: an auxiliary stream of fragments that no query asked for, kept because it makes others cheaper.

A woven plan has trees, and every tree needs the stream cut at its own edges. Two ways to do that are the papers': each
tree reads all rows (two levels, λ for each), or all trees read one finest stream of fragments (TriOps, λ once and E for
each). Both are special cases of a *roll-up*: a tree may read the fragments of anything whose edges contain its own, be
it another tree or a cut made for that purpose alone. Wu et al., "Factor Windows: Cost-based Query Rewriting for
Optimizing Correlated Window Aggregates", have this for tumbling windows. Their example, one row per minute, windows of
20, 30 and 40 minutes, counted in operations per two hours:

    each from rows             360    rows ──→ 20,   rows ──→ 30,   rows ──→ 40
    40 from 20                 246    rows ──→ 20 ──→ 40,   rows ──→ 30
    a factor window of 10      150    rows ──→ 10 ──→ 20 ──→ 40,   10 ──→ 30
    here                       142    rows ──→ {20, 30} ──→ 20 ──→ 40,   {20, 30} ──→ 30

A factor window must be a window, so theirs cuts at 10, 50, 70 and 110, where nobody needs an edge. Fragments need not
be of equal length: the cut at every multiple of 20 or 30 serves the same readers with fewer fragments.

The search is greedy: insert the union of two streams of fragments while one saves anything, best first. It is run with
and without the finest stream of all, so the result is never dearer than either of the papers' ways. It takes time cubic
in the number of trees: for the dozens of a woven plan a moment, for thousands of unwoven queries too long.

A further tree costs less when it can read a neighbour's fragments, so the cheapest cut of a dendrogram has more trees
then: `weave_with_factor_windows` looks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from lab.weaving.plans import Levels, Weaving, WovenPlan
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet, reduced

# Cuts with more trees than this are not tried: the search takes seconds there, and rarely is one of them the best.
_MOST_TREES = 24


@dataclass(frozen=True, slots=True)
class Feed:
    """One stream of fragments, and what it is made from."""

    edges: EdgeSet
    source: int | None
    """The feed whose fragments it combines, by its number in the roll-up; None if it reads rows."""
    tree: int | None
    """The tree it is for, by its number among those given; None if it is there for other feeds alone."""


@dataclass(frozen=True, slots=True)
class RollUp:
    """How every tree of a plan gets its fragments. The first feeds are the trees', in their order."""

    feeds: tuple[Feed, ...]
    cost: Fraction
    """Rows and fragments that are combined per tick, over all feeds."""

    @property
    def auxiliary(self) -> tuple[Feed, ...]:
        """The feeds that no query asked for."""
        return tuple(feed for feed in self.feeds if feed.tree is None)


@dataclass(frozen=True, slots=True)
class FactoredPlan:
    """A woven plan whose trees read one another where that is cheaper."""

    plan: WovenPlan
    """The groups and their kernels; its own cost is that of plain two or three levels."""
    roll_up: RollUp
    """How each group, in the order of the plan, gets its fragments."""
    cost: Fraction


def weave_with_factor_windows(weaving: Weaving, rate: Fraction) -> FactoredPlan:
    """The cheapest plan of a dendrogram if trees may read one another: never dearer than with two or three levels.

    >>> from weft.algebra import Window
    >>> from lab.weaving.plans import weave
    >>> weaving = weave([Window(20 * minutes, minutes) for minutes in (20, 30, 40)])
    >>> plain, factored = weaving.plan(10), weave_with_factor_windows(weaving, Fraction(10))
    >>> float(plain.cost), float(factored.cost)
    (14.0, 12.35)
    """
    size = len(weaving.leaves)
    few = (weaving.plan_after(size - trees, rate) for trees in range(1, min(size, _MOST_TREES) + 1))
    best = (weaving.plan(rate, levels) for levels in Levels)
    return min((with_factor_windows(plan) for plan in (*best, *few)), key=lambda found: found.cost)


def with_factor_windows(plan: WovenPlan) -> FactoredPlan:
    """The same groups, each reading what is cheapest for it, at the prices of the plan's costing."""
    costing = plan.costing
    # In units of one partial, so that the search need not know prices.
    roll_up = factor_windows([group.edges for group in plan.groups], plan.rate * costing.row / costing.partial)
    finals = sum((group.final_cost for group in plan.groups), Fraction(0))
    return FactoredPlan(plan, roll_up, roll_up.cost * costing.partial + finals)


def factor_windows(trees: Sequence[EdgeSet], rate: Fraction) -> RollUp:
    """The cheapest way found to cut a stream of `rate` rows per tick at the edges of each of these trees.

    >>> from weft.algebra import Window
    >>> from weft.windows.slicing import shared_edges
    >>> trees = [shared_edges([Window(minutes, minutes)]) for minutes in (20, 30, 40)]
    >>> found = factor_windows(trees, Fraction(1))
    >>> found.cost * 120, len(found.auxiliary)
    (Fraction(142, 1), 1)
    """
    nodes = [reduced(tree) for tree in trees]
    if not nodes:
        return RollUp((), Fraction(0))
    plain = _with_auxiliaries(nodes, [], rate)
    finest = reduced(frozenset().union(*nodes))
    if finest in nodes:
        return plain
    return min(plain, _with_auxiliaries(nodes, [finest], rate), key=lambda found: found.cost)


def without_factor_windows(trees: Sequence[EdgeSet], rate: Fraction) -> RollUp:
    """The same with what the trees are, and nothing besides: each reads the cheapest of rows and other trees.

    With a tree for each factor of 1,000 that is the lattice of divisors:

    >>> from weft.algebra import Window
    >>> from weft.windows.slicing import shared_edges
    >>> trees = [shared_edges([Window(slide, slide)]) for slide in range(1, 1001) if 1000 % slide == 0]
    >>> len(trees), float(without_factor_windows(trees, Fraction(1)).cost)
    (16, 4.424)
    """
    return _rolled_up([reduced(tree) for tree in trees], [], rate)


def lies_within(coarse: EdgeSet, fine: EdgeSet) -> bool:
    """Whether every edge of one stream is an edge of the other, so that its fragments can be made from the other's.

    Asks for each class whether one class of the other holds it. Classes that hold it only together (odd and even
    instants, say) are not seen: a saving may be missed, but none is claimed that is not there.
    """
    return all(
        any(edge.modulus % other.modulus == 0 and (edge.residue - other.residue) % other.modulus == 0 for other in fine)
        for edge in coarse
    )


def _with_auxiliaries(trees: list[EdgeSet], auxiliary: list[EdgeSet], rate: Fraction) -> RollUp:
    """Inserts unions while one saves, then drops those that later ones have made superfluous."""
    auxiliary = list(auxiliary)
    while (found := _best_insertion([*trees, *auxiliary], rate)) is not None:
        auxiliary.append(found)
    best = _rolled_up(trees, auxiliary, rate)
    for candidate in list(auxiliary):
        rest = [each for each in auxiliary if each != candidate]
        without = _rolled_up(trees, rest, rate)
        if without.cost <= best.cost:
            auxiliary, best = rest, without
    return best


def _best_insertion(nodes: list[EdgeSet], rate: Fraction) -> EdgeSet | None:
    """The union of two nodes that saves most, the first of equals; None if none saves anything."""
    present = set(nodes)
    inputs = [_input_rate(nodes, index, rate) for index in range(len(nodes))]
    best: tuple[Fraction, EdgeSet] | None = None
    considered: set[EdgeSet] = set()
    for left, right in combinations(nodes, 2):
        candidate = reduced(left | right)
        if candidate in present or candidate in considered:
            continue
        considered.add(candidate)
        saving = _saving(candidate, nodes, inputs, rate)
        if saving > 0 and (best is None or saving > best[0]):
            best = saving, candidate
    return None if best is None else best[1]


def _saving(candidate: EdgeSet, nodes: list[EdgeSet], inputs: list[Fraction], rate: Fraction) -> Fraction:
    """What a new feed saves its readers, less what it reads itself."""
    own = edge_rate(candidate)
    saved = sum(
        (paid - own for node, paid in zip(nodes, inputs, strict=True) if paid > own and lies_within(node, candidate)),
        Fraction(0),
    )
    if saved == 0:
        return saved
    reads = min((edge_rate(node) for node in nodes if lies_within(candidate, node)), default=rate)
    return saved - min(rate, reads)


def _input_rate(nodes: list[EdgeSet], index: int, rate: Fraction) -> Fraction:
    source = _source(nodes, index, rate)
    return rate if source is None else edge_rate(nodes[source])


def _source(nodes: list[EdgeSet], index: int, rate: Fraction) -> int | None:
    """The slowest of what a feed can be made from; rows at equal rates, since they are there already.

    Of trees with equal edges the later ones read the first: two feeds never read each other.
    """
    best, best_rate = None, rate
    for other, edges in enumerate(nodes):
        if other == index or (edges == nodes[index] and other > index):
            continue
        if edge_rate(edges) < best_rate and lies_within(nodes[index], edges):
            best, best_rate = other, edge_rate(edges)
    return best


def _rolled_up(trees: list[EdgeSet], auxiliary: list[EdgeSet], rate: Fraction) -> RollUp:
    nodes = [*trees, *auxiliary]
    sources = [_source(nodes, index, rate) for index in range(len(nodes))]
    feeds = tuple(
        Feed(edges, source, index if index < len(trees) else None)
        for index, (edges, source) in enumerate(zip(nodes, sources, strict=True))
    )
    cost = sum((rate if source is None else edge_rate(nodes[source]) for source in sources), Fraction(0))
    return RollUp(feeds, cost)
