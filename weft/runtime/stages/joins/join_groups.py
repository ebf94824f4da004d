"""The network as groups: nodes whose rows are made alike, and so are made together.

    level 0     all selections over one log: one pass over its new rows
    level 1     all joins of the same two logs by the same equalities, and the selections over them: one join
    level n     … of two groups of lower levels

A row of a group says which of its nodes it is in. What a group does grows with its distinct expressions, not with
its nodes, and its log is found again under the same name whatever queries come and go. The numbers of nodes follow
from what they compute: the same number means the same rows in networks that were planned at different times.

How far apart the clocks of the inputs of a group's rows can be, and so when its rows are of no more use, is taken from
the selects that read the rows, not from the nodes: a node may be weaker than those that share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import product

from weft.algebra import Call, Column, DataType, Expression, Field, Input, Select, Source, Table
from weft.algebra.types import BIGINT, BOOLEAN, STRING
from weft.expressions.spark_expressions import spark_sql
from weft.plan.event_time import Clock, EventTime
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import Network, Node, Result
from weft.predicates.clauses import Disjunction, PredicateSet
from weft.predicates.literals import expression_of
from weft.predicates.row_matching import RowMatcher
from weft.predicates.terms import columns_of, sources_of
from weft.runtime.spark.rows import ARRIVAL
from weft.runtime.stages.joins.row_checks import Columns, bounding_condition, bounding_predicates, clock_of, column_of
from weft.windows.join_windows import Bounds


@dataclass(frozen=True)
class JoinKey:
    """An equality that holds for every row of a join: an expression over the left legs, and one over the right ones.

    The right one is over the join's own legs, as the left one is.
    """

    text: str
    left: Expression = field(compare=False)
    right: Expression = field(compare=False)


#: Whether a leg of the row came too late for windows; the labels of the nodes that a row is in, and of its parents'.
LATE, NODES = "_late", "_nodes"
PARENT_NODES = ("_left_nodes", "_right_nodes")


@dataclass(frozen=True)
class SelectOutput:
    """Where a select's rows are taken: from a node, with a column for each of its outputs."""

    place: str
    node: int
    first: int
    outputs: tuple[tuple[Field, str], ...]


@dataclass(eq=False)
class JoinGroup:
    """Nodes over the same logs whose rows are made in one step. Without sides it is what a log gives.

    It is made of the network alone. What follows the joins that it is a side of is there once it is made ready to run
    (`prepared.py`).
    """

    name: LogId
    legs: tuple[LogId, ...]
    sides: tuple[JoinGroup, ...] = ()
    keys: tuple[JoinKey, ...] = ()
    #: By number; parents before children.
    nodes: dict[int, GroupNode] = field(default_factory=dict)
    #: The joins that it is a side of.
    above: list[JoinGroup] = field(default_factory=list)
    columns: Columns = field(default_factory=lambda: Columns(()))
    selects: list[SelectOutput] = field(default_factory=list)
    #: The selects that need its rows.
    uses: list[Use] = field(default_factory=list)
    #: The nodes whose rows later cycles look for, each with the first cycle from whose rows on they do.
    awaited_from: dict[int, int] = field(default_factory=dict)
    #: For each node the selects that need its rows, by place, and the first cycle whose rows each of them sees.
    readers: dict[int, dict[str, int]] = field(default_factory=dict)
    #: The columns of a log that joins refer to, in whatever order they are made.
    joined_by: set[str] = field(default_factory=set)
    #: For each side the columns of its keys, if it has any (on executors: the one that holds their number), and the
    #: conditions that its rows satisfy, as SQL.
    key_columns: tuple[tuple[str, ...], ...] = ()
    side_conditions: tuple[str, ...] = ()
    #: Whether kept rows stay with the executors: see `stage.py`.
    on_executors: bool = False
    evaluator: RowMatcher = field(default_factory=lambda: RowMatcher({}))

    @property
    def level(self) -> int:
        return 1 + max(side.level for side in self.sides) if self.sides else 0

    @property
    def first_legs(self) -> tuple[int, int]:
        """Where among the legs those of each side begin."""
        return 0, len(self.sides[0].legs)

    def parents(self, side: int) -> frozenset[int]:
        """The nodes of a side that the group's joins read."""
        return frozenset(each.parents[side] for each in self.nodes.values() if len(each.parents) == 2)

    @cached_property
    def feeding(self) -> tuple[int, ...]:
        """The nodes that joins above read."""
        read = {
            node
            for join in self.above
            for side, group in enumerate(join.sides)
            if group is self
            for node in join.parents(side)
        }
        return tuple(sorted(read))

    @cached_property
    def band(self) -> Band | None:
        """The narrowest band that its rows lie in, for one leg of either side; None if there is none."""
        left, right = range(len(self.sides[0].legs)), range(len(self.sides[0].legs), len(self.legs))
        bands = (band_between(*pair, self.uses) for pair in product(left, right))
        found = (each for each in bands if each is not None)
        return min(found, key=lambda band: (band.width, band.left, band.right), default=None)

    def ahead(self, side: int) -> tuple[int, int] | tuple[None, None]:
        """How much the clock of a row of a side can be ahead of that of a row of the other; None if by any time."""
        return (None, None) if self.band is None else self.band.ahead(side)

    def band_clock(self, side: int) -> str:
        """The clock of a side's rows that the band of a join is about."""
        if self.band is None:
            return clock_of(0)
        return clock_of((self.band.left, self.band.right)[side] - self.first_legs[side])

    @cached_property
    def reach(self) -> dict[Source, int | None]:
        return reach_of(self.uses)

    @cached_property
    def condition(self) -> str:
        """What every needed row of a log satisfies, as SQL; nothing if it is not restricted."""
        # Its columns are read, and not passed on.
        return "" if self._bound is None else spark_sql(self._bound, lambda each: column_of(*self._place(each)))

    @cached_property
    def read_by_condition(self) -> frozenset[str]:
        """The columns of the log that the condition is about."""
        return frozenset(self._place(each)[1] for each in columns_of(self._bound)) if self._bound else frozenset()

    @cached_property
    def _bound(self) -> Expression | None:
        return bounding_condition(bounding_predicates([demands(self, node) for node in self.evaluator.nodes]))

    def _place(self, leaf: object) -> tuple[int, str]:
        assert isinstance(leaf, Column)
        return self.columns.place_of(leaf, 0)

    @cached_property
    def first(self) -> int:
        """The first cycle whose rows are seen."""
        return min((each.first for each in self.uses), default=0)

    @property
    def is_timely(self) -> bool:
        """Whether no row that came too late is wanted."""
        return all(each.timely for each in self.nodes.values() if len(each.parents) == 2)

    @property
    def stored(self) -> list[tuple[str, DataType]]:
        """The columns of its rows that are passed on, by name."""
        values = [(column_of(*each), self.columns.type_of(column_of(*each))) for each in sorted(self.columns.wanted)]
        clocks = [(clock_of(leg), BIGINT) for leg in range(len(self.legs))]
        labels = [(NODES, STRING)] if self.sides else []
        return [*values, *clocks, (ARRIVAL, BIGINT), (LATE, BOOLEAN), *labels]


