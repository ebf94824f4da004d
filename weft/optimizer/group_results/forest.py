"""The groups of one family and first hop as trees: insertion, termination, rounds of re-optimisation.

The root of a tree is the representative, and contains every query below. A node is **original**, a member's query, or
**derived**, made by merging its children. What is below an original is contained in it. So when a member leaves, only
the derived nodes above it are merged again:

        Q' = merge(Q1', Q2)                       Q' = merge(Q1', Q5)
        ├── Q1' = merge(Q3, Q4)     Q2 leaves     ├── Q1'
        │   ├── Q3                 ──────────▶    │   ├── Q3
        │   └── Q4                                │   └── Q4
        └── Q2                                    └── Q5
            └── Q5 (contained in Q2)

A node has a few children, and what comes when there are that many goes to the lightest of them. A root that has all
rows of what comes stays as it is, and its representative too, even if merging its children again would give another
condition.

Insertion is greedy. Members that change their group get another subscription, and links other rows: only a round of
re-optimisation regroups. It takes groups that do not pay any more apart in any case; then whole trees join others, the
best moves first, until one member in a hundred has moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.optimizer.group_results import pricing
from weft.optimizer.group_results.forms import Decode, Form, QueryFamily, Region, form_from_data
from weft.optimizer.group_results.traffic_estimates import Sample

#: The most children of a node, unless members leave.
FAN_OUT = 4

#: How many levels a node that nested nodes contain goes down: ten thousand thresholds would make a chain.
MOST_NESTED = 6

#: The share of all members that a round may move for a gain.
MOST_MOVED = 0.01


@dataclass(eq=False)
class Tree:
    """A group. It publishes since its last epoch began the rows of a form, and columns, as bits."""

    forest: Forest
    root: pricing.TreeNode
    label: str = ""
    epoch: int = 0
    form: Form | None = None
    columns: int = 0

    def begin(self, epoch: int) -> None:
        """Let an epoch begin: what the tree answers and needs now is published from now on."""
        self.epoch, self.form, self.columns = epoch, self.root.form, self.root.sums.columns


class Forest:
    """The trees of queries of one family that leave by the same first hop."""

    def __init__(self, family: QueryFamily, policy: pricing.Policy, sample: Sample, hop: str = "") -> None:
        self.family, self.policy, self.hop = family, policy, hop
        self.prices = pricing.Pricing(family, policy, sample)
        self.members: dict[str, pricing.ForestMember] = {}
        self._tree_of: dict[pricing.TreeNode, Tree] = {}

    # Trees

    @property
    def trees(self) -> list[Tree]:
        return [self._tree_of[root] for root in self.prices.roots]

    def tree_of(self, node: pricing.TreeNode) -> Tree:
        while node.parent is not None:
            node = node.parent
        return self._tree_of[node]

    def plant(self, root: pricing.TreeNode) -> Tree:
        tree = self._tree_of[root] = Tree(self, root)
        self.prices.append(root)
        return tree

    def fell(self, tree: Tree) -> None:
        del self._tree_of[tree.root]
        self.prices.remove(tree.root)

    def has_root(self, tree: Tree, root: pricing.TreeNode) -> None:
        """Write down a tree whose root, or anything below, has changed."""
        if tree.root is not root:
            del self._tree_of[tree.root]
            root.parent, root.number = None, tree.root.number
            self._tree_of[root], tree.root = tree, root
        self.prices.put(root)

    def restored(
        self, document: Mapping[str, Any], members: Mapping[str, pricing.ForestMember], decode: Decode
    ) -> pricing.TreeNode:
        """A sub-tree that was kept as plain data."""
        children = [self.restored(each, members, decode) for each in document.get("children", ())]
        if "name" in document:
            node = members[document["name"]].node
        else:
            node = pricing.TreeNode(form_from_data(document["form"], self.family, self.prices.rows, decode))
        node.is_flagged = document.get("flagged", False)
        pricing.adopt(node, children)
        return node

    # Insertion

    def insert(self, member: pricing.ForestMember) -> Tree:
        """Adds a query to the group where that saves most, or to a new one."""
        assert member.node.name is not None
        self.members[member.node.name] = member
        return self.place(member.node)

    def place(self, node: pricing.TreeNode) -> Tree:
        """Adds a query, or a whole sub-tree, where that saves most."""
        found = self.prices.best(node)
        if found is None:
            return self.plant(node)
        tree = self._tree_of[self.prices.roots[found[0]]]
        self.join(tree, node)
        return tree

    def join(self, tree: Tree, node: pricing.TreeNode) -> None:
        """Puts a query, or a whole sub-tree, into a tree."""
        root = tree.root
        if self.prices.contains(node.form, root.form):
            self.attach(root, node)
        elif not node.is_derived and self.prices.contains(root.form, node.form):
            self._take_over(node, root)
            root = node
        elif root.is_derived:
            self.attach(root, node)
            root.form = self.prices.merged([root, node])
        else:
            root = self.prices.derived([root, node])
        self.has_root(tree, root)

    def _take_over(self, node: pricing.TreeNode, root: pricing.TreeNode) -> None:
        """Puts a root below an original that contains it. What was below it is now beside it: no level is added."""
        below, root.children = root.children, []
        pricing.adopt(node, [*node.children, *below])
        if not root.is_derived:
            pricing.add_up(root)
            self.attach(node, root)

    def attach(self, parent: pricing.TreeNode, node: pricing.TreeNode) -> None:
        """Puts a node below another, under children that contain it if there are such, else under the lightest.

        Nodes on the way that do not contain it are widened; the form of `parent` is the caller's concern.
        """
        path, levels = parent, 0
        while True:
            around = (each for each in path.children if self.prices.contains(node.form, each.form))
            within = next(around, None) if levels < MOST_NESTED else None
            if within is None and len(path.children) < FAN_OUT:
                break
            if within is None:
                within = min(path.children, key=lambda each: each.weight)
                if not within.is_derived:
                    pair = pricing.TreeNode(within.form)
                    pricing.replace_child(within, pair)
                    pricing.adopt(pair, [within])
                    within = pair
                within.form = self.prices.merged([within, node])
            path, levels = within, levels + 1
        path.children.append(node)
        node.parent = path
        above: pricing.TreeNode | None = path
        while above is not None:
            pricing.add_up(above)
            above = above.parent

    # Termination

    def terminate(self, name: str) -> tuple[Tree, bool]:
        """Removes a query. Returns its tree, and whether that has ended."""
        node = self.members.pop(name).node
        tree = self.tree_of(node)
        if node.parent is None and not node.children:
            self.fell(tree)
            return tree, True
        node.name, node.own = None, pricing.MemberSums()
        self.has_root(tree, self._rewritten(node))
        return tree, False

    def _rewritten(self, start: pricing.TreeNode) -> pricing.TreeNode:
        """The root after a node's query has left: the derived nodes from there up, merged again."""
        node, is_settled = start, False
        while True:
            parent = node.parent
            if node.is_derived and len(node.children) <= 1:
                # An only child takes its place. One without children is gone, and so on upwards.
                if node.children:
                    (child,) = node.children
                    if parent is None:
                        child.parent = None
                        return child
                    pricing.replace_child(node, child)
                else:
                    assert parent is not None, "a group without members has ended"
                    parent.children.remove(node)
            else:
                node.is_flagged = node.is_derived
                if node is start:
                    node.form = self.prices.merged(node.children)
                elif node.is_derived and not is_settled:
                    is_settled = self._tightened(node)
                pricing.add_up(node)
                if parent is None:
                    return node
            node = parent

    def _tightened(self, node: pricing.TreeNode) -> bool:
        """Merge the children of a derived node again. Returns whether that changed nothing, for those above too."""
        form = self.prices.merged(node.children)
        is_narrower = self.prices.contains(form, node.form)
        if node.parent is None and not is_narrower:
            # A root stays as it is while its children are widened, as long as it has all that they are made of.
            return True
        is_same = is_narrower and self.prices.contains(node.form, form)
        if not is_same:
            node.form = form
        return is_same


