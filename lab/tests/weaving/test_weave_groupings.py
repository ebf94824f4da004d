from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.weaving.weave_groupings import Grouping, group_by_tree, key_counts, queries_below
from weft.algebra import Window
from weft.optimizer.weave.costing import Acq

EXAMPLE_4 = [frozenset("A"), frozenset("BC"), frozenset("AC"), frozenset("CD")]


def test_three_groupings_share_abc_and_the_fourth_stays_beside() -> None:
    tree = group_by_tree(EXAMPLE_4, key_counts({"A": 10, "B": 10, "C": 10, "D": 100}, rows=10**6))
    assert tree.keys == frozenset("ABCD")
    first = {child.keys: child for child in tree.children}
    assert set(first) == {frozenset("ABC"), frozenset("CD")}
    queries = {Acq(Window(1, 1), group_by=keys): 1 for keys in EXAMPLE_4}
    assert {query.group_by for query in queries_below(first[frozenset("ABC")], queries)} == set(EXAMPLE_4[:3])
    assert not first[frozenset("ABC")].asked_for


def test_no_node_is_put_in_where_it_does_not_pay() -> None:
    """With as many keys as rows everywhere, a node between is as dear to read as the root."""
    tree = group_by_tree(EXAMPLE_4, key_counts(dict.fromkeys("ABCD", 10**6), rows=1000))
    assert all(not child.children for child in tree.children)


def test_a_grouping_within_another_is_rolled_up_from_it() -> None:
    tree = group_by_tree([frozenset("AB"), frozenset("A"), frozenset("C")], key_counts(dict.fromkeys("ABC", 10), 10**6))
    assert str(tree) == "ABC*(AB(A), C)"


def test_one_grouping_is_the_root() -> None:
    assert group_by_tree([frozenset("A")], key_counts({"A": 3}, 100)) == Grouping(frozenset("A"))
    assert str(group_by_tree([frozenset()], key_counts({}, 100))) == "()"


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    st.lists(st.frozensets(st.sampled_from("ABCDE"), max_size=4), min_size=1, max_size=7),
    st.fixed_dictionaries({column: st.integers(1, 40) for column in "ABCDE"}),
    st.sampled_from([10, 1000, 10**6]),
)
def test_trees_hold_every_grouping_once_below_wider_ones_and_cost_no_more_than_none(
    groupings: list[frozenset[str]], different: dict[str, int], rows: int
) -> None:
    count = key_counts(different, rows)
    tree = group_by_tree(groupings, count)
    asked = [node.keys for node in tree.nodes() if node.asked_for]
    assert sorted(map(sorted, asked)) == sorted(map(sorted, set(groupings)))
    assert all(child.keys < node.keys for node in tree.nodes() for child in node.children)
    assert all(len(node.children) > 1 for node in tree.nodes() if not node.asked_for)
    reading = sum(count(node.keys) for node in tree.nodes() for _ in node.children)
    directly = count(tree.keys) * sum(keys != tree.keys for keys in set(groupings))
    assert reading <= directly
