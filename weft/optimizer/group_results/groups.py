"""Groups of queries with overlapping answers, as queries come and go.

    groups = Groups(statistics)
    change = groups.insert("hot", query)          # Change(changed=("g1",), moved={"hot": (None, "g1")}, …)
    groups.representative("g1").parts             # what the engine evaluates, from this epoch on
    groups.subscription("hot")                    # what cuts the answers of `hot` out of it
    groups.terminate("hot")                       # Change(ended=("g1",), …)

No disk, no clock, no chance: the same calls in the same order give the same groups, and `as_data` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.algebra import Query
from weft.optimizer.group_results.forest import Forest, Tree, remeasure, reoptimise
from weft.optimizer.group_results.forms import Form, QueryFamily, QueryKind, contains
from weft.optimizer.group_results.pricing import Policy
from weft.optimizer.group_results.query_trees import Decode, Encode, members_below, names_in, node_as_data
from weft.optimizer.group_results.representatives import (
    EvaluatedPart,
    GroupRepresentative,
    representative,
    subscription,
)
from weft.optimizer.group_results.shapes import shape_of
from weft.optimizer.group_results.traffic_estimates import Sample, TrafficStatistics
from weft.plan.subscription import Subscription


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What an insertion, a termination or a round of re-optimisation did.

    `changed` are the groups with a new representative, and so a new epoch; new groups are among them. Those of them in
    `narrowed` publish a part of what they published before: no member lacks anything if they wait. `moved` has, by
    member, the group it was in and the group it is in; None for a member that was not there before, or is not any more.
    `ended` are groups without members.
    """

    changed: tuple[str, ...] = ()
    narrowed: frozenset[str] = frozenset()
    moved: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()


@dataclass(slots=True)
class _Alone:
    """A query that can be merged with none, as a group of its own."""

    query: Query
    label: str
    hop: str


@dataclass(frozen=True, slots=True)
class _Published:
    """What a group publishes since its last epoch began: the epoch, its rows, its columns as bits."""

    epoch: int
    form: Form
    columns: int