# -- rounds of re-optimisation ----------------------------------------------------------------------------------------


def reoptimise(forests: Iterable[Forest]) -> None:
    """Takes apart what does not pay any more, and puts together what pays."""
    listed = list(forests)
    for forest in listed:
        _take_apart(forest)
    members = sum(len(forest.members) for forest in listed)
    _put_together(listed, max(1, int(MOST_MOVED * members)))


def _take_apart(forest: Forest) -> None:
    out: list[pricing.TreeNode] = []
    for tree in forest.trees:
        parts: list[pricing.TreeNode] = []
        root = _reoptimised(forest, tree.root, parts)
        if root is None:
            # The heaviest part keeps the name, so that the fewest members move.
            root = max(parts, key=lambda each: each.weight)
            parts.remove(root)
        forest.has_root(tree, root)
        out += parts
    for node in out:
        forest.place(node)


def _reoptimised(forest: Forest, node: pricing.TreeNode, out: list[pricing.TreeNode]) -> pricing.TreeNode | None:
    """A sub-tree after its round; None if it has been taken apart, and its parts have gone `out`."""
    up: list[pricing.TreeNode] = []
    results = [_reoptimised(forest, child, up) for child in list(node.children)]
    kept = [each for each in results if each is not None]
    if not (node.is_flagged or up or kept != node.children):
        return node
    node.is_flagged = False
    if not node.is_derived:
        # It contains them all, wherever they were below it.
        pricing.adopt(node, kept)
        for each in up:
            forest.attach(node, each)
        return node
    children = [*kept, *up]
    for each in children:
        each.parent = None
    if len(children) == 1:
        return children[0]
    merged = forest.prices.derived(children)
    if sum(map(forest.prices.cost, children)) < forest.prices.cost(merged):
        for each in children:
            each.parent = None
        out += children
        return None
    if node.parent is not None or forest.prices.contains(merged.form, node.form):
        node.form = merged.form
    pricing.adopt(node, _balanced(forest, children))
    return node


