"""Rounds of re-optimisation: what does not pay any more is taken apart, and what would pay is put together.

Members that change their group get another subscription, and links other rows; so a round moves few of them. Groups
that do not pay any more are taken apart in any case. Then whole trees, small ones mostly, join others: when they came
there was nothing that they could have shared. The best of these moves come first, until one member in a hundred has
moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.optimizer.group_results.conditions import Region
from weft.optimizer.group_results.cost import Sample
from weft.optimizer.group_results.forest import Forest, Tree
from weft.optimizer.group_results.forms import Form
from weft.optimizer.group_results.query_trees import FAN_OUT, Node, add_up, derived

#: The share of all members that a round may move for a gain.
MOST_MOVED = 0.01


def reoptimise(forests: Iterable[Forest]) -> None:
    """Takes apart what does not pay any more, and puts together what pays."""
    listed = list(forests)
    for forest in listed:
        _take_apart(forest)
    members = sum(len(forest.members) for forest in listed)
    _put_together(listed, max(1, int(MOST_MOVED * members)))


def _take_apart(forest: Forest) -> None:
    out: list[Node] = []
    for tree in forest.trees:
        parts: list[Node] = []
        root = _reoptimised(forest, tree.root, parts)
        if root is None:
            # The heaviest part keeps the name, so that the fewest members move.
            root = max(parts, key=lambda each: each.weight)
            parts.remove(root)
        forest.has_root(tree, root)
        out += parts
    for node in out:
        forest.place(node)


def _reoptimised(forest: Forest, node: Node, out: list[Node]) -> Node | None:
    """A sub-tree after its round; None if it has been taken apart, and its parts have gone `out`."""
    up: list[Node] = []
    results = [_reoptimised(forest, child, up) for child in list(node.children)]
    kept = [each for each in results if each is not None]
    if not (node.is_flagged or up or kept != node.children):
        return node
    node.is_flagged = False
    if not node.is_derived:
        # It contains them all, wherever they were below it.
        forest.adopt(node, kept)
        for each in up:
            forest.attach(node, each)
        return node
    children = [*kept, *up]
    for each in children:
        each.parent = None
    if len(children) == 1:
        return children[0]
    merged = derived(forest.prices.merged([each.form for each in children]), children)
    if sum(map(forest.cost, children)) < forest.cost(merged):
        for each in children:
            each.parent = None
        out += children
        return None
    if node.parent is not None or forest.prices.contains(merged.form, node.form):
        node.form = merged.form
    forest.adopt(node, _balanced(forest, children))
    return node


def _balanced(forest: Forest, children: list[Node]) -> list[Node]:
    """No more children than a node may have: the lightest are put under a node of their own."""
    while len(children) > FAN_OUT:
        children = sorted(children, key=lambda each: each.weight)
        lightest, children = children[:2], children[2:]
        children.append(derived(forest.prices.merged([each.form for each in lightest]), lightest))
    return children


def _put_together(forests: Sequence[Forest], most: int) -> None:
    """Lets whole trees join others of their forest where that gains most, at most so many members of them."""
    gains = [
        (found[1] * forest.latency / tree.root.weight, number, tree)
        for number, forest in enumerate(forests)
        if len(forest.trees) > 1
        for tree in forest.trees
        if (found := _best(forest, tree)) is not None
    ]
    for _, number, tree in sorted(gains, key=lambda each: (-each[0], each[1], each[2].number)):
        most -= _joined_to_best(forests[number], tree, most)


def _joined_to_best(forest: Forest, tree: Tree, most: int) -> int:
    """Merges a tree with the best other one, if that still gains; returns how many members have moved."""
    # What has joined another tree meanwhile is gone.
    is_there = tree.number < len(forest.trees) and forest.trees[tree.number] is tree
    found = _best(forest, tree) if is_there and most else None
    if found is None:
        return 0
    lighter, other = sorted((tree, forest.trees[found[0]]), key=lambda each: each.root.weight)
    moved = lighter.root.weight
    if moved > most:
        return 0
    forest.fell(lighter)
    forest.join(other, lighter.root)
    return moved


def _best(forest: Forest, tree: Tree) -> tuple[int, float] | None:
    """The tree that it is best for another one to be merged with, and the gain."""
    line = forest.prices.line(tree.root, forest.cost(tree.root))
    return forest.prices.screen.best(line, forest.policy.overhead, besides=tree.number)


def remeasure(forest: Forest, sample: Sample) -> None:
    """Estimates everything anew by other statistics; what does not pay by them is flagged."""
    forest.prices.measure(sample)
    for member in forest.members.values():
        forest.prices.measured_anew(member)
    for number, tree in enumerate(forest.trees):
        tree.number = number
        _remeasured(forest, tree.root)
        forest.prices.screen.append(forest.prices.line(tree.root, forest.cost(tree.root)))


def _remeasured(forest: Forest, node: Node) -> None:
    for child in node.children:
        _remeasured(forest, child)
    if node.is_derived:
        regions = tuple(Region(each.box, forest.prices.rows(each.box)) for each in node.form.regions)
        node.form = Form(regions, node.form.windows, node.form.ends, node.form.delay)
    add_up(node)
    if node.is_derived and sum(map(forest.cost, node.children)) < forest.cost(node):
        node.is_flagged = True
