"""Trees are trees, and what is none is refused with its reason."""

from __future__ import annotations

import pytest

from lab.dissemination.arrays import arrays
from lab.dissemination.overlay import overlay
from lab.dissemination.trees import ABSENT, Tree, TreeError, pruned, tree_of


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(TreeError, match="node 0 is the source"):
        Tree((1, 0))
    with pytest.raises(TreeError, match="node 2 hangs under 3, which is not in the tree"):
        tree_of({2: 3}, nodes=4)
    with pytest.raises(TreeError, match=r"nodes \[1, 2\] hang under each other"):
        tree_of({1: 2, 2: 1, 3: 0}, nodes=4)
    with pytest.raises(TreeError, match="hang under each other"):
        tree_of({1: 0, 2: 1}, nodes=3).moved(1, 2)


def test_a_node_that_goes_leaves_its_children_to_its_parent() -> None:
    tree = tree_of({1: 0, 2: 1, 3: 2, 4: 2}, nodes=5)
    assert tree.without(2).parents == (-1, 0, ABSENT, 1, 1)
    assert list(tree.ancestors(4)) == [2, 1, 0]
    assert tree.breadth_first() == [0, 1, 2, 3, 4]
    with pytest.raises(TreeError, match="the source is the root"):
        tree.without(0)


def test_a_pruned_tree_keeps_the_ways_to_those_who_want_the_object() -> None:
    tree = tree_of({1: 0, 2: 1, 3: 1, 4: 0}, nodes=5, objects=(0, 1))
    assert pruned(tree, 1, [2]) == Tree((-1, 0, 1, ABSENT, ABSENT), (1,))


def test_an_object_has_one_tree() -> None:
    of = overlay([1.0, 1.0], [0.1, 0.1], [0.1, 0.1], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="an object travels along one tree"):
        arrays(of, (tree_of({1: 0}, 2), tree_of({1: 0}, 2)))


def test_overlays_say_what_is_wrong_with_them() -> None:
    delays = [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match=r"object 0: a node wants 2 updates a second of it, and the source .* has 1"):
        overlay([1.0, 2.0], [0.1, 0.1], [0.1, 0.1], delays)
    with pytest.raises(ValueError, match="2 filter times need as many send times"):
        overlay([1.0, 1.0], [0.1, 0.1], [0.1], delays)
    with pytest.raises(ValueError, match="delay: every number must be finite and not negative"):
        overlay([1.0, 1.0], [0.1, 0.1], [0.1, 0.1], [[0, -1], [1, 0]])
