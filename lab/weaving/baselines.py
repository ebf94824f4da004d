"""Baselines: other ways to group queries into trees, to compare weaving with and to fall back on.

    no_share            every query has a tree of its own
    shared              one tree for all, cut at every edge of every window (Shared Time Slices)
    panes               one tree for all, cut evenly by the greatest common divisor of all ranges and slides
    random_trees        in random order, a coin decides: into the newest tree, or into a new one
    exhaustive          the best partition there is: O(3ⁿ), for ten queries at most
    local_search        move one query at a time, the best move first, until none helps
    insert_then_weave   each query joins the best tree at its arrival, then trees are woven

These are Guirguis' choice of rivals for Weave Share ("Scalable Processing of Multiple Aggregate Continuous Queries").
He names the last one and does not define it, so it is reconstructed from what is said of it. Panes are Li et al.'s,
"No Pane, No Gain". Each gives a plan of the same kind as weaving, with its cost; equal queries are grouped one by one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd

from lab.weaving.costings import Costing, by_overlap
from lab.weaving.partition_search import Partition, TreePrice, insert_one_by_one
from lab.weaving.partition_search import exhaustive as exhaustive_search
from lab.weaving.partition_search import local_search as search_locally
from lab.weaving.plans import Levels, WovenPlan, assembled, collapse, plan_of, tree_cost, weave
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq, Counted, demands_of, edges_of_all
from weft.optimizer.weave.dendrogram import PartitionGroup
from weft.windows.counting import edge_rate
from weft.windows.slicing import bounded_range, residue_class

Queries = Iterable[Acq | Window] | Counted

_OVERLAP = by_overlap()


def no_share(queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP) -> WovenPlan:
    """A tree for each query.

    >>> windows = [Window(16, 4), Window(10, 5), Window(8, 4)]
    >>> no_share(windows, Fraction(6, 5)).cost, shared(windows, Fraction(6, 5)).cost
    (Fraction(11, 2), Fraction(22, 5))
    """
    return plan_of([[query] for query in one_by_one(queries)], rate, levels, costing)


def shared(queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP) -> WovenPlan:
    """One tree for all queries."""
    everything = collapse(queries)
    return plan_of([everything] if everything else [], rate, levels, costing)


def panes(queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP) -> WovenPlan:
    """One tree for all queries, cut evenly: by what divides all ranges, slides and distances of origins.

    >>> float(panes([Window(12, 9), Window(10, 6)], Fraction(1)).groups[0].edge_rate)
    1.0
    """
    members = collapse(queries)
    if not members:
        return plan_of([], rate, levels, costing)
    windows = [query.window for query in members]
    origin = windows[0].origin
    step = gcd(*(part for each in windows for part in (bounded_range(each), each.slide, each.origin - origin)))
    edges = frozenset({residue_class(step, origin)})
    per_tick = edge_rate(edges)
    group = PartitionGroup(members, edges, per_tick, costing.final_cost(demands_of(members), per_tick))
    return assembled((group,), rate, levels, per_tick, costing)


def random_trees(
    queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP, *, seed: int = 0
) -> WovenPlan:
    """Guirguis' Random: about half as many trees as queries."""
    each = one_by_one(queries)
    return plan_of(_parts(each, random_partition(len(each), seed)), rate, levels, costing)


def exhaustive(queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP) -> WovenPlan:
    """The cheapest plan of all, for ten queries at most."""
    each = one_by_one(queries)
    search = exhaustive_search(len(each), _per_tree(each, rate, levels, costing), tree_prices(each, costing))
    return _better_than_sharing_all(each, search, rate, levels, costing)


def local_search(
    queries: Queries,
    rate: Fraction,
    levels: Levels = Levels.TWO,
    costing: Costing = _OVERLAP,
    *,
    start: Partition | None = None,
    most_moves: int | None = None,
) -> WovenPlan:
    """Guirguis' adaptation of Local Search, from No Share unless told otherwise.

    His best variant may take ten times as many moves as Weave Share takes rounds, of which there are fewer than
    queries; that is the bound unless another is given.
    """
    each = one_by_one(queries)
    begin = tuple((number,) for number in range(len(each))) if start is None else start
    moves = 10 * len(each) if most_moves is None else most_moves
    found = search_locally(begin, _per_tree(each, rate, levels, costing), tree_prices(each, costing), moves)
    return _better_than_sharing_all(each, found, rate, levels, costing)


def insert_then_weave(
    queries: Queries, rate: Fraction, levels: Levels = Levels.TWO, costing: Costing = _OVERLAP
) -> WovenPlan:
    """Inserts the queries one by one in their order, then weaves the trees that have come of it."""
    each = one_by_one(queries)
    per_tree = _per_tree(each, rate, levels, costing)
    inserted = insert_one_by_one(range(len(each)), per_tree, tree_prices(each, costing))
    if not inserted:
        return plan_of([], rate, levels, costing)
    return weave((), costing, start=[collapse(part) for part in _parts(each, inserted)]).plan(rate, levels)


def one_by_one(queries: Queries) -> list[Acq]:
    """Every single query, equal ones as often as they occur."""
    return [query for query, count in collapse(queries).items() for _ in range(count)]


def random_partition(queries: int, seed: int) -> Partition:
    """In random order, each query goes into the newest tree or opens another, as a fair coin decides."""
    coin = random.Random(seed)
    order = list(range(queries))
    coin.shuffle(order)
    trees: list[list[int]] = []
    for number in order:
        if trees and coin.random() < 0.5:
            trees[-1].append(number)
        else:
            trees.append([number])
    return tuple(tuple(sorted(tree)) for tree in trees)


def tree_prices(queries: Sequence[Acq], costing: Costing) -> TreePrice:
    """What the final aggregation of a tree costs, exactly, by the numbers of its queries; remembered."""

    @lru_cache(maxsize=1 << 18)
    def price(tree: tuple[int, ...]) -> Fraction:
        return tree_cost(collapse([queries[number] for number in tree]), costing).final

    return price


def _per_tree(queries: Sequence[Acq], rate: Fraction, levels: Levels, costing: Costing) -> Fraction:
    """What one tree more costs before it aggregates anything: all rows once more, or all partials of the finest cut."""
    if levels is Levels.TWO:
        return rate * costing.row
    return edge_rate(edges_of_all(queries)) * costing.partial


def _better_than_sharing_all(
    queries: Sequence[Acq], found: Partition, rate: Fraction, levels: Levels, costing: Costing
) -> WovenPlan:
    """The plan of a partition, or one tree for all: of three levels that has one less, which no search by tree sees."""
    plan = plan_of(_parts(queries, found), rate, levels, costing)
    if levels is Levels.TWO or not queries:
        return plan
    return min(plan, shared(queries, rate, levels, costing), key=lambda each: each.cost)


def _parts(queries: Sequence[Acq], partition: Partition) -> list[list[Acq]]:
    return [[queries[number] for number in tree] for tree in partition]
