"""The group-by tree: which groupings are rolled up from which (Intermediate Aggregates).

Queries that group by A, BC and AC can share partials by ABC. Such a node costs its parent's keys once to make, and is
cheaper to read than the parent for everyone below it; it is put in if that pays. The root is the union of all.

    root        ABCD                  what sub-aggregation keeps
                 ├── ABC              an intermediate aggregate that nobody asked for
                 │    ├── BC
                 │    └── AC
                 │         └── A
                 └── CD

How many keys a grouping has, in a fragment, is the product of its columns' different values, and not more than the
fragment has rows. The search is greedy, best saving first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import TypeAlias

from weft.optimizer.weave.costing import Acq, Counted

Keys: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Grouping:
    """A node of the group-by tree."""

    keys: Keys
    children: tuple[Grouping, ...] = ()
    asked_for: bool = True
    """Whether some query groups by exactly this."""

    def nodes(self) -> Iterator[Grouping]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def holds(self, query: Acq) -> bool:
        """Whether a query is served by this node or one below it."""
        return any(node.asked_for and node.keys == query.group_by for node in self.nodes())

    def __str__(self) -> str:
        own = "".join(sorted(self.keys)) or "()"
        below = f"({', '.join(str(child) for child in self.children)})" if self.children else ""
        return own + ("" if self.asked_for else "*") + below


def key_counts(different: Mapping[str, int], rows: int) -> Callable[[Keys], int]:
    """How many keys a grouping has in a fragment of so many rows, from the different values of each column."""
    return lambda keys: min(rows, prod(different.get(column, rows) for column in keys))


def group_by_tree(groupings: Iterable[Keys], count: Callable[[Keys], int]) -> Grouping:
    """The tree for these groupings, where `count` says how many keys each would have.

    >>> count = key_counts({"A": 10, "B": 10, "C": 10, "D": 100}, rows=10**6)
    >>> str(group_by_tree([frozenset("A"), frozenset("BC"), frozenset("AC"), frozenset("CD")], count))
    'ABCD*(ABC*(AC(A), BC), CD)'
    """
    asked = sorted(set(groupings), key=lambda keys: (len(keys), sorted(keys)))
    if not asked:
        raise ValueError("there are no groupings to make a tree of")
    union: Keys = frozenset().union(*asked)
    children = [Grouping(keys) for keys in asked if keys != union]
    while (best := _best_insertion(union, children, count)) is not None:
        one, other, node = best
        children = [child for child in children if child not in (one, other)] + [node]
    return Grouping(union, _in_order(children), union in asked)


def queries_below(node: Grouping, queries: Counted) -> dict[Acq, int]:
    """The queries that a node and those below it serve."""
    groupings = {each.keys for each in node.nodes() if each.asked_for}
    return {query: count for query, count in queries.items() if query.group_by in groupings}


def _best_insertion(
    parent: Keys, children: list[Grouping], count: Callable[[Keys], int]
) -> tuple[Grouping, Grouping, Grouping] | None:
    """Two children and the node that would take their place, with the highest saving; None if nothing is saved."""
    best: tuple[int, Grouping, Grouping, Grouping] | None = None
    for one, other in combinations(children, 2):
        node = _over(one, other)
        # Every child reads all keys of its parent: one child less there, and one or two that read the node instead.
        readers = sum(child.keys != node.keys for child in (one, other))
        saving = count(parent) - readers * count(node.keys)
        if node.keys != parent and saving > 0 and (best is None or saving > best[0]):
            best = saving, one, other, node
    return best[1:] if best is not None else None


def _over(one: Grouping, other: Grouping) -> Grouping:
    """A node that both can be rolled up from: the wider of the two, if it contains the other."""
    if other.keys <= one.keys:
        return replace(one, children=_in_order([*one.children, other]))
    if one.keys <= other.keys:
        return replace(other, children=_in_order([*other.children, one]))
    return Grouping(one.keys | other.keys, _in_order([one, other]), asked_for=False)


def _in_order(nodes: Iterable[Grouping]) -> tuple[Grouping, ...]:
    return tuple(sorted(nodes, key=lambda node: sorted(node.keys)))