@dataclass(frozen=True)
class GroupNode:
    """A node in its group. `parents` has the numbers of those in the sides for a join, in the group for others."""

    number: int
    parents: tuple[int, ...]
    predicates: PredicateSet
    timely: bool


@dataclass(frozen=True)
class JoinGroups:
    """All groups, lower levels first, and where each select finds its rows: the group, the node and the legs."""

    groups: tuple[JoinGroup, ...]
    results: Mapping[str, tuple[JoinGroup, Result]]
    #: By number in the network: the group of each node, and its number in the group.
    homes: Mapping[int, JoinGroup]
    numbers: Mapping[int, int]


def join_groups_of(network: Network) -> JoinGroups:
    numbers = _numbers_by_content(network)
    groups: dict[LogId, JoinGroup] = {}
    homes: dict[int, JoinGroup] = {}
    for node in network.nodes.values():
        group = homes[node.number] = _home(node, homes, groups)
        parents = tuple(numbers[parent] for parent in node.parents)
        number = numbers[node.number]
        group.nodes[number] = GroupNode(number, parents, node.predicates, node.timely)
    results = {
        place: (homes[result.node], Result(numbers[result.node], result.legs))
        for place, result in network.results.items()
    }
    ordered = sorted(groups.values(), key=lambda each: (each.level, each.name))
    return JoinGroups(tuple(ordered), results, homes, numbers)


def _numbers_by_content(network: Network) -> Mapping[int, int]:
    """A number for each node that says what its rows are: the same in every plan, and after every restart."""
    contents: dict[int, bytes] = {}
    for node in network.nodes.values():
        digest = blake2b(digest_size=7)
        described = (*node.legs, node.predicates.text, str(node.timely), str(len(node.parents)))
        for part in (*(text.encode() for text in described), *(contents[parent] for parent in node.parents)):
            digest.update(len(part).to_bytes(4, "big") + part)
        contents[node.number] = digest.digest()
    return {number: int.from_bytes(content, "big") for number, content in contents.items()}


def _home(node: Node, homes: Mapping[int, JoinGroup], groups: dict[LogId, JoinGroup]) -> JoinGroup:
    if node.is_base:
        return groups.setdefault(node.legs[0], JoinGroup(node.legs[0], node.legs))
    if not node.is_join:
        return homes[node.parents[0]]
    left, right = homes[node.parents[0]], homes[node.parents[1]]
    keys = tuple(_keys(node.predicates, len(left.legs)))
    on = ", ".join(key.text for key in keys) or "time"
    name = LogId(LogKind.JOINED, f"({left.name}) ({right.name}) on {on}")
    if name not in groups:
        groups[name] = JoinGroup(name, node.legs, (left, right), keys)
        for side in {left.name: left, right.name: right}.values():
            side.above.append(groups[name])
    return groups[name]