class Groups:
    """The queries whose answers are delivered, in groups.

    `most_delay` is by how many ticks a joined row may be late (0: never), `overhead` the relative increase of
    processing that merging may cause (0.1: ten per cent). `told` says what links carry: rows with the columns of their
    takers, marked by the sender, or all that a group publishes (`pricing`).
    """

    def __init__(
        self,
        statistics: TrafficStatistics | None = None,
        *,
        most_delay: int = 0,
        overhead: float = 0.0,
        told: bool = False,
    ) -> None:
        self._policy = Policy(most_delay, overhead, told)
        self._sample = Sample(statistics or TrafficStatistics())
        self._forests: dict[tuple[QueryFamily, str], Forest] = {}
        self._where: dict[str, Forest | _Alone] = {}
        self._trees: dict[str, tuple[Forest, Tree] | _Alone] = {}
        self._published: dict[str, _Published] = {}
        self._next = 1

    # Queries come and go

    def insert(self, name: str, query: Query, hop: str = "") -> GroupChange:
        """Adds a query under a name that is not there yet. Only queries with the same first hop share a group."""
        if name in self._where:
            raise ValueError(f"{name} is in a group already: terminate it first")
        shape = shape_of(query)
        if shape is None:
            alone = _Alone(query, self._new_label(), hop)
            self._where[name] = self._trees[alone.label] = alone
            return GroupChange((alone.label,), moved={name: (None, alone.label)})
        forest = self._forest(shape.family, hop)
        tree = forest.insert(forest.prices.member(name, shape))
        self._where[name] = forest
        changed, narrowed = self._settled(forest, [tree])
        return GroupChange(changed, narrowed, moved={name: (None, tree.label)})

    def terminate(self, name: str) -> GroupChange:
        place = self._where.pop(name)
        if isinstance(place, _Alone):
            del self._trees[place.label]
            return GroupChange(moved={name: (place.label, None)}, ended=(place.label,))
        tree, has_ended = place.terminate(name)
        moved: dict[str, tuple[str | None, str | None]] = {name: (tree.label, None)}
        if has_ended:
            self._end(tree.label)
            return GroupChange(moved=moved, ended=(tree.label,))
        changed, narrowed = self._settled(place, [tree])
        return GroupChange(changed, narrowed, moved)

    def reoptimise(self, statistics: TrafficStatistics | None = None) -> GroupChange:
        """Regroups what does not pay any more, by what is known now.

        A group keeps its name as long as one of its parts stays together; members that go elsewhere have moved. One
        that has joined another has ended.
        """
        forests = list(self._forests.values())
        before = {
            name: forest.tree_of(member.node).label for forest in forests for name, member in forest.members.items()
        }
        if statistics is not None:
            self._sample = Sample(statistics)
            for forest in forests:
                remeasure(forest, self._sample)
        reoptimise(forests)
        changed: list[str] = []
        narrowed: set[str] = set()
        for forest in forests:
            new, less = self._settled(forest, forest.trees)
            changed += new
            narrowed |= less
        after = {name: self.group_of(name) for name in before}
        moved: dict[str, tuple[str | None, str | None]] = {
            name: (before[name], group) for name, group in after.items() if before[name] != group
        }
        ended = tuple(sorted(set(before.values()) - set(after.values())))
        for label in ended:
            self._end(label)
        return GroupChange(tuple(changed), frozenset(narrowed), moved, ended)

    def _forest(self, family: QueryFamily, hop: str) -> Forest:
        forest = self._forests.get((family, hop))
        if forest is None:
            forest = self._forests[family, hop] = Forest(family, self._policy, self._sample, hop)
        return forest

    def _new_label(self) -> str:
        label = f"g{self._next}"
        self._next += 1
        return label

    def _end(self, label: str) -> None:
        del self._trees[label]
        del self._published[label]

    def _settled(self, forest: Forest, trees: Iterable[Tree]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Names trees that are new. Returns those that answer or publish anything else than before."""
        changed, narrowed = [], []
        for tree in trees:
            if not tree.label:
                tree.label = self._new_label()
                self._trees[tree.label] = forest, tree
            before = self._published.get(tree.label)
            form, columns = tree.root.form, tree.root.sums.columns
            if before is not None and before.columns == columns and _are_equal(before.form, form):
                continue
            is_less = (
                before is not None
                and columns & ~before.columns == 0
                and contains(form, before.form, self._policy.most_delay)
            )
            narrowed += [tree.label] if is_less else []
            self._published[tree.label] = _Published(1 if before is None else before.epoch + 1, form, columns)
            changed.append(tree.label)
        return tuple(changed), frozenset(narrowed)

    # Members and representatives

    def names(self) -> tuple[str, ...]:
        return tuple(self._trees)

    def members(self, group: str) -> tuple[str, ...]:
        place = self._trees[group]
        if isinstance(place, _Alone):
            return tuple(name for name, other in self._where.items() if other is place)
        return tuple(each.name for each in members_below(place[1].root) if each.name)

    def group_of(self, member: str) -> str:
        place = self._where[member]
        return place.label if isinstance(place, _Alone) else place.tree_of(place.members[member].node).label

    def representative(self, group: str) -> GroupRepresentative:
        """What a group evaluates and publishes now."""
        place = self._trees[group]
        if isinstance(place, _Alone):
            return _alone(group, place.query)
        forest, tree = place
        published = self._published[group]
        columns = forest.prices.named_columns(published.columns)
        return representative(group, published.epoch, forest.family, tree.root.form, columns, forest.prices.aggregates)

    def subscription(self, member: str) -> Subscription:
        """What cuts a query's answers out of its group's rows."""
        place = self._where[member]
        if isinstance(place, _Alone):
            names = _unique([field.name for field in place.query.relation.fields])
            shown = (field.name for field in place.query.relation.fields)
            return Subscription(place.label, tuple(zip(shown, names, strict=True)))
        found = place.members[member]
        tree = place.tree_of(found.node)
        return subscription(tree.label, found.shape, found.wanted)

    def benefit(self, group: str) -> float:
        """What a group saves on its first hop: bytes per tick that are not sent, times how far they would have gone."""
        place = self._trees[group]
        if isinstance(place, _Alone):
            return 0.0
        forest, tree = place
        apart = sum(self.traffic_alone(each.name) for each in members_below(tree.root) if each.name)
        return (apart - forest.cost(tree.root)) * forest.latency

    def traffic(self, members: Sequence[str]) -> float:
        """Bytes per tick that some members of one group need together: what a link with them behind it carries."""
        place = self._where[members[0]]
        return 0.0 if isinstance(place, _Alone) else place.traffic(members)

    def traffic_alone(self, member: str) -> float:
        """Bytes per tick of a query's answers, if they are sent alone."""
        place = self._where[member]
        return 0.0 if isinstance(place, _Alone) else place.prices.traffic_alone(place.members[member])

    # Keeping groups

    @property
    def next_number(self) -> int:
        """The number of the next group: none is used twice."""
        return self._next

    def as_data(self, encode: Encode) -> dict[str, Any]:
        """All groups as plain data, without the queries of their members; `encode` writes conditions."""
        return {"next": self._next, "groups": {label: self.group_as_data(label, encode) for label in self._trees}}

    def group_as_data(self, group: str, encode: Encode) -> dict[str, Any]:
        place = self._trees[group]
        if isinstance(place, _Alone):
            return {"alone": self.members(group)[0], "hop": place.hop}
        forest, tree = place
        return {"epoch": self._published[group].epoch, "hop": forest.hop, "tree": node_as_data(tree.root, encode)}

    @classmethod
    def from_data(
        cls,
        data: Mapping[str, Any],
        queries: Mapping[str, Query],
        decode: Decode,
        statistics: TrafficStatistics | None = None,
        *,
        most_delay: int = 0,
        overhead: float = 0.0,
        told: bool = False,
    ) -> Groups:
        """The groups that `as_data` wrote down: the same names, epochs, members and representatives."""
        groups = cls(statistics, most_delay=most_delay, overhead=overhead, told=told)
        for label, document in data["groups"].items():
            groups._restore(label, document, queries, decode)
        groups._next = data["next"]
        return groups

    def _restore(self, label: str, document: Mapping[str, Any], queries: Mapping[str, Query], decode: Decode) -> None:
        hop = document["hop"]
        if "alone" in document:
            name = document["alone"]
            self._where[name] = self._trees[label] = _Alone(queries[name], label, hop)
            return
        names = list(names_in(document["tree"]))
        shapes = {name: shape_of(queries[name]) for name in names}
        families = {shape.family for shape in shapes.values() if shape is not None}
        if len(families) != 1 or None in shapes.values():
            raise ValueError(f"the queries of group {label} are not what they were: {', '.join(names)}")
        forest = self._forest(families.pop(), hop)
        members = {name: forest.prices.member(name, shape) for name, shape in shapes.items() if shape is not None}
        for name, member in members.items():
            forest.keep(member)
            self._where[name] = forest
        tree = forest.plant(forest.restored(document["tree"], members, decode))
        tree.label = label
        self._trees[label] = forest, tree
        self._published[label] = _Published(document["epoch"], tree.root.form, tree.root.sums.columns)


def _are_equal(left: Form, right: Form) -> bool:
    return left is right or (
        left.windows == right.windows
        and left.ends == right.ends
        and len(left.regions) == len(right.regions)
        and all(any(each.box == other.box for other in right.regions) for each in left.regions)
    )


def _alone(group: str, query: Query) -> GroupRepresentative:
    """A query as the representative of a group of its own."""
    names = _unique([field.name for field in query.relation.fields])
    part = EvaluatedPart(Query(f"{group}_1", query.relation, query.clock, query.text, query.sharing))
    return GroupRepresentative(group, 1, QueryKind.ALONE, (part,), names)


def _unique(names: list[str]) -> tuple[str, ...]:
    """Names of published columns; those that occur twice get their position as well."""
    return tuple(name if names.count(name) == 1 else f"{name}#{place}" for place, name in enumerate(names))
