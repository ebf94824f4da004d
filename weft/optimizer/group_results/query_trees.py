"""Groups as trees: the root is the representative, and every query is contained in the root of its tree.

A node is **original**, a member's query, or **derived**, made by merging its children. What is below an original is
contained in it. So when a member leaves, only the derived nodes above it are merged anew:

        Q' = merge(Q1', Q2)                       Q' = merge(Q1', Q5)
        ├── Q1' = merge(Q3, Q4)     Q2 leaves     ├── Q1'
        │   ├── Q3                 ──────────▶    │   ├── Q3
        │   └── Q4                                │   └── Q4
        └── Q2                                    └── Q5
            └── Q5 (contained in Q2)

Trees stay flat: a node has a few children, and what comes when there are that many goes to the lightest of them. A root
that has all rows of what comes stays as it is, even if merging its children anew would give another condition: then no
one has to be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from weft.optimizer.group_results.forms import Form

#: A node has so many children at most, unless members leave.
FAN_OUT = 4

#: What is contained in nested nodes goes so many levels down for it: ten thousand thresholds would make a chain.
MOST_NESTED = 6


@dataclass(slots=True, eq=False)
class Node:
    """A node of a query tree. `name` is the member's, or None if it is derived.

    `rows`, `columns` and `work` are sums over the members below it and itself: the rows of the sample that they want,
    the columns that they need (bits), what the engine would have to do for each of them alone.
    """

    form: Form
    name: str | None = None
    #: Of the member itself.
    own: tuple[int, int, float] = (0, 0, 0.0)
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    is_flagged: bool = False
    rows: int = 0
    columns: int = 0
    work: float = 0.0
    weight: int = 0

    @property
    def is_derived(self) -> bool:
        return self.name is None


def original(name: str, form: Form, rows: int, columns: int, work: float) -> Node:
    """A member's query as a tree of its own."""
    return Node(form, name, (rows, columns, work), rows=rows, columns=columns, work=work, weight=1)


def derived(form: Form, children: Sequence[Node]) -> Node:
    """A node that was made by merging some, above them."""
    node = Node(form, children=list(children))
    for child in children:
        child.parent = node
    add_up(node)
    return node


def add_up(node: Node) -> None:
    """Sums over a node's children and itself."""
    node.rows, node.columns, node.work = node.own
    node.weight = not node.is_derived
    for child in node.children:
        node.rows |= child.rows
        node.columns |= child.columns
        node.work += child.work
        node.weight += child.weight


def add_up_to_root(node: Node | None) -> None:
    """The sums of a node and of all above it."""
    while node is not None:
        add_up(node)
        node = node.parent


def root_of(node: Node) -> Node:
    """The root of the tree that a node is in."""
    while node.parent is not None:
        node = node.parent
    return node


def members_below(node: Node) -> Iterator[Node]:
    """The originals of a sub-tree, from above."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not each.is_derived:
            yield each
        waiting.extend(reversed(each.children))


def replace_child(old: Node, new: Node) -> None:
    """Puts a node in the place of another under its parent."""
    parent = old.parent
    assert parent is not None
    parent.children[parent.children.index(old)] = new
    new.parent, old.parent = parent, None


def depth_of(node: Node) -> int:
    """How many levels a sub-tree has."""
    return 1 + max(map(depth_of, node.children), default=0)
