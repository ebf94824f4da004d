"""Groups of queries with overlapping answers, as queries come and go.

    groups = Groups(statistics)
    change = groups.insert("hot", query)          # Change(changed=("g1",), moved={"hot": (None, "g1")}, …)
    groups.representative("g1").parts             # what the engine evaluates, from this epoch on
    groups.subscription("hot")                    # what cuts the answers of `hot` out of it
    groups.terminate("hot")                       # Change(ended=("g1",), …)

No disk, no clock, no chance: the same calls in the same order give the same groups.

Groups are kept as plain data, with members by name: their queries are kept elsewhere. Of a derived node the form is
kept, since it may depend on what was known, and on which members there were, when it was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.algebra import Query
from weft.optimizer.group_results.forest import Forest, Tree, remeasure, reoptimise
from weft.optimizer.group_results.forms import Decode, Encode, Form, QueryFamily, QueryKind, form_as_data
from weft.optimizer.group_results.pricing import Policy, TreeNode, members_below
from weft.optimizer.group_results.representatives import EvaluatedPart, GroupRepresentative, representative
from weft.optimizer.group_results.shapes import shape_of
from weft.optimizer.group_results.traffic_estimates import Sample, TrafficStatistics
from weft.plan.subscription import Subscription


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What an insertion, a termination or a round of re-optimisation did.

    `changed` are the groups with a new representative, and so a new epoch, new groups among them. Those in `narrowed`
    publish a part of what they published before: no member lacks anything if they wait. `moved` has, by member, the
    group it was in and the group it is in; None for a member that is new, or gone. `ended` are groups without members.
    """

    changed: tuple[str, ...] = ()
    narrowed: frozenset[str] = frozenset()
    moved: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    ended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Alone:
    """A query that can be merged with none, as a group of its own."""

    name: str
    label: str
    hop: str
    representative: GroupRepresentative
    subscription: Subscription


