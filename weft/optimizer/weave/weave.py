"""Weave Share: which queries share a tree.

Two trees that become one read their input once instead of twice, and every query in it sees the edges of all others.
Merging pays if the first outweighs the second:

    benefit(x, y)  =  λ  +  F(x) + F(y) − F(x ∪ y)          F = E·Ω, the final aggregation of a tree

Weave Share (Guirguis, "Scalable Processing of Multiple Aggregate Continuous Queries") starts with a tree for each query
and merges the pair with the highest benefit while there is one. TriWeave is the same with the rate of the finest cut in
the place of λ. Either is the same to all pairs, so **the order of merges does not depend on it**; it only says when to
stop. Weaving goes on to a single tree once, and writes down what is left to pay after each merge:

    trees m        5      4      3      2      1
    F             12     12     13     16     21          a plan of m trees costs m·λ + F
    λ = 2         22     20    *19     20     23
    λ = 6         42     36     31     28    *27

Every plan for every rate is a cut of this one dendrogram, at its cheapest point: it costs no more than one tree for all
(m = 1) or one for each (m = n).

Where the time goes, and what is done about it:

1. Equal queries are one query with a multiplicity. If there are many, those with equal edges are one leaf: merging them
   saves λ and costs next to nothing. A million queries with slides from the 36 factors of 100,000 have 36 leaves. Where
   even different edges are too many, queries with equal slides are one leaf.
2. All benefits are computed once and kept (the source's Cost Lookup); a merge computes those of the new tree, and of
   those only what bounds do not settle. Each tree knows its nearest partner: a round looks at one number for each.
3. Benefits are floats; where two are closer than rounding can tell, both are computed exactly, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.optimizer.weave.costing import Acq, Costing, Counted, Floats, demands_of, edges_of, edges_of_all
from weft.optimizer.weave.dendrogram import Leaf, Weaving
from weft.optimizer.weave.edge_meter import Meter, measured
from weft.optimizer.weave.trees import Trees
from weft.windows.slicing import EdgeSet

Slots: TypeAlias = NDArray[np.int64]

# The most leaves: benefits of all pairs of them are held in memory.
_MOST_LEAVES = 3_000

# Up to this number of different queries, those with equal edges are separate leaves: a kernel may want them apart.
_FEW_QUERIES = 96

# The most pairs of equal benefit, to eleven digits, that are compared exactly. Of more, the first is as good as any.
_MANY_TIES = 256

# How many bounds are replaced by exact benefits at a time.
_AT_ONCE = 8


def weave(queries: Counted, costing: Costing) -> Weaving:
    """The dendrogram of these queries."""
    if len(queries) <= _FEW_QUERIES:
        return woven([Leaf({query: count}, edges_of(query)) for query, count in queries.items()], costing)
    return woven(leaves_by_edges(queries), costing)


def woven(leaves: Sequence[Leaf], costing: Costing) -> Weaving:
    """The dendrogram above some leaves."""
    if not leaves:
        raise ValueError("there is nothing to weave: give at least one query")
    return measured([leaf.edges for leaf in leaves], lambda meter: _Loom(leaves, costing, meter).weave())


def leaves_by_edges(queries: Counted) -> list[Leaf]:
    """Queries with equal edges as one leaf.

    If that leaves too many, those with equal slides are one, and rare slides go with frequent ones: a slide joins the
    one that it adds fewest edges to, since of its edges a share gcd/slide of the other meets an edge there.
    """
    by_edges: dict[EdgeSet, dict[Acq, int]] = {}
    by_slide: dict[int, dict[Acq, int]] = {}
    for query, count in queries.items():
        by_edges.setdefault(edges_of(query), {})[query] = count
        by_slide.setdefault(query.window.slide, {})[query] = count
    if len(by_edges) <= _MOST_LEAVES:
        return [Leaf(members, edges) for edges, members in by_edges.items()]
    frequent = sorted(by_slide, key=lambda slide: (-len(by_slide[slide]), slide))[:_MOST_LEAVES]
    kept = np.array(sorted(frequent))
    for slide in sorted(by_slide.keys() - set(frequent)):
        meets = np.gcd(kept, slide) / kept
        by_slide[int(kept[np.flatnonzero(meets == meets.max())[-1]])].update(by_slide.pop(slide))
    return [Leaf(by_slide[slide], edges_of_all(by_slide[slide])) for slide in kept.tolist()]


class _Loom:
    """A weaving that is going on.

    A tree has a number, which it keeps, and a slot in the lookup, which it inherits: a merged tree takes the lower of
    the two that it is made of.
    """

    def __init__(self, leaves: Sequence[Leaf], costing: Costing, meter: Meter) -> None:
        self._leaves = leaves
        self._trees = Trees(costing, meter)
        self._slots = [self._trees.add(leaf.edges, demands_of(leaf.members)) for leaf in leaves]
        self._lookup = CostLookup(len(leaves))

    def weave(self) -> Weaving:
        for slot in range(1, len(self._leaves)):
            self._weigh(slot, np.arange(slot))
        merges = []
        for _ in range(len(self._leaves) - 1):
            left, right = self._best_pair()
            one, other = sorted((self._slots[left], self._slots[right]))
            merges.append((one, other))
            self._merge(left, right)
        trees = self._trees
        return Weaving(
            tuple(self._leaves), tuple(merges), tuple(trees.known), trees.costing, trees.meter.exact, trees.comparisons
        )

    def _merge(self, left: int, right: int) -> None:
        """Puts one tree in the place of two: in slot `left`, which is the lower."""
        lookup, parts = self._lookup, (self._slots[left], self._slots[right])
        others = lookup.others(left, right)
        trees = [self._slots[slot] for slot in others.tolist()]
        rates_of_parts = lookup.rates[np.ix_(np.array([left, right]), others)]
        self._slots[left] = tree = self._trees.join(*parts)
        lookup.drop(right)
        if trees:
            # For want of the edge rate, what the benefit is at most: few pairs are ever looked at again.
            least = self._trees.least_rates(tree, parts, trees, rates_of_parts)
            benefits = self._trees.benefits(tree, trees, least, or_higher=True)
            lookup.fill(left, others, *benefits, least, known=False)

    def _weigh(self, slot: int, others: Slots) -> None:
        """Looks up the benefit of merging a tree with each of the others."""
        tree, trees = self._slots[slot], [self._slots[other] for other in others.tolist()]
        rates = self._trees.rates_together(tree, trees)
        self._lookup.fill(slot, others, *self._trees.benefits(tree, trees, rates), rates, known=True)

    def _best_pair(self) -> tuple[int, int]:
        """The slots of the pair with the highest benefit, the lower one first; of equals the first pair."""
        while True:
            pairs = self._lookup.highest()
            unknown = next((left for left, right in pairs if not self._lookup.known[left, right]), None)
            if unknown is not None:
                self._weigh(unknown, self._lookup.most_promising(unknown))
            elif len(pairs) == 1:
                return pairs[0]
            else:
                slots, benefit = self._slots, self._trees.exact_benefit
                return max(pairs, key=lambda pair: (benefit(slots[pair[0]], slots[pair[1]]), -pair[0], -pair[1]))


class CostLookup:
    """The benefits of all pairs of trees, by slots: slot numbers stay, trees come and go.

    They are computed once; after a merge only those of the new tree are. Even of those most need not be known: a bound
    on the edges that two trees have together is a bound on the benefit, and a pair whose bound is too low to be the
    best is left alone. Each slot has its highest benefit beside: finding the best pair looks at one number for each.
    """

    def __init__(self, size: int) -> None:
        self._benefits = np.full((size, size), -np.inf)
        self._highest = np.full(size, -np.inf)
        self._alive = np.ones(size, dtype=np.bool_)
        self._margin = 0.0
        self.rates = np.zeros((size, size))
        """The edge rate of each pair; where the benefit is not known, what it is at least."""
        self.known = np.zeros((size, size), dtype=np.bool_)
        """Whether a benefit is known, or only bounded."""

    def fill(self, slot: int, others: Slots, benefits: Floats, margin: float, rates: Floats, *, known: bool) -> None:
        """The benefits of a slot with others, or bounds on them, each at most `margin` off."""
        before = self._benefits[slot, others].copy()
        self._margin = max(self._margin, margin)
        for matrix, values in ((self._benefits, benefits), (self.rates, rates), (self.known, known)):
            matrix[slot, others] = matrix[others, slot] = values
        self._highest[slot] = self._benefits[slot].max()
        risen = benefits >= self._highest[others]
        self._highest[others[risen]] = benefits[risen]
        # A slot whose best partner was this one, and is no longer as good, must look again.
        self._look_again(others[~risen & (before == self._highest[others])])

    def drop(self, slot: int) -> None:
        self._alive[slot] = False
        before = self._benefits[slot].copy()
        self._benefits[slot] = self._benefits[:, slot] = -np.inf
        self._highest[slot] = -np.inf
        self._look_again(np.flatnonzero(self._alive & (before == self._highest)))

    def others(self, *slots: int) -> Slots:
        """All slots with trees in them, but these."""
        alive = self._alive.copy()
        alive[list(slots)] = False
        return np.flatnonzero(alive)

    def highest(self) -> list[tuple[int, int]]:
        """The pairs that may have the highest benefit, as far as rounding can tell; the lower slot comes first.

        If very many may (there are Ω that are the same for all plans), the first of them is given for all.
        """
        floor = self._highest.max() - 2 * self._margin
        pairs: list[tuple[int, int]] = []
        for one in np.flatnonzero(self._highest >= floor).tolist():
            others = np.flatnonzero(self._benefits[one] >= floor)
            pairs += [(one, other) for other in others.tolist() if one < other]
            if len(pairs) > _MANY_TIES:
                return pairs[:1]
        return pairs

    def most_promising(self, slot: int) -> Slots:
        """The partners of a slot with the highest bounds, of those whose benefit is not known."""
        unknown = np.flatnonzero(~self.known[slot] & (self._benefits[slot] > -np.inf))
        if len(unknown) <= _AT_ONCE:
            return unknown
        return unknown[np.argpartition(-self._benefits[slot, unknown], _AT_ONCE)[:_AT_ONCE]]

    def _look_again(self, slots: Slots) -> None:
        if len(slots):
            self._highest[slots] = self._benefits[slots].max(axis=1)
