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

Every plan for every rate, two levels or three, is a cut of this one dendrogram, at its cheapest point: it costs no
more than one tree for all (m = 1) or one for each (m = n).

Where the time goes, and what is done about it:

1. Equal queries are one query with a multiplicity. Queries with equal edges are one leaf: merging them saves λ and
   costs nothing, so Weave Share merges them first. A million queries with slides from the 36 factors of 100,000 have
   36 leaves. Where even different edges are too many, queries with equal slides are one leaf.
2. All benefits are computed once and kept (the source's Cost Lookup); a merge computes those of the new tree, and of
   those only what bounds do not settle. Each tree knows its nearest partner: a round looks at one number for each.
3. Benefits are floats; where two are closer than rounding can tell, both are computed exactly, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from weft.algebra import Window
from weft.optimizer.weave.acq import (
    Acq,
    Counted,
    collapse,
    demands_of,
    edges_of,
    edges_of_all,
)
from weft.optimizer.weave.costing import Costing, by_overlap
from weft.optimizer.weave.dendrogram import Leaf, Weaving, is_content
from weft.optimizer.weave.edge_meter import Meter, TooLongError, estimating_meter, exact_meter
from weft.optimizer.weave.trees import CostLookup, Trees
from weft.windows.slicing import EdgeSet

# The most leaves: benefits of all pairs of them are held in memory.
_MOST_LEAVES = 3_000

# Up to this number of different queries, those with equal edges are separate leaves if a kernel may want them apart.
_FEW_QUERIES = 96


def weave(
    queries: Iterable[Acq | Window] | Counted,
    costing: Costing | None = None,
    *,
    start: Iterable[Counted] | None = None,
) -> Weaving:
    """The dendrogram of these queries, by the overlap factor unless another costing is given.

    With `start`, weaving goes on from these groups of them.
    """
    costing = costing or by_overlap()
    if start is not None:
        leaves = [Leaf(dict(part), edges_of_all(part)) for part in start]
    else:
        leaves = _leaves(collapse(queries), costing)
    if not leaves:
        raise ValueError("there is nothing to weave: give at least one query")
    edges = [leaf.edges for leaf in leaves]
    meter = exact_meter(edges)
    if meter is not None:
        try:
            return _Loom(leaves, costing, meter).weave()
        except TooLongError:
            # Some union could not be counted. All rates must come from one meter, so it begins again.
            pass
    return _Loom(leaves, costing, estimating_meter(edges)).weave()


def _leaves(queries: Counted, costing: Costing) -> list[Leaf]:
    if len(queries) <= _FEW_QUERIES and not is_content(costing):
        return [Leaf({query: count}, edges_of(query)) for query, count in queries.items()]
    by_edges: dict[EdgeSet, dict[Acq, int]] = {}
    known: dict[Window, EdgeSet] = {}
    for query, count in queries.items():
        window = query.window
        edges = known.get(window)
        if edges is None:
            edges = known[window] = edges_of(query)
        by_edges.setdefault(edges, {})[query] = count
    leaves = [Leaf(members, edges) for edges, members in by_edges.items()]
    return leaves if len(leaves) <= _MOST_LEAVES else _coarser(leaves)


def _coarser(leaves: list[Leaf]) -> list[Leaf]:
    """Fewer leaves than there are edge sets: those with equal slides together, and rare slides with frequent ones.

    A slide joins the one that it adds fewest edges to, of its own: of its edges a share gcd/slide of the other meets an
    edge there.
    """
    by_slide: dict[int, dict[Acq, int]] = {}
    for leaf in leaves:
        for query, count in leaf.members.items():
            by_slide.setdefault(query.window.slide, {})[query] = count
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

    def __init__(self, leaves: list[Leaf], costing: Costing, meter: Meter) -> None:
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
        rates = tuple(tree.edge_rate for tree in trees.known)
        costs = tuple(tree.final for tree in trees.known)
        return Weaving(
            tuple(self._leaves),
            tuple(merges),
            rates,
            costs,
            rates[-1],
            trees.costing,
            trees.meter.exact,
            trees.comparisons,
        )

    def _merge(self, left: int, right: int) -> None:
        """Puts one tree in the place of two: in slot `left`, which is the lower."""
        lookup, parts = self._lookup, (self._slots[left], self._slots[right])
        others = lookup.others(left, right)
        trees = [self._slots[slot] for slot in others.tolist()]
        rates_of_parts = lookup.rates[np.ix_(np.array([left, right]), others)]
        self._slots[left] = tree = self._trees.join(*parts)
        lookup.drop(right)
        if trees and self._trees.ledger.rises_with_rate:
            # For want of the edge rate, what the benefit is at most: few pairs are ever looked at again.
            least = self._trees.least_rates(tree, parts, trees, rates_of_parts)
            benefits = self._trees.benefits(tree, trees, least, or_higher=True)
            lookup.fill(left, others, *benefits, least, known=False)
        elif trees:
            self._weigh(left, others)

    def _weigh(self, slot: int, others: NDArray[np.int64]) -> None:
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
                return max(pairs, key=lambda pair: (self._exact_benefit(*pair), -pair[0], -pair[1]))

    def _exact_benefit(self, left: int, right: int) -> Fraction:
        return self._trees.exact_benefit(self._slots[left], self._slots[right])
