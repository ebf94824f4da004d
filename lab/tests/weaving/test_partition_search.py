"""Searches for partitions, under prices that mean nothing: any number for any set of queries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.partition_search import Partition, TreePrice, exhaustive, insert_one_by_one, local_search

seeds = st.integers(0, 10_000)
per_trees = st.sampled_from([Fraction(0), Fraction(3), Fraction(40)])


def some_prices(seed: int) -> TreePrice:
    """A price for each tree, the same whenever it is asked for; larger trees tend to be dearer."""

    def price(tree: tuple[int, ...]) -> Fraction:
        assert list(tree) == sorted(set(tree))
        return Fraction(random.Random(f"{seed} {tree}").randint(1, 20) * len(tree))

    return price


def cost(partition: Partition, per_tree: Fraction, price: TreePrice) -> Fraction:
    return sum((per_tree + price(tuple(sorted(tree))) for tree in partition), Fraction(0))


def all_partitions(queries: int) -> Iterator[Partition]:
    """Each query goes into one of the trees there are, or into a new one."""
    if queries == 0:
        yield ()
        return
    last = queries - 1
    for partition in all_partitions(last):
        for at, tree in enumerate(partition):
            yield (*partition[:at], (*tree, last), *partition[at + 1 :])
        yield (*partition, (last,))


def covered(partition: Partition) -> list[int]:
    return sorted(number for tree in partition for number in tree)


def test_there_are_as_many_partitions_as_bell_says() -> None:
    assert [sum(1 for _ in all_partitions(queries)) for queries in range(7)] == [1, 1, 2, 5, 15, 52, 203]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(queries=st.integers(0, 6), per_tree=per_trees, seed=seeds)
def test_exhaustive_finds_the_cheapest_of_all_partitions(queries: int, per_tree: Fraction, seed: int) -> None:
    price = some_prices(seed)
    found = exhaustive(queries, per_tree, price)
    assert covered(found) == list(range(queries))
    assert cost(found, per_tree, price) == min(cost(each, per_tree, price) for each in all_partitions(queries))


def test_exhaustive_refuses_what_would_take_too_long() -> None:
    with pytest.raises(ValueError, match="10 at most"):
        exhaustive(11, Fraction(1), some_prices(0))


def moved(partition: Partition, number: int, goal: int | None) -> Partition:
    """One query in another tree; the goal is a tree of the partition by its place, or None for a new tree."""
    trees = [[each for each in tree if each != number] for tree in partition]
    if goal is None:
        trees.append([])
    trees[-1 if goal is None else goal].append(number)
    return tuple(tuple(sorted(tree)) for tree in trees if tree)


def best_move(partition: Partition, per_tree: Fraction, price: TreePrice) -> Fraction:
    """What the best move of one query gains; nothing if all lose."""
    before = cost(partition, per_tree, price)
    goals: list[int | None] = [None, *range(len(partition))]
    after = (cost(moved(partition, each, goal), per_tree, price) for each in covered(partition) for goal in goals)
    return max((before - each for each in after), default=Fraction(0))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(queries=st.integers(1, 7), per_tree=per_trees, seed=seeds)
def test_local_search_ends_where_no_move_helps(queries: int, per_tree: Fraction, seed: int) -> None:
    price = some_prices(seed)
    alone = tuple((number,) for number in range(queries))
    found = local_search(alone, per_tree, price, most_moves=1_000)
    assert covered(found) == list(range(queries))
    assert best_move(found, per_tree, price) == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(queries=st.integers(1, 7), per_tree=per_trees, seed=seeds, moves=st.integers(0, 6))
def test_every_move_of_local_search_is_the_best_there_is(
    queries: int, per_tree: Fraction, seed: int, moves: int
) -> None:
    price = some_prices(seed)
    start = random.Random(seed).choice(list(all_partitions(queries)))
    before = local_search(start, per_tree, price, most_moves=moves)
    after = local_search(start, per_tree, price, most_moves=moves + 1)
    gained = cost(before, per_tree, price) - cost(after, per_tree, price)
    assert gained == best_move(before, per_tree, price)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(queries=st.integers(0, 7), per_tree=per_trees, seed=seeds)
def test_every_inserted_query_takes_the_cheapest_place(queries: int, per_tree: Fraction, seed: int) -> None:
    price = some_prices(seed)
    trees: Partition = ()
    for number in range(queries):
        choices = [(*trees[:at], (*tree, number), *trees[at + 1 :]) for at, tree in enumerate(trees)] + [
            (*trees, (number,))
        ]
        longer = insert_one_by_one(range(number + 1), per_tree, price)
        cheapest = min(cost(each, per_tree, price) for each in choices)
        assert cost(longer, per_tree, price) == cheapest
        # What came earlier stays where it was.
        kept = tuple(tuple(each for each in tree if each != number) for tree in longer)
        assert tuple(tree for tree in kept if tree) == trees
        trees = longer
    assert covered(trees) == list(range(queries))
