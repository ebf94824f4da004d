"""The trees of one family and first hop: insertion, termination, re-optimisation.

Insertion is greedy: a query joins the group where that saves most, if it saves anything. Rewriting is eager: when a
member leaves, the nodes above it are merged anew, which changes no subscription. Regrouping is lazy: only a round of
re-optimisation takes groups apart that do not pay any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.algebra import Aggregate, Expression
from weft.optimizer.group_results import forms
from weft.optimizer.group_results.conditions import Region
from weft.optimizer.group_results.cost import Sample, column_width, flow_of
from weft.optimizer.group_results.forms import Family, Form
from weft.optimizer.group_results.kept import form_from_data
from weft.optimizer.group_results.query_trees import (
    FAN_OUT,
    MOST_NESTED,
    Node,
    add_up,
    add_up_to_root,
    derived,
    members_below,
    original,
    replace_child,
    root_of,
)
from weft.optimizer.group_results.screening import Line, Screen, bits_of
from weft.optimizer.group_results.shapes import Shape
from weft.optimizer.group_results.subscriptions import Wanted, wanted_by
from weft.predicates import Box


@dataclass(frozen=True, slots=True)
class Policy:
    """How late rows may be, how much more processing is tolerated, and what a group of one publishes."""

    most_delay: int = 0
    overhead: float = 0.0
    lean: bool = False


@dataclass(slots=True)
class Member:
    """A query in a forest: what it wants, the columns that its user sees as bits, and its node."""

    shape: Shape
    wanted: Wanted
    shown: int
    node: Node


@dataclass(eq=False)
class Tree:
    """A group: its root, and its place among the roots."""

    root: Node
    number: int
    label: str = ""


class Forest:
    """The trees of queries of one family that leave by the same first hop."""

    def __init__(self, family: Family, policy: Policy, sample: Sample) -> None:
        self.family, self.policy = family, policy
        self.members: dict[str, Member] = {}
        self.trees: list[Tree] = []
        self.aggregates: dict[str, Aggregate] = {}
        self.columns: dict[str, int] = {}
        self._expressions: list[Expression] = []
        self._tree_of: dict[Node, Tree] = {}
        self._measured(sample)

    def _measured(self, sample: Sample) -> None:
        self._sample = sample
        statistics = sample.statistics
        flowing = len(flow_of(statistics, self.family).rates)
        self._screen = Screen(flow_of(statistics, self.family), sample.size, flowing)
        for expression in self._expressions:
            self._screen.add_column(column_width(statistics, self.family, expression))

    # What nodes are made of

    def _rows(self, box: Box) -> int:
        return self._sample.rows(self.family, box)

    def _merged(self, several: Sequence[Form]) -> Form:
        return forms.merge(several, self._rows, self.policy.most_delay)

    def _contains(self, inner: Form, outer: Form) -> bool:
        return forms.contains(inner, outer, self.policy.most_delay)

    def member(self, name: str, shape: Shape) -> Member:
        """A query as a tree of its own, which is not in the forest yet."""
        wanted = wanted_by(shape)
        self.aggregates.update(shape.aggregates)
        needed = sum(1 << self._column(published, each) for published, each in wanted.columns.items())
        shown = 0
        for _, published in wanted.shown:
            shown |= 1 << self.columns[published]
        form = self.form_of(shape)
        rows = 0
        for region in form.regions:
            rows |= region.rows
        node = original(name, form, rows, needed, self._screen.work(form, rows))
        return Member(shape, wanted, shown, node)

    def form_of(self, shape: Shape) -> Form:
        """What a query answers."""
        regions = tuple(Region(box, self._rows(box)) for box in shape.boxes)
        return Form(regions, shape.windows, None if shape.end is None else frozenset({shape.end}))

    def _column(self, name: str, expression: Expression) -> int:
        number = self.columns.get(name)
        if number is None:
            number = self.columns[name] = len(self.columns)
            self._expressions.append(expression)
            self._screen.add_column(column_width(self._sample.statistics, self.family, expression))
        return number

    def published(self, root: Node) -> int:
        """The columns that a tree publishes, as bits."""
        if self.policy.lean and root.weight == 1:
            return sum(self.members[each.name].shown for each in members_below(root) if each.name)
        return root.columns

    def named_columns(self, columns: int) -> dict[str, Expression]:
        """Columns by name."""
        names = list(self.columns)
        return {names[number]: self._expressions[number] for number in bits_of(columns)}

    def cost(self, node: Node) -> float:
        """What it costs to send what a tree publishes."""
        width = self._screen.width(self.published(node))
        return self._screen.rate(node.form) * self._screen.share(node.rows) * width

    def traffic(self, names: Sequence[str]) -> float:
        """Bytes per tick that some members of one tree need together, each row once, without what others want."""
        members = [self.members[name] for name in names]
        is_bare = self.policy.lean and self.tree_of(members[0].node).root.weight == 1
        rows = columns = 0
        for member in members:
            rows |= member.node.own[0]
            columns |= member.shown if is_bare else member.node.own[1]
        form = forms.met([member.node.form for member in members])
        return self._screen.rate(form) * self._screen.share(rows) * self._screen.width(columns)

    def traffic_alone(self, name: str) -> float:
        """Bytes per tick of a member's answers, if they are sent by themselves."""
        member = self.members[name]
        rows, _, _ = member.node.own
        return self._screen.rate(member.node.form) * self._screen.share(rows) * self._screen.width(member.shown)

    def _line(self, node: Node) -> Line:
        return Line(node.form, node.rows, node.columns, self.cost(node), node.work)

    # Trees

    def tree_of(self, node: Node) -> Tree:
        """The tree that a node is in."""
        return self._tree_of[root_of(node)]

    def plant(self, root: Node) -> Tree:
        """A new tree."""
        tree = Tree(root, len(self.trees))
        self.trees.append(tree)
        self._tree_of[root] = tree
        self._screen.append(self._line(root))
        return tree

    def _fell(self, tree: Tree) -> None:
        """Removes a tree; the last one gets its place."""
        del self._tree_of[tree.root]
        self._screen.remove(tree.number)
        last = self.trees.pop()
        if last is not tree:
            self.trees[tree.number] = last
            last.number = tree.number

    def _has_root(self, tree: Tree, root: Node) -> None:
        """The tree after its root, or anything below, has changed."""
        if tree.root is not root:
            del self._tree_of[tree.root]
            tree.root = root
            root.parent = None
            self._tree_of[root] = tree
        self._screen.put(tree.number, self._line(root))

    def restored(self, document: Mapping[str, Any], members: Mapping[str, Member]) -> Node:
        """A sub-tree that was kept (`kept`)."""
        children = [self.restored(each, members) for each in document.get("children", ())]
        if "name" in document:
            node = members[document["name"]].node
        else:
            node = Node(form_from_data(document["form"], self.family, self._rows))
        node.is_flagged = document.get("flagged", False)
        self._adopt(node, children)
        return node

    # Insertion

    def insert(self, member: Member) -> Tree:
        """Adds a query to the group where that saves most, or to a new one."""
        self.keep(member)
        return self._insert(member.node)

    def keep(self, member: Member) -> None:
        """Takes a member whose node is in a tree already, or will be."""
        assert member.node.name is not None
        self.members[member.node.name] = member

    def _insert(self, node: Node) -> Tree:
        """Adds a query, or a whole sub-tree."""
        found = self._screen.best(self._line(node), self.policy.overhead)
        if found is None:
            return self.plant(node)
        tree = self.trees[found[0]]
        root = tree.root
        if self._contains(node.form, root.form):
            self._attach(root, node)
        elif not node.is_derived and self._contains(root.form, node.form):
            self._take_over(node, root)
            root = node
        elif root.is_derived:
            self._attach(root, node)
            root.form = self._merged([root.form, node.form])
        else:
            root = derived(self._merged([root.form, node.form]), [root, node])
        self._has_root(tree, root)
        return tree

    def _take_over(self, node: Node, root: Node) -> None:
        """Puts a root below an original that contains it. What was below it is now beside it: no level is added."""
        below, root.children = root.children, []
        self._adopt(node, [*node.children, *below])
        if not root.is_derived:
            add_up(root)
            self._attach(node, root)

    def _attach(self, parent: Node, node: Node) -> None:
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
                    self._adopt(pair, [within])
                    within = pair
                within.form = self._merged([within.form, node.form])
            path, levels = within, levels + 1
        path.children.append(node)
        node.parent = path
        add_up_to_root(path)

    def _child_around(self, parent: Node, node: Node) -> Node | None:
        return next((each for each in parent.children if self._contains(node.form, each.form)), None)

    # Termination

    def terminate(self, name: str) -> tuple[Tree, bool]:
        """Removes a query. Returns its tree, and whether that has ended."""
        node = self.members[name].node
        tree, parent = self.tree_of(node), node.parent
        heir = self._heir(node.children)
        if parent is None:
            del self.members[name]
            if heir is None:
                self._fell(tree)
                return tree, True
            self._has_root(tree, heir)
            return tree, False
        if heir is None:
            parent.children.remove(node)
        else:
            replace_child(node, heir)
        del self.members[name]
        self._has_root(tree, self._rewritten(parent))
        return tree, False

    def _heir(self, children: Sequence[Node]) -> Node | None:
        """What takes the place of a node that is gone, above its children."""
        if len(children) <= 1:
            for child in children:
                child.parent = None
            return children[0] if children else None
        node = derived(self._merged([each.form for each in children]), children)
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
        form = self._merged([each.form for each in node.children])
        is_narrower = self._contains(form, node.form)
        if node.parent is None and not is_narrower:
            # A root stays as it is while its children are widened, as long as it has all that they are made of.
            return True
        is_same = is_narrower and self._contains(node.form, form)
        if not is_same:
            node.form = form
        return is_same

    # Re-optimisation

    def reoptimise(self) -> None:
        """Takes apart what does not pay any more, and inserts the parts afresh."""
        out: list[Node] = []
        for tree in self.trees:
            parts: list[Node] = []
            root = self._reoptimised(tree.root, parts)
            if root is None:
                # The heaviest part keeps the name, so that the fewest members move.
                root = max(parts, key=lambda each: each.weight)
                parts.remove(root)
            self._has_root(tree, root)
            out += parts
        for node in out:
            self._insert(node)

    def _reoptimised(self, node: Node, out: list[Node]) -> Node | None:
        """A sub-tree after its round; None if it has been taken apart, and its parts have gone `out`."""
        up: list[Node] = []
        results = [self._reoptimised(child, up) for child in list(node.children)]
        kept = [each for each in results if each is not None]
        if not (node.is_flagged or up or kept != node.children):
            return node
        node.is_flagged = False
        if not node.is_derived:
            # It contains them all, wherever they were below it.
            self._adopt(node, kept)
            for each in up:
                self._attach(node, each)
            return node
        children = [*kept, *up]
        for each in children:
            each.parent = None
        if len(children) == 1:
            return children[0]
        merged = derived(self._merged([each.form for each in children]), children)
        if sum(map(self.cost, children)) < self.cost(merged):
            for each in children:
                each.parent = None
            out += children
            return None
        if node.parent is not None or self._contains(merged.form, node.form):
            node.form = merged.form
        self._adopt(node, self._balanced(children))
        return node

    def _balanced(self, children: list[Node]) -> list[Node]:
        """No more children than a node may have: the lightest are put under a node of their own."""
        while len(children) > FAN_OUT:
            children = sorted(children, key=lambda each: each.weight)
            lightest, children = children[:2], children[2:]
            children.append(derived(self._merged([each.form for each in lightest]), lightest))
        return children

    def _adopt(self, node: Node, children: Sequence[Node]) -> None:
        node.children = list(children)
        for child in children:
            child.parent = node
        add_up(node)

    def remeasure(self, sample: Sample) -> None:
        """Estimates everything anew by other statistics; what does not pay by them is flagged."""
        self._measured(sample)
        for member in self.members.values():
            node = member.node
            node.form = self.form_of(member.shape)
            rows = 0
            for region in node.form.regions:
                rows |= region.rows
            node.own = rows, node.own[1], self._screen.work(node.form, rows)
        for number, tree in enumerate(self.trees):
            tree.number = number
            self._remeasured(tree.root)
            self._screen.append(self._line(tree.root))

    def _remeasured(self, node: Node) -> None:
        for child in node.children:
            self._remeasured(child)
        if node.is_derived:
            regions = tuple(Region(each.box, self._rows(each.box)) for each in node.form.regions)
            node.form = Form(regions, node.form.windows, node.form.ends, node.form.delay)
        add_up(node)
        if node.is_derived and sum(map(self.cost, node.children)) < self.cost(node):
            node.is_flagged = True
