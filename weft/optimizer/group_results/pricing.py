"""Nodes of query trees, their prices, and the group that a new query gains most from joining.

Links are of two sorts, and it depends on them whether a merge pays:

    a broker    carries what a group publishes: the rows that some member wants, each with the columns of all members,
                those of their conditions included, since it is the reader who tells whose a row is
    told        edges tell for each row who takes it (`weft/delivery/members.py`), and send it with the columns
                that these show, and two bytes that name them; the columns of conditions stay where they are

A new query has to be held against all groups of its family. What the benefit depends on is kept in an array, one line
per root: the rows of the sample that its members want, the columns they need, its windows, its cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.algebra import Aggregate, Expression, Stream
from weft.optimizer.group_results import forms
from weft.optimizer.group_results.forms import Form, QueryFamily, Region, union_of_ends
from weft.optimizer.group_results.representatives import subscribed
from weft.optimizer.group_results.shapes import QueryShape
from weft.optimizer.group_results.traffic_estimates import Sample, column_width
from weft.plan.subscription import Subscription
from weft.predicates.normal_forms import Box
from weft.windows.counting import bits_of, edge_rate
from weft.windows.slicing import EdgeSet

_FEW_ROOTS, _FEW_COLUMNS = 2, 8

#: The share of pairs of rows that satisfy an equation, and the groups of an aggregate with keys: nothing is known.
_MATCHES, _GROUPS = 0.01, 100

#: Bytes that say whose a row is: a number of 16 bits for a set of members.
TAG_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How late rows may be, how much more processing is tolerated, and whether links carry rows with their takers."""

    most_delay: int = 0
    overhead: float = 0.0
    told: bool = False


# -- nodes of query trees ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberSums:
    """Of some members together: the rows of the sample that they want, the columns that they need (bits), what the
    engine would do for each of them alone, the rows that they show of each column, how many they are.
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

    `own` is of the member itself, `sums` of the members below the node and itself. A root has a `number`.
    """

    form: Form
    name: str | None = None
    own: MemberSums = MemberSums()
    children: list[TreeNode] = field(default_factory=list)
    parent: TreeNode | None = None
    is_flagged: bool = False
    sums: MemberSums = MemberSums()
    number: int = 0

    @property
    def is_derived(self) -> bool:
        return self.name is None

    @property
    def weight(self) -> int:
        """How many members there are at the node and below it."""
        return self.sums.weight


def adopt(node: TreeNode, children: Sequence[TreeNode]) -> None:
    """Puts nodes below another, in the place of what was there."""
    node.children = list(children)
    for child in children:
        child.parent = node
    add_up(node)


def add_up(node: TreeNode) -> None:
    sums = node.own
    for child in node.children:
        sums = sums | child.sums
    node.sums = sums


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


# -- prices -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ForestMember:
    """A query in a forest: what it wants, what cuts its answers out of its group's rows, and its node."""

    shape: QueryShape
    subscription: Subscription
    node: TreeNode


