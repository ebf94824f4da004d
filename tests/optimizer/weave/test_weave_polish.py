from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.optimizer.weave.dendrogram import Part, Partition, polished

#: What parts of five leaves cost: any numbers at all.
finals = st.lists(st.integers(0, 30), min_size=32, max_size=32)


def whole(*parts: str) -> Partition:
    return frozenset(frozenset(map(int, part)) for part in parts)


def test_a_leaf_moves_to_where_it_is_cheaper() -> None:
    prices = {"01": 1, "2": 9, "012": 20, "12": 1, "0": 1, "02": 30, "1": 9}

    def final(part: Part) -> Fraction:
        return Fraction(prices["".join(map(str, sorted(part)))])

    assert polished(whole("01", "2"), final, Fraction(1)) == whole("0", "12")


def test_two_leaves_are_exchanged() -> None:
    cheap = whole("02", "13")

    def final(part: Part) -> Fraction:
        return Fraction(0 if part in cheap else 5 if len(part) == 2 else 50)

    assert polished(whole("01", "23"), final, Fraction(0)) == cheap


def test_groups_are_joined_when_reading_is_dear() -> None:
    assert polished(whole("0", "1", "2"), lambda part: Fraction(len(part)), Fraction(100)) == whole("012")


@settings(deadline=None, max_examples=100, derandomize=True)
@given(finals, st.integers(0, 10), st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_polished_is_a_partition_that_is_no_dearer_and_that_no_leaf_wants_to_leave(
    prices: list[int], row: int, start: list[int]
) -> None:
    def final(part: Part) -> Fraction:
        return Fraction(prices[sum(1 << leaf for leaf in part)])

    def cost(partition: Partition) -> Fraction:
        return row * len(partition) + sum(map(final, partition), Fraction(0))

    begin = frozenset(frozenset(leaf for leaf in range(5) if start[leaf] == group) for group in set(start))
    found = polished(begin, final, Fraction(row))
    assert sorted(leaf for part in found for leaf in part) == list(range(5))
    assert cost(found) <= cost(begin)
    for home in found:
        for leaf in home:
            for away in (found - {home}) | {frozenset[int]()}:
                moved = (found - {home, away}) | {home - {leaf}, away | {leaf}}
                assert cost(found) <= cost(moved - {frozenset()})
