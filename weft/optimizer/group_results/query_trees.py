"""Groups as trees: the root is the representative, and every query is contained in the root of its tree.

A node is **original**, a member's query, or **derived**, made by merging its children. What is below an original is
contained in it. So when a member leaves, only the derived nodes above it are merged again:

        Q' = merge(Q1', Q2)                       Q' = merge(Q1', Q5)
        ├── Q1' = merge(Q3, Q4)     Q2 leaves     ├── Q1'
        │   ├── Q3                 ──────────▶    │   ├── Q3
        │   └── Q4                                │   └── Q4
        └── Q2                                    └── Q5
            └── Q5 (contained in Q2)

Trees stay flat: a node has a few children, and what comes when there are that many goes to the lightest of them. A root
that has all rows of what comes stays as it is, even if merging its children again would give another condition: then
its representative stays too.

Trees are kept as plain data, so that groups outlive a restart. Members are kept by name: their queries are kept
elsewhere. Of a derived node the form is kept, since it may depend on what was known, and on which members there were,
when it was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.optimizer.group_results.forms import Encode, Form, form_as_data

#: The most children of a node, unless members leave.
FAN_OUT = 4

#: How many levels a node that nested nodes contain goes down: ten thousand thresholds would make a chain.
MOST_NESTED = 6


@dataclass(frozen=True, slots=True)
class MemberSums:
    """Of some members together: the rows of the sample that they want, the columns that they need (bits), what the
    engine would have to do for each of them alone, the rows that they show of each column (`Screen.told`), how many
    they are.
    """

    rows: int = 0
    columns: int = 0
    work: float = 0.0
    told: int = 0
    weight: int = 0

    def __or__(self, other: MemberSums) -> MemberSums:
        return MemberSums(
            self.rows | other.rows,
            self.columns | other.columns,
            self.work + other.work,
            self.told | other.told,
            self.weight + other.weight,
        )


@dataclass(slots=True, eq=False)
class TreeNode:
    """A node of a query tree. `name` is the member's, or None if it is derived.

    `own` is of the member itself, `sums` of the members below the node and itself.
    """

    form: Form
    name: str | None = None
    own: MemberSums = MemberSums()
    children: list[TreeNode] = field(default_factory=list)
    parent: TreeNode | None = None
    is_flagged: bool = False
    sums: MemberSums = MemberSums()

    @property
    def is_derived(self) -> bool:
        return self.name is None

    @property
    def weight(self) -> int:
        """How many members there are at the node and below it."""
        return self.sums.weight


def derived(form: Form, children: Sequence[TreeNode]) -> TreeNode:
    """A node that was made by merging some, above them."""
    node = TreeNode(form, children=list(children))
    for child in children:
        child.parent = node
    add_up(node)
    return node


def add_up(node: TreeNode) -> None:
    sums = node.own
    for child in node.children:
        sums = sums | child.sums
    node.sums = sums


def root_of(node: TreeNode) -> TreeNode:
    while node.parent is not None:
        node = node.parent
    return node


def members_below(node: TreeNode) -> Iterator[TreeNode]:
    """The originals of a sub-tree, from above."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if not each.is_derived:
            yield each
        waiting.extend(reversed(each.children))


def replace_child(old: TreeNode, new: TreeNode) -> None:
    """Puts a node in the place of another under its parent."""
    parent = old.parent
    assert parent is not None
    parent.children[parent.children.index(old)] = new
    new.parent, old.parent = parent, None


# -- as plain data ----------------------------------------------------------------------------------------------------


def node_as_data(node: TreeNode, encode: Encode) -> dict[str, Any]:
    document: dict[str, Any] = (
        {"name": node.name} if node.name is not None else {"form": form_as_data(node.form, encode)}
    )
    if node.is_flagged:
        document["flagged"] = True
    if node.children:
        document["children"] = [node_as_data(child, encode) for child in node.children]
    return document


def members_in(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The members of a group that was kept."""
    return (document["alone"],) if "alone" in document else tuple(names_in(document["tree"]))


def names_in(document: Mapping[str, Any]) -> Iterator[str]:
    if "name" in document:
        yield document["name"]
    for child in document.get("children", ()):
        yield from names_in(child)
