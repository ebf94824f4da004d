"""What the forms and trees of one family cost to send, by what is known of streams and columns.

Links are of two sorts, and it depends on them whether a merge pays:

    a broker    carries what a group publishes: the rows that some member wants, each with the columns of all members,
                those of their conditions included, since it is the reader who tells whose a row is
    told        edges tell for each row who takes it (`weft/delivery/matching/sharing.py`), and send it with the columns
                that these show, and two bytes that name them; the columns of conditions stay where they are
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra import Aggregate, Expression
from weft.optimizer.group_results import forms
from weft.optimizer.group_results.conditions import Region
from weft.optimizer.group_results.cost import Sample, Statistics, column_width, flow_of
from weft.optimizer.group_results.forms import Family, Form
from weft.optimizer.group_results.query_trees import Node, Sums, original
from weft.optimizer.group_results.screening import Line, Screen, bits_of
from weft.optimizer.group_results.shapes import Shape
from weft.optimizer.group_results.subscriptions import Wanted, wanted_by
from weft.predicates.normal_forms import Box


@dataclass(frozen=True, slots=True)
class Policy:
    """How late rows may be, how much more processing is tolerated, and whether links are told whose rows are."""

    most_delay: int = 0
    overhead: float = 0.0
    told: bool = False


@dataclass(slots=True)
class Member:
    """A query in a forest: what it wants, the columns that its user sees as bits, and its node."""

    shape: Shape
    wanted: Wanted
    shown: int
    node: Node


class Pricing:
    """The prices of one family. Columns are numbered as they come, so that a set of them is a number's bits."""

    def __init__(self, family: Family, policy: Policy, sample: Sample) -> None:
        self.family, self.policy = family, policy
        self.aggregates: dict[str, Aggregate] = {}
        self.columns: dict[str, int] = {}
        self._expressions: list[Expression] = []
        self.measure(sample)

    def measure(self, sample: Sample) -> None:
        """Go by other statistics from now on. There are no lines in the screen then."""
        self._sample = sample
        flow = flow_of(sample.statistics, self.family)
        self.screen = Screen(flow, sample.size, len(flow.rates), self.policy.told)
        for expression in self._expressions:
            self.screen.add_column(column_width(sample.statistics, self.family, expression))

    @property
    def statistics(self) -> Statistics:
        """What is known of streams, columns and links."""
        return self._sample.statistics

    # Forms

    def rows(self, box: Box) -> int:
        """The rows of the sample in a box."""
        return self._sample.rows(self.family, box)

    def merged(self, several: Sequence[Form]) -> Form:
        """What contains all of some forms."""
        return forms.merge(several, self.rows, self.policy.most_delay)

    def contains(self, inner: Form, outer: Form) -> bool:
        """Whether a form has all rows of another one, as timely as the policy demands."""
        return forms.contains(inner, outer, self.policy.most_delay)

    def form_of(self, shape: Shape) -> Form:
        """What a query answers."""
        regions = tuple(Region(box, self.rows(box)) for box in shape.boxes)
        return Form(regions, shape.windows, None if shape.end is None else frozenset({shape.end}))

    # Members

    def member(self, name: str, shape: Shape) -> Member:
        """A query as a tree of its own, which is not in the forest yet."""
        wanted = wanted_by(shape)
        self.aggregates.update(shape.aggregates)
        for published, expression in wanted.columns.items():
            self._column(published, expression)
        shown = sum({1 << self.columns[published] for _, published in wanted.shown})
        needed = sum(1 << self.columns[published] for published in wanted.columns)
        form = self.form_of(shape)
        return Member(shape, wanted, shown, original(name, form, self._sums(form, needed, shown)))

    def measured_anew(self, member: Member) -> None:
        """A member's form and sums by the statistics of now."""
        node = member.node
        node.form = self.form_of(member.shape)
        node.own = self._sums(node.form, node.own.columns, member.shown)

    def _sums(self, form: Form, needed: int, shown: int) -> Sums:
        rows = 0
        for region in form.regions:
            rows |= region.rows
        told = self.screen.told(rows, shown) if self.policy.told else 0
        return Sums(rows, needed, self.screen.work(form, rows), told, 1)

    def _column(self, name: str, expression: Expression) -> None:
        if name not in self.columns:
            self.columns[name] = len(self.columns)
            self._expressions.append(expression)
            self.screen.add_column(column_width(self._sample.statistics, self.family, expression))

    def named_columns(self, columns: int) -> dict[str, Expression]:
        """Columns by name."""
        names = list(self.columns)
        return {names[number]: self._expressions[number] for number in bits_of(columns)}

    # Prices

    def cost(self, node: Node) -> float:
        """What it costs to send what a tree publishes over a link with all its members behind it."""
        return self._carried(node.form, node.sums)

    def line(self, node: Node, cost: float) -> Line:
        """What has to be known of a tree to screen it."""
        return Line(node.form, node.sums, cost)

    def traffic(self, members: Sequence[Member]) -> float:
        """Bytes per tick that some members of one tree need together, each row once, without what others want."""
        sums = members[0].node.own
        for member in members[1:]:
            sums = sums | member.node.own
        together = self._carried(forms.met([member.node.form for member in members]), sums)
        if not self.policy.told or len(members) == 1:
            return together
        # Rows of a join that meet in the windows of none are not sent: there are no more than the members have.
        return min(together, sum(self._carried(each.node.form, each.node.own, tagged=True) for each in members))

    def traffic_alone(self, member: Member) -> float:
        """Bytes per tick of a member's answers, if they are sent by themselves: with the columns that its user sees."""
        form, own = member.node.form, member.node.own
        if self.policy.told:
            # The same price as of a group of one, also if no row of the sample is among its answers.
            return self._carried(form, own)
        return self.screen.rate(form) * self.screen.share(own.rows) * self.screen.width(member.shown)

    def _carried(self, form: Form, sums: Sums, tagged: bool = False) -> float:
        if self.policy.told:
            return self.screen.rate(form) * self.screen.told_width(sums, tagged or sums.weight > 1)
        return self.screen.rate(form) * self.screen.share(sums.rows) * self.screen.width(sums.columns)