class Pricing:
    """The prices of one family, and the roots of its trees by number.

    Columns are numbered as they come, so that a set of them is a number's bits.
    """

    def __init__(self, family: QueryFamily, policy: Policy, sample: Sample) -> None:
        self.family, self.policy = family, policy
        self.aggregates: dict[str, Aggregate] = {}
        self.columns: dict[str, int] = {}
        self._expressions: list[Expression] = []
        self.measure(sample)

    def measure(self, sample: Sample) -> None:
        """Use other statistics from now on. There are no roots then."""
        self._sample, self._size, self.statistics = sample, sample.size, sample.statistics
        streams = [each.source.name for each in self.family.inputs if isinstance(each.source, Stream)]
        self._rates = [self.statistics.rates.get(name, 1.0) for name in streams]
        self._matches = 1.0 if self.family.common is None else _MATCHES
        self._words = -(-sample.size // 64)
        self.roots: list[TreeNode] = []
        widths = [self._width_of(each) for each in self._expressions]
        self._widths: npt.NDArray[np.float64] = np.array(widths, dtype=np.float64)
        self._lines = self._no_lines(_FEW_ROOTS, max(_FEW_COLUMNS, len(widths)))

    def _no_lines(self, roots: int, columns: int) -> npt.NDArray[Any]:
        return np.zeros(
            roots,
            dtype=[
                ("rows", np.uint64, (self._words,)),
                ("columns", bool, (columns,)),
                # The rows that are shown of each column.
                ("told", np.uint64, (columns if self.policy.told else 0, self._words)),
                ("ranges", np.float64, (len(self._rates),)),
                *(("slide", np.int64), ("origin", np.int64)),
                # Bytes of a row or of the sample, cost, work of the members.
                *(("size", np.float64), ("cost", np.float64), ("work", np.float64)),
            ],
        )

    # Forms

    def rows(self, box: Box) -> int:
        return self._sample.rows(self.family, box)

    def merged(self, nodes: Sequence[TreeNode]) -> Form:
        return forms.merge([node.form for node in nodes], self.rows, self.policy.most_delay)

    def derived(self, children: Sequence[TreeNode]) -> TreeNode:
        """A node that is made by merging some, above them."""
        node = TreeNode(self.merged(children))
        adopt(node, children)
        return node

    def contains(self, inner: Form, outer: Form) -> bool:
        """Whether a form has all rows of another one, as timely as the policy demands."""
        return forms.contains(inner, outer, self.policy.most_delay)

    # Members

    def member(self, name: str, shape: QueryShape) -> ForestMember:
        """A query as a tree of its own, which is not in the forest yet."""
        subscription, columns = subscribed(shape)
        self.aggregates.update(shape.aggregates)
        for published, expression in columns.items():
            if published not in self.columns:
                self.columns[published] = len(self.columns)
                self._expressions.append(expression)
                self._add_column(expression)
        needed = sum(1 << self.columns[published] for published in columns)
        member = ForestMember(shape, subscription, TreeNode(Form(()), name, MemberSums(columns=needed)))
        self.measure_member(member)
        member.node.sums = member.node.own
        return member

    def measure_member(self, member: ForestMember) -> None:
        """Estimate a member's form and sums by the statistics of now."""
        shape, node, rows, told = member.shape, member.node, 0, 0
        regions = tuple(Region(box, self.rows(box)) for box in shape.boxes)
        node.form = Form(regions, shape.windows, None if shape.end is None else frozenset({shape.end}))
        for region in regions:
            rows |= region.rows
        if self.policy.told:
            # The rows of which a column is shown, for each column in a place of its own.
            shown = {self.columns[published] for _, published in member.subscription.columns}
            told = sum(rows << (64 * self._words * column) for column in shown)
        node.own = MemberSums(rows, node.own.columns, self.work(node.form, rows), told, 1)

    def named_columns(self, columns: int) -> dict[str, Expression]:
        names = list(self.columns)
        return {names[number]: self._expressions[number] for number in bits_of(columns)}

    # Prices

    def cost(self, node: TreeNode) -> float:
        """What it costs to send what a tree publishes over a link with all its members behind it."""
        sums, rate = node.sums, self.rate(node.form)
        if self.policy.told:
            return rate * self.told_width(sums, sums.weight > 1)
        return rate * self.share(sums.rows) * self.width(sums.columns)

    # All roots side by side

    def _add_column(self, expression: Expression) -> None:
        self._widths = np.append(self._widths, self._width_of(expression))
        known = self._lines["columns"].shape[1]
        if len(self._widths) > known:
            self._lines = self._no_lines(len(self._lines), 2 * known)
            for root in self.roots:
                self.put(root)

    def _width_of(self, expression: Expression) -> float:
        return max(column_width(self.statistics, self.family, expression), 1e-9)

    def width(self, columns: int) -> float:
        return float(self._widths[list(bits_of(columns))].sum())

    def share(self, rows: int) -> float:
        """The share of rows that some bits are; what is not in the sample at all is rare."""
        return max(rows.bit_count(), 0.5) / self._size

    def told_width(self, sums: MemberSums, tagged: bool) -> float:
        """Bytes, by row of the sample, of what members are shown of the rows that they take."""
        size = self._shown_bytes(self._told_words(sums.told)) + tagged * TAG_BYTES * sums.rows.bit_count()
        return max(size, 0.5) / self._size

    def _shown_bytes(self, told: npt.NDArray[np.uint64]) -> float:
        return float(np.bitwise_count(told).sum(axis=1, dtype=np.int64) @ self._widths[: len(told)])

    def _told_words(self, told: int) -> npt.NDArray[np.uint64]:
        columns = -(-told.bit_length() // (64 * self._words))
        data = told.to_bytes(8 * self._words * columns, "little")
        return np.frombuffer(data, dtype=np.uint64).reshape(columns, self._words)

    def rate(self, form: Form) -> float:
        """Rows per tick, before any condition."""
        if form.ends is not None:
            return self._answers(form.ends)
        if form.windows is None:
            return self._rates[0] * self._matches
        ranges = np.array([form.windows.ranges], dtype=np.float64)
        return float(self._combinations(ranges, np.array([form.windows.slide], dtype=np.float64))[0])

    def _answers(self, ends: EdgeSet) -> float:
        return (_GROUPS if self.family.keys else 1) * float(edge_rate(ends))

    def _combinations(self, ranges: npt.NDArray[np.float64], slides: npt.NDArray[np.float64]) -> Any:
        """Rows per tick that meet in windows; one row of `ranges` for each of many forms.

        A new row of one stream meets all rows in the windows of the others. Where windows have holes, rows that fall
        into them meet nothing.
        """
        every = np.prod(ranges, axis=1) * np.sum(1.0 / ranges, axis=1) * float(np.prod(self._rates))
        return self._matches * every * np.minimum(1.0, ranges.min(axis=1) / slides)

    def work(self, form: Form, rows: int) -> float:
        """What the engine has to do for a form, per tick: read rows, and make answers."""
        return sum(self._rates) + self.rate(form) * self.share(rows)

    def append(self, root: TreeNode) -> None:
        if len(self.roots) == len(self._lines):
            self._lines = np.concatenate([self._lines, np.zeros_like(self._lines)])
        root.number = len(self.roots)
        self.roots.append(root)
        self.put(root)

    def remove(self, root: TreeNode) -> None:
        """Removes a root; the last one gets its number."""
        last = self.roots.pop()
        if last is not root:
            self._lines[root.number] = self._lines[last.number]
            self.roots[root.number], last.number = last, root.number

    def put(self, root: TreeNode) -> None:
        """Writes down a root that has changed, or has taken the number of another."""
        sums, windows, line = root.sums, root.form.windows, self._lines[root.number]
        self.roots[root.number] = root
        line["rows"] = self._as_words(sums.rows)
        line["columns"] = False
        line["columns"][list(bits_of(sums.columns))] = True
        if windows is not None:
            line["ranges"], line["slide"], line["origin"] = windows.ranges, windows.slide, windows.origin
        line["size"] = self.width(sums.columns)
        if self.policy.told:
            found = self._told_words(sums.told)
            line["told"] = 0
            line["told"][: len(found)] = found
            line["size"] = self._shown_bytes(found)
        line["cost"], line["work"] = self.cost(root), sums.work

    def _as_words(self, rows: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(rows.to_bytes(8 * self._words, "big"), dtype=np.uint64)

    def best(self, new: TreeNode, besides: int | None = None) -> tuple[int, float] | None:
        """The number of the root, `besides` one, that it is best to merge a tree with, and the gain; None for no gain.

        Merging may increase processing by no more than the overhead, relative to what the members would need.
        """
        lines, sums, cost = self._lines[: len(self.roots)], new.sums, self.cost(new)
        if not len(lines):
            return None
        wanted = np.bitwise_count(lines["rows"] | self._as_words(sums.rows)).sum(axis=1, dtype=np.int64)
        shares = np.maximum(wanted, 0.5) / self._size
        rates = self._merged_rates(new.form, lines)
        if self.policy.told:
            # Bytes, by row of the sample, as links carry it if edges mark rows.
            found = self._told_words(sums.told)
            columns = np.flatnonzero(found.any(axis=1))
            more = np.bitwise_count(found[columns] & ~lines["told"][:, columns]).sum(axis=2, dtype=np.int64)
            sizes = (lines["size"] + more @ self._widths[columns] + TAG_BYTES * wanted) / self._size
        else:
            # Bytes of a row, as a broker carries it.
            needed = list(bits_of(sums.columns))
            sizes = shares * (lines["size"] + ~lines["columns"][:, needed] @ self._widths[needed])
        gains = lines["cost"] + cost - rates * sizes
        works = sum(self._rates) + rates * shares
        gains[works > (1.0 + self.policy.overhead) * (lines["work"] + sums.work) * (1.0 + 1e-12)] = -np.inf
        if besides is not None:
            gains[besides] = -np.inf
        number = int(gains.argmax())
        return (number, float(gains[number])) if gains[number] > 1e-12 * cost else None

    def _merged_rates(self, form: Form, lines: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Rows per tick of each root merged with a form."""
        if form.ends is not None:
            sets = ((root.form.ends, form.ends) for root in self.roots)
            return np.array([self._answers(union_of_ends([e for e in pair if e])) for pair in sets])
        if form.windows is None:
            return np.full(len(lines), self._rates[0] * self._matches)
        ranges = np.maximum(lines["ranges"], np.array(form.windows.ranges, dtype=np.float64))
        common = np.gcd(np.gcd(lines["slide"], form.windows.slide), np.abs(lines["origin"] - form.windows.origin))
        return np.asarray(self._combinations(ranges, common.astype(np.float64)))
