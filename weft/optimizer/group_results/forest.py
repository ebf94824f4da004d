"""The trees of one family and first hop: insertion, termination, re-optimisation.

Insertion is greedy: a query joins the group where that saves most, if it saves anything. Rewriting is eager: when a
member leaves, the nodes above it are merged anew, which changes no subscription. Regrouping is lazy: only a round of
re-optimisation takes groups apart that do not pay any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.optimizer.group_results.cost import Sample
from weft.optimizer.group_results.forms import Family
from weft.optimizer.group_results.kept import form_from_data
from weft.optimizer.group_results.pricing import Member, Policy, Pricing
from weft.optimizer.group_results.query_trees import (
    FAN_OUT,
    MOST_NESTED,
    Node,
    add_up,
    add_up_to_root,
    derived,
    replace_child,
    root_of,
)


@dataclass(eq=False)
class Tree:
    """A group: its root, and its place among the roots."""

    root: Node
    number: int
    label: str = ""


class Forest:
    """The trees of queries of one family that leave by the same first hop."""

    def __init__(self, family: Family, policy: Policy, sample: Sample, hop: str = "") -> None:
        self.family, self.policy, self.hop = family, policy, hop
        self.prices = Pricing(family, policy, sample)
        self.members: dict[str, Member] = {}
        self.trees: list[Tree] = []
        self._tree_of: dict[Node, Tree] = {}

    def cost(self, node: Node) -> float:
        """What it costs to send what a tree publishes."""
        return self.prices.cost(node)

    @property
    def latency(self) -> float:
        """How far it is over the first hop."""
        return self.prices.statistics.latencies.get(self.hop, 1.0)

    def traffic(self, names: Sequence[str]) -> float:
        """Bytes per tick that some members of one tree need together."""
        return self.prices.traffic([self.members[name] for name in names])

    # Trees

    def tree_of(self, node: Node) -> Tree:
        """The tree that a node is in."""
        return self._tree_of[root_of(node)]

    def plant(self, root: Node) -> Tree:
        """A new tree."""
        tree = Tree(root, len(self.trees))
        self.trees.append(tree)
        self._tree_of[root] = tree
        self.prices.screen.append(self.prices.line(root, self.cost(root)))
        return tree

    def fell(self, tree: Tree) -> None:
        """Removes a tree; the last one gets its place."""
        del self._tree_of[tree.root]
        self.prices.screen.remove(tree.number)
        last = self.trees.pop()
        if last is not tree:
            self.trees[tree.number] = last
            last.number = tree.number

    def has_root(self, tree: Tree, root: Node) -> None:
        """The tree after its root, or anything below, has changed."""
        if tree.root is not root:
            del self._tree_of[tree.root]
            tree.root = root
            root.parent = None
            self._tree_of[root] = tree
        self.prices.screen.put(tree.number, self.prices.line(root, self.cost(root)))

    def restored(self, document: Mapping[str, Any], members: Mapping[str, Member]) -> Node:
        """A sub-tree that was kept (`kept`)."""
        children = [self.restored(each, members) for each in document.get("children", ())]
        if "name" in document:
            node = members[document["name"]].node
        else:
            node = Node(form_from_data(document["form"], self.family, self.prices.rows))
        node.is_flagged = document.get("flagged", False)
        self.adopt(node, children)
        return node

    # Insertion

    def insert(self, member: Member) -> Tree:
        """Adds a query to the group where that saves most, or to a new one."""
        self.keep(member)
        return self.place(member.node)

    def keep(self, member: Member) -> None:
        """Takes a member whose node is in a tree already, or will be."""
        assert member.node.name is not None
        self.members[member.node.name] = member

    def place(self, node: Node) -> Tree:
        """Adds a query, or a whole sub-tree, where that saves most."""
        found = self.prices.screen.best(self.prices.line(node, self.cost(node)), self.policy.overhead)
        if found is None:
            return self.plant(node)
        tree = self.trees[found[0]]
        self.join(tree, node)
        return tree

    def join(self, tree: Tree, node: Node) -> None:
        """Puts a query, or a whole sub-tree, into a tree."""
        root = tree.root
        if self.prices.contains(node.form, root.form):
            self.attach(root, node)
        elif not node.is_derived and self.prices.contains(root.form, node.form):
            self._take_over(node, root)
            root = node
        elif root.is_derived:
            self.attach(root, node)
            root.form = self.prices.merged([root.form, node.form])
        else:
            root = derived(self.prices.merged([root.form, node.form]), [root, node])
        self.has_root(tree, root)

    def _take_over(self, node: Node, root: Node) -> None:
        """Puts a root below an original that contains it. What was below it is now beside it: no level is added."""
        below, root.children = root.children, []
        self.adopt(node, [*node.children, *below])
        if not root.is_derived:
            add_up(root)
            self.attach(node, root)

    def attach(self, parent: Node, node: Node) -> None:
        """Puts a node below another, under children that contain it if there are such, else under the lightest.

        Nodes on the way that do not contain it are widened; the form of `parent` is the caller's concern.
        """
        path, levels = parent, 0
        while True:
            within = self._child_around(path, node) if levels < MOST_NESTED else None
            if within is None and len(path.children) < FAN_OUT:
                break
            if within is None:
                within = min(path.children, key=lambda each: each.weight)
                if not within.is_derived:
                    pair = Node(within.form)
                    replace_child(within, pair)
                    self.adopt(pair, [within])
                    within = pair
                within.form = self.prices.merged([within.form, node.form])
            path, levels = within, levels + 1
        path.children.append(node)
        node.parent = path
        add_up_to_root(path)

    def _child_around(self, parent: Node, node: Node) -> Node | None:
        return next((each for each in parent.children if self.prices.contains(node.form, each.form)), None)

    # Termination

    def terminate(self, name: str) -> tuple[Tree, bool]:
        """Removes a query. Returns its tree, and whether that has ended."""
        node = self.members[name].node
        tree, parent = self.tree_of(node), node.parent
        heir = self._heir(node.children)
        if parent is None:
            del self.members[name]
            if heir is None:
                self.fell(tree)
                return tree, True
            self.has_root(tree, heir)
            return tree, False
        if heir is None:
            parent.children.remove(node)
        else:
            replace_child(node, heir)
        del self.members[name]
        self.has_root(tree, self._rewritten(parent))
        return tree, False

    def _heir(self, children: Sequence[Node]) -> Node | None:
        """What takes the place of a node that is gone, above its children."""
        if len(children) <= 1:
            for child in children:
                child.parent = None
            return children[0] if children else None
        node = derived(self.prices.merged([each.form for each in children]), children)
        node.is_flagged = True
        return node

    def _rewritten(self, node: Node) -> Node:
        """The root after what is below a node has changed: the derived nodes from there up, merged anew."""
        is_settled = False
        while True:
            parent = node.parent
            if node.is_derived and len(node.children) <= 1:
                # An only child takes its place. One without children is gone, and so on upwards.
                if node.children:
                    (child,) = node.children
                    if parent is None:
                        child.parent = None
                        return child
                    replace_child(node, child)
                else:
                    assert parent is not None, "a group without members has ended"
                    parent.children.remove(node)
            else:
                node.is_flagged = node.is_derived
                if node.is_derived and not is_settled:
                    is_settled = self._tightened(node)
                add_up(node)
                if parent is None:
                    return node
            node = parent

    def _tightened(self, node: Node) -> bool:
        """Merges the children of a derived node anew. Returns whether that changed nothing, for those above either."""
        form = self.prices.merged([each.form for each in node.children])
        is_narrower = self.prices.contains(form, node.form)
        if node.parent is None and not is_narrower:
            # A root stays as it is while its children are widened, as long as it has all that they are made of.
            return True
        is_same = is_narrower and self.prices.contains(node.form, form)
        if not is_same:
            node.form = form
        return is_same

    def adopt(self, node: Node, children: Sequence[Node]) -> None:
        """Puts nodes below another, in the place of what was there."""
        node.children = list(children)
        for child in children:
            child.parent = node
        add_up(node)