def _keys(predicates: PredicateSet, left_legs: int) -> Iterator[JoinKey]:
    left_names = frozenset(f"T{leg + 1}" for leg in range(left_legs))
    for each in predicates.disjunctions:
        if len(each.literals) != 1 or each.literals[0].operator != "=":
            continue
        compared = expression_of(each.literals[0])
        if not isinstance(compared, Call) or compared.op != "=" or compared.args[0].type != compared.args[1].type:
            continue
        for left, right in (compared.args, compared.args[::-1]):
            read = sources_of(left), sources_of(right)
            if all(read) and read[0] <= left_names and not read[1] & left_names:
                yield JoinKey(each.text, left, right)


def hash_of(keys: Sequence[str]) -> str:
    """The values of keys as one number, in SQL; NULL if one of them is. Equal values have equal numbers."""
    present = " AND ".join(f"{key} IS NOT NULL" for key in keys)
    return f"CASE WHEN {present} THEN xxhash64({', '.join(keys)}) END"


def demands(group: JoinGroup, number: int) -> tuple[Disjunction, ...]:
    """All that the node of a log demands: its own predicates and those of the nodes below it."""
    member = group.nodes[number]
    below = demands(group, member.parents[0]) if member.parents else ()
    return (*below, *member.predicates.disjunctions)


@dataclass(frozen=True)
class Use:
    """A select that needs the rows of a node in a group: the group's leg i is its input `inputs[i]`."""

    select: Select
    inputs: tuple[int, ...]
    #: The first cycle whose rows the select sees.
    first: int
    bounds: Bounds

    @property
    def awaited(self) -> tuple[tuple[int, Input], ...]:
        """The other inputs of the select, by number, as far as they flow: rows of theirs are still to meet these."""
        return tuple(
            (number, each)
            for number, each in enumerate(self.select.inputs)
            if number not in self.inputs and not isinstance(each.source, Table)
        )


def uses_below(group: JoinGroup, node: int, use: Use) -> Iterator[tuple[JoinGroup, int, Use]]:
    """A use of a node, and what follows from it for the nodes that it is made of."""
    yield group, node, use
    member = group.nodes[node]
    if len(member.parents) == 1:
        yield from uses_below(group, member.parents[0], use)
    elif group.sides:
        for side, parent, first_leg in zip(group.sides, member.parents, group.first_legs, strict=True):
            inputs = use.inputs[first_leg : first_leg + len(side.legs)]
            yield from uses_below(side, parent, Use(use.select, inputs, use.first, use.bounds))


def reach_of(uses: Iterable[Use]) -> dict[Source, int | None]:
    """How much newer than a row what it meets can be, by what that is read from; None if there is no limit.

    The clock of a row is the largest of its legs', and what it meets must meet all of them.
    """
    reach: dict[Source, int | None] = {}
    for use in uses:
        for other, item in use.awaited:
            limits = [use.bounds[own][other] for own in use.inputs]
            nearest = min((limit for limit in limits if limit is not None), default=None)
            known = reach.get(item.source, nearest)
            reach[item.source] = None if nearest is None or known is None else max(known, nearest)
    return reach


def needed_since(reach: Mapping[Source, int | None], event_time: EventTime) -> Clock:
    """The least clock of a row that is still needed: some row that is on time could meet it. None if all are."""
    least: list[int] = []
    for source, ticks in reach.items():
        watermark = event_time.watermark(source)
        if watermark is None or ticks is None:
            return None
        least.append(watermark - ticks)
    return min(least, default=None)


@dataclass(frozen=True)
class Band:
    """The right leg's clock less the left leg's clock lies between `low` and `high` in every row that is needed."""

    left: int
    right: int
    low: int
    high: int

    @property
    def width(self) -> int:
        return self.high - self.low + 1

    def ahead(self, side: int) -> tuple[int, int]:
        """How much the clock of a row of a side can be ahead of that of a row of the other: at least, and at most."""
        return (self.low, self.high) if side == 1 else (-self.high, -self.low)


def band_between(left: int, right: int, uses: Sequence[Use]) -> Band | None:
    """The narrowest band that two legs of all needed rows lie in; None if there is none."""
    highs = [use.bounds[use.inputs[left]][use.inputs[right]] for use in uses]
    lows = [use.bounds[use.inputs[right]][use.inputs[left]] for use in uses]
    if None in highs or None in lows or not uses:
        return None
    low, high = -max(each for each in lows if each is not None), max(h for h in highs if h is not None)
    return Band(left, right, low, max(low, high))
