"""Searches for a partition: queries by number, a price for every tree, and nothing else.

What a tree is and why it costs what it costs is of no concern here: a search is given the number of queries, what each
tree costs merely for being there, and a function that says what the final aggregation of a tree of given queries costs.
Exact fractions and plain integers serve alike; `lab/weaving/baselines.py` makes plans of what is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

#: Queries by their numbers, grouped into trees.
Partition: TypeAlias = tuple[tuple[int, ...], ...]

#: What the final aggregation of a tree of these queries costs: E·Ω. Numbers come ascending.
TreePrice: TypeAlias = Callable[[tuple[int, ...]], Fraction]

#: More queries than this would keep the exhaustive search busy for minutes.
MOST_FOR_EXHAUSTIVE = 10


def exhaustive(queries: int, per_tree: Fraction, price: TreePrice) -> Partition:
    """The cheapest partition of all, where each tree costs `per_tree` besides its final aggregation.

    Costs add up over trees, so the best plan for a set of queries is a tree with the first of them, and the best plan
    for the others: every subset of every set is looked at once.
    """
    if queries > MOST_FOR_EXHAUSTIVE:
        raise ValueError(f"there are too many partitions of {queries} queries to try: {MOST_FOR_EXHAUSTIVE} at most")
    everything = (1 << queries) - 1
    priced = [Fraction(0)] + [per_tree + price(_members(subset)) for subset in range(1, everything + 1)]
    best = [Fraction(0)] * (everything + 1)
    tree_of = [0] * (everything + 1)
    for subset in range(1, everything + 1):
        first = subset & -subset
        rest = subset ^ first
        # All parts of the rest, the empty one last: each makes a tree together with the first query.
        part = rest
        best[subset], tree_of[subset] = priced[subset], subset
        while part:
            part = (part - 1) & rest
            total = priced[part | first] + best[rest ^ part]
            if total < best[subset]:
                best[subset], tree_of[subset] = total, part | first
    trees = []
    while everything:
        trees.append(_members(tree_of[everything]))
        everything ^= tree_of[everything]
    return tuple(trees)


def _members(subset: int) -> tuple[int, ...]:
    return tuple(number for number in range(subset.bit_length()) if subset >> number & 1)


def insert_one_by_one(queries: Sequence[int], per_tree: Fraction, price: TreePrice) -> Partition:
    """Each query, in the given order, joins the tree where that saves most, or opens one where nothing is saved."""
    trees: list[tuple[int, ...]] = []
    prices: list[Fraction] = []
    for number in queries:
        alone = price((number,))
        gains = [
            per_tree + paid + alone - price(tuple(sorted((*tree, number))))
            for tree, paid in zip(trees, prices, strict=True)
        ]
        best = max(range(len(trees)), key=gains.__getitem__, default=None)
        if best is None or gains[best] <= 0:
            trees.append((number,))
            prices.append(alone)
        else:
            trees[best] = tuple(sorted((*trees[best], number)))
            prices[best] = price(trees[best])
    return tuple(trees)


def local_search(start: Partition, per_tree: Fraction, price: TreePrice, most_moves: int) -> Partition:
    """Guirguis' adaptation of Local Search: the best move of one query to another tree or a new one, again and again.

    There is no way uphill, so it stops in the first local minimum, or after so many moves. A move changes two trees;
    the gains of all moves between other trees stay what they were.
    """
    return _LocalSearch(start, per_tree, price).run(most_moves)


class _LocalSearch:
    """The state of one search: trees by number, and for each query the best it could do by moving."""

    _NEW_TREE = -1

    def __init__(self, start: Partition, per_tree: Fraction, price: TreePrice) -> None:
        self._per_tree = per_tree
        self._price_tree = price
        self._trees = dict(enumerate(tuple(sorted(tree)) for tree in start))
        self._next = len(self._trees)
        self._home = {number: name for name, tree in self._trees.items() for number in tree}
        self._price = {name: self._price_of(tree) for name, tree in self._trees.items()}
        self._alone = {number: self._price_of((number,)) for number in self._home}
        self._leaving = {number: self._saved_by_leaving(number) for number in self._home}
        self._joining = {
            number: {name: self._paid_for_joining(number, name) for name in self._trees} for number in self._home
        }
        self._goal = {number: self._best_goal(number) for number in self._home}

    def run(self, most_moves: int) -> Partition:
        for _ in range(most_moves):
            mover = max(self._home, key=self._gain, default=None)
            if mover is None or self._gain(mover) <= 0:
                break
            self._move(mover, self._goal[mover])
        return tuple(sorted(self._trees.values()))

    def _price_of(self, tree: tuple[int, ...]) -> Fraction:
        return self._per_tree + self._price_tree(tree) if tree else Fraction(0)

    def _saved_by_leaving(self, number: int) -> Fraction:
        name = self._home[number]
        return self._price[name] - self._price_of(tuple(each for each in self._trees[name] if each != number))

    def _paid_for_joining(self, number: int, name: int) -> Fraction:
        if self._home[number] == name:
            return self._leaving[number]
        return self._price_of(tuple(sorted((*self._trees[name], number)))) - self._price[name]

    def _paid_for(self, number: int, goal: int) -> Fraction:
        return self._alone[number] if goal == self._NEW_TREE else self._joining[number][goal]

    def _best_goal(self, number: int) -> int:
        return min((self._NEW_TREE, *self._trees), key=lambda goal: self._paid_for(number, goal))

    def _gain(self, number: int) -> Fraction:
        return self._leaving[number] - self._paid_for(number, self._goal[number])

    def _move(self, number: int, goal: int) -> None:
        left, entered = self._home[number], goal
        if goal == self._NEW_TREE:
            entered, self._next = self._next, self._next + 1
            self._trees[entered] = ()
        self._trees[left] = tuple(each for each in self._trees[left] if each != number)
        self._trees[entered] = tuple(sorted((*self._trees[entered], number)))
        self._home[number] = entered
        if not self._trees[left]:
            del self._trees[left]
        changed = [name for name in (left, entered) if name in self._trees]
        for name in changed:
            self._price[name] = self._price_of(self._trees[name])
        for name in changed:
            for member in self._trees[name]:
                self._leaving[member] = self._saved_by_leaving(member)
        for each in self._home:
            self._revise(each, left, changed)

    def _revise(self, number: int, left: int, changed: list[int]) -> None:
        """Prices the changed trees anew; all goals are compared again only if the best one was among them."""
        joining = self._joining[number]
        joining.pop(left, None)
        for name in changed:
            joining[name] = self._paid_for_joining(number, name)
        if self._goal[number] == left or self._goal[number] in changed:
            self._goal[number] = self._best_goal(number)
            return
        for name in changed:
            if joining[name] < self._paid_for(number, self._goal[number]):
                self._goal[number] = name