def _balanced(forest: Forest, children: list[pricing.TreeNode]) -> list[pricing.TreeNode]:
    """No more children than a node may have: the lightest are put under a node of their own."""
    while len(children) > FAN_OUT:
        children = sorted(children, key=lambda each: each.weight)
        lightest, children = children[:2], children[2:]
        children.append(forest.prices.derived(lightest))
    return children


def _put_together(forests: Sequence[Forest], most: int) -> None:
    """Merge whole trees with others of their forest where that gains most, at most `most` members in all."""
    gains = [
        (-found[1] / tree.root.weight, tree)
        for forest in forests
        for tree in forest.trees
        if (found := forest.prices.best(tree.root, besides=tree.root.number)) is not None
    ]
    for _, tree in sorted(gains, key=lambda each: each[0]):
        forest, root = tree.forest, tree.root
        # What has joined another tree meanwhile is gone, and other trees may gain no more.
        is_there = forest.tree_of(root) is tree
        found = forest.prices.best(root, besides=root.number) if is_there and most else None
        if found is not None:
            other = forest.tree_of(forest.prices.roots[found[0]])
            lighter, other = sorted((tree, other), key=lambda each: each.root.weight)
            if lighter.root.weight <= most:
                most -= lighter.root.weight
                forest.fell(lighter)
                forest.join(other, lighter.root)


def remeasure(forest: Forest, sample: Sample) -> None:
    """Estimate everything by other statistics; what does not pay by them is flagged."""
    roots = forest.prices.roots
    forest.prices.measure(sample)
    for member in forest.members.values():
        forest.prices.measure_member(member)
    for root in roots:
        _remeasured(forest, root)
        forest.prices.append(root)


def _remeasured(forest: Forest, node: pricing.TreeNode) -> None:
    for child in node.children:
        _remeasured(forest, child)
    if node.is_derived:
        regions = tuple(Region(each.box, forest.prices.rows(each.box)) for each in node.form.regions)
        node.form = Form(regions, node.form.windows, node.form.ends, node.form.delay)
    pricing.add_up(node)
    if node.is_derived and sum(map(forest.prices.cost, node.children)) < forest.prices.cost(node):
        node.is_flagged = True
