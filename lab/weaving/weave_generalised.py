"""Generalised TriWeave: windows, groupings and predicates together.

1. The group-by tree is made as if all windows were equal (`weave_groupings`).
2. Every child of its root stands for the queries below it; each such set is woven on its own, predicates ignored.
3. The two are put together: the root is the one sub-aggregation for all; every child of the root an intercede
   aggregation that knows its set's groups; deeper nodes stay where all queries below them are in one group, and are
   left out where they are not. Two queries share only what both the group-by tree and the weaving let them share.
4. Predicates become signatures in front of the intercede aggregations (`weave_signatures`).

The root's fragments are cut at the edges of all queries, whichever set they are in: that rate E is what a group more
costs, in every set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.weaving.costings import Costing, by_overlap
from lab.weaving.plans import Levels, WovenPlan, assembled, collapse, weave
from lab.weaving.weave_groupings import Grouping, Keys, group_by_tree, queries_below
from lab.weaving.weave_signatures import Signatures, signatures_of
from weft.optimizer.weave.costing import Acq, Counted, edges_of_all
from weft.optimizer.weave.dendrogram import PartitionGroup
from weft.windows.counting import edge_rate
from weft.windows.slicing import EdgeSet


@dataclass(frozen=True, eq=False)
class Intercede:
    """One intercede aggregation: it groups the root's fragments by its keys and combines them for its groups."""

    keys: Keys
    groups: tuple[PartitionGroup, ...]
    kept: tuple[Grouping, ...]
    """Nodes below it that are intercede aggregations too: all their queries are in one group."""
    left_out: tuple[Grouping, ...]
    """Intermediate nodes below it whose queries are not."""


@dataclass(frozen=True, eq=False)
class GeneralisedPlan:
    """One sub-aggregation, one intercede aggregation for each child of the group-by tree's root, and their groups."""

    tree: Grouping
    edges: EdgeSet
    """Where sub-aggregation cuts the stream."""
    intercedes: tuple[Intercede, ...]
    signatures: Signatures
    """Its groups are numbered like those of `woven`."""
    woven: WovenPlan
    """All groups of all intercede aggregations, in their order, with what they cost."""


def generalised_triweave(
    queries: Iterable[Acq] | Counted,
    rate: Fraction | int,
    count: Callable[[Keys], int],
    costing: Costing | None = None,
) -> GeneralisedPlan:
    """The plan for these queries, where `count` says how many keys a grouping has (see `key_counts`)."""
    costing = costing or by_overlap()
    counted = collapse(queries)
    tree = group_by_tree([query.group_by for query in counted], count)
    union_rate = edge_rate(edges_of_all(counted))
    groups = []
    for node in _first_level(tree):
        weaving = weave(queries_below(node, counted), costing)
        # A group costs E, as a tree of two levels costs λ.
        groups.append(weaving.plan(union_rate * costing.partial / costing.row).groups)
    return integrated(tree, groups, Fraction(rate), costing)


def integrated(
    tree: Grouping, groups: Sequence[tuple[PartitionGroup, ...]], rate: Fraction, costing: Costing
) -> GeneralisedPlan:
    """Puts a group-by tree and the groups woven for each of its root's children together.

    If all queries group alike, or a single group is left, the finest cut is that group's own and nothing intercedes.
    """
    intercedes = []
    for node, woven in zip(_first_level(tree), groups, strict=True):
        below = [each for each in node.nodes() if each is not node and each.children]
        kept = tuple(each for each in below if _in_one_group(each, woven))
        left_out = tuple(each for each in below if each not in kept)
        intercedes.append(Intercede(node.keys, woven, kept, left_out))
    everyone = tuple(group for woven in groups for group in woven)
    edges = edges_of_all(query for group in everyone for query in group.members)
    plan = assembled(everyone, rate, Levels.THREE, edge_rate(edges), costing)
    return GeneralisedPlan(tree, edges, tuple(intercedes), signatures_of([group.members for group in everyone]), plan)


def _first_level(tree: Grouping) -> tuple[Grouping, ...]:
    """The sets that are woven apart. Queries that group by all of the root's keys read it without a node between."""
    direct = (Grouping(tree.keys),) if tree.asked_for else ()
    return (*direct, *tree.children)


def _in_one_group(node: Grouping, groups: tuple[PartitionGroup, ...]) -> bool:
    serving = {number for number, group in enumerate(groups) if any(node.holds(query) for query in group.members)}
    return len(serving) == 1