def _alone(name: str, query: Query, label: str, hop: str) -> _Alone:
    shown = [field.name for field in query.relation.fields]
    # Names that occur twice get their position as well.
    columns = tuple(each if shown.count(each) == 1 else f"{each}#{place}" for place, each in enumerate(shown))
    part = EvaluatedPart(replace(query, name=f"{label}_1", sink=None))
    subscription = Subscription(label, tuple(zip(shown, columns, strict=True)))
    return _Alone(name, label, hop, GroupRepresentative(label, 1, QueryKind.ALONE, (part,), columns), subscription)


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
        self._groups: dict[str, Tree | _Alone] = {}
        self._next = 1

    # Queries come and go

    def insert(self, name: str, query: Query, hop: str = "") -> GroupChange:
        """Adds a query under a name that is not there yet. Only queries with the same first hop share a group."""
        if name in self._where:
            raise ValueError(f"{name} is in a group already: terminate it first")
        shape = shape_of(query)
        if shape is None:
            label = self._new_label()
            self._where[name] = self._groups[label] = _alone(name, query, label, hop)
            return GroupChange((label,), moved={name: (None, label)})
        forest = self._forest(shape.family, hop)
        tree = forest.insert(forest.prices.member(name, shape))
        self._where[name] = forest
        changed, narrowed = self._settled([tree])
        return GroupChange(changed, narrowed, moved={name: (None, tree.label)})

    def terminate(self, name: str) -> GroupChange:
        place = self._where.pop(name)
        if isinstance(place, _Alone):
            del self._groups[place.label]
            return GroupChange(moved={name: (place.label, None)}, ended=(place.label,))
        tree, has_ended = place.terminate(name)
        moved: dict[str, tuple[str | None, str | None]] = {name: (tree.label, None)}
        if has_ended:
            del self._groups[tree.label]
            return GroupChange(moved=moved, ended=(tree.label,))
        changed, narrowed = self._settled([tree])
        return GroupChange(changed, narrowed, moved)

    def reoptimise(self, statistics: TrafficStatistics | None = None) -> GroupChange:
        """Regroups what does not pay any more, by what is known now.

        A group keeps its name as long as one of its parts stays together; one that has joined another has ended.
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
            new, less = self._settled(forest.trees)
            changed += new
            narrowed |= less
        after = {name: self.group_of(name) for name in before}
        moved: dict[str, tuple[str | None, str | None]] = {
            name: (before[name], group) for name, group in after.items() if before[name] != group
        }
        ended = tuple(sorted(set(before.values()) - set(after.values())))
        for label in ended:
            del self._groups[label]
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

    def _settled(self, trees: Iterable[Tree]) -> tuple[tuple[str, ...], frozenset[str]]:
        """Names trees that are new. Returns those that answer or publish anything else than before."""
        changed, narrowed = [], []
        for tree in trees:
            if not tree.label:
                tree.label = self._new_label()
                self._groups[tree.label] = tree
            before, form, columns = tree.form, tree.root.form, tree.root.sums.columns
            if before is not None and tree.columns == columns and _are_equal(before, form):
                continue
            if before is not None and columns & ~tree.columns == 0 and tree.forest.prices.contains(form, before):
                narrowed.append(tree.label)
            tree.begin(tree.epoch + 1)
            changed.append(tree.label)
        return tuple(changed), frozenset(narrowed)

    # Members and representatives

    def names(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def members(self, group: str) -> tuple[str, ...]:
        place = self._groups[group]
        if isinstance(place, _Alone):
            return (place.name,)
        return tuple(each.name for each in members_below(place.root) if each.name)

    def group_of(self, member: str) -> str:
        place = self._where[member]
        return place.label if isinstance(place, _Alone) else place.tree_of(place.members[member].node).label

    def representative(self, group: str) -> GroupRepresentative:
        """What a group evaluates and publishes now."""
        place = self._groups[group]
        if isinstance(place, _Alone):
            return place.representative
        prices = place.forest.prices
        columns = prices.named_columns(place.columns)
        return representative(group, place.epoch, prices.family, place.root.form, columns, prices.aggregates)

    def subscription(self, member: str) -> Subscription:
        """What cuts a query's answers out of its group's rows."""
        place = self._where[member]
        if isinstance(place, _Alone):
            return place.subscription
        found = place.members[member]
        return replace(found.subscription, stream=place.tree_of(found.node).label)

    # Keeping groups

    @property
    def next_number(self) -> int:
        """The number of the next group: none is used twice."""
        return self._next

    def group_as_data(self, group: str, encode: Encode) -> dict[str, Any]:
        place = self._groups[group]
        if isinstance(place, _Alone):
            return {"members": [place.name], "hop": place.hop}
        tree = node_as_data(place.root, encode)
        return {"members": self.members(group), "hop": place.forest.hop, "epoch": place.epoch, "tree": tree}

    def restore(self, data: Mapping[str, Any], queries: Mapping[str, Query], decode: Decode) -> None:
        """Take over groups that were kept: the same names, epochs, members and representatives."""
        self._next = data["next"]
        for label, document in data["groups"].items():
            names, hop = document["members"], document["hop"]
            if "tree" not in document:
                (name,) = names
                self._where[name] = self._groups[label] = _alone(name, queries[name], label, hop)
                continue
            shapes = {name: shape for name in names if (shape := shape_of(queries[name])) is not None}
            families = {shape.family for shape in shapes.values()}
            if len(families) != 1 or len(shapes) < len(names):
                raise ValueError(f"the queries of group {label} are not what they were: {', '.join(names)}")
            forest = self._forest(families.pop(), hop)
            members = {name: forest.prices.member(name, shape) for name, shape in shapes.items()}
            forest.members.update(members)
            self._where.update(dict.fromkeys(names, forest))
            tree = self._groups[label] = forest.plant(forest.restored(document["tree"], members, decode))
            tree.label = label
            tree.begin(document["epoch"])


def _are_equal(left: Form, right: Form) -> bool:
    return left is right or (
        left.windows == right.windows
        and left.ends == right.ends
        and len(left.regions) == len(right.regions)
        and all(any(each.box == other.box for other in right.regions) for each in left.regions)
    )


def node_as_data(node: TreeNode, encode: Encode) -> dict[str, Any]:
    document: dict[str, Any] = (
        {"name": node.name} if node.name is not None else {"form": form_as_data(node.form, encode)}
    )
    if node.is_flagged:
        document["flagged"] = True
    if node.children:
        document["children"] = [node_as_data(child, encode) for child in node.children]
    return document
