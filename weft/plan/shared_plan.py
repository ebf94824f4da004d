"""The shared plan: an immutable graph of nodes, in which every decision of the optimizer is.

The runtime runs it, EXPLAIN prints it, the catalog stores it. What has to happen between two cycles is the difference
between two plans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from weft.algebra import Answers, Relation
from weft.algebra.properties import leaves
from weft.plan.event_time import RunningQuery
from weft.plan.log_ids import LogKind
from weft.plan.network import Network, Result, parents_first
from weft.plan.network import Node as NetworkEntry
from weft.plan.nodes import Evaluator, KeySet, LogicalNode, NetworkNode, Node, OutputNode, ProjectNode, RelationNode

T = TypeVar("T", bound=Node)


@dataclass(frozen=True, slots=True)
class Form:
    """The relation that a query is evaluated as; with its text, if that is recorded since it is not the canonical form.

    A form that is final was decided when the query began.
    """

    relation: Relation
    shared: bool
    is_final: bool
    text: str = ""


@dataclass(frozen=True)
class SharedPlan:
    """Nodes by id, and the queries that they answer."""

    queries: Mapping[str, RunningQuery] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    #: The number that the next node of the network gets: numbers are for people, and are not used twice.
    next_number: int = 1
    #: Whether joins keep their rows with the executors, and the key sets, by stream, whose windows live there.
    joins_on_executors: bool = False
    windows_on_executors: frozenset[tuple[str, KeySet]] = frozenset()
    #: While a plan is made: the forms of queries without nodes, and relations without an evaluator.
    forms: Mapping[str, Form] = field(default_factory=dict)
    logical: Mapping[str, LogicalNode] = field(default_factory=dict)
    outputs_not_asked_for: tuple[OutputNode, ...] = field(default=(), compare=False, repr=False)
    queries_not_answered: Mapping[str, RunningQuery] = field(default_factory=dict, compare=False, repr=False)
    #: The nodes that are new or have other readers since the plan before.
    touched: frozenset[str] = field(default_factory=frozenset, compare=False, repr=False)
    #: What the rules have decided again, for the record.
    events: tuple[object, ...] = field(default=(), compare=False, repr=False)
    #: What rules keep from plan to plan to be quick. It follows from the nodes.
    indexes: object = field(default=None, compare=False, repr=False)

    def asked_for(self, queries: Mapping[str, RunningQuery]) -> Self:
        """The plan before it answers these queries."""
        # A plan that comes from the catalog has outputs alone.
        known: Mapping[str, RunningQuery | OutputNode] = self.queries or self.outputs
        gone = {
            name
            for name, each in known.items()
            if name not in queries or (each is not queries[name] and each.start != queries[name].start)
        }
        outputs = (self.nodes[f"{LogKind.ANSWERS} {name}"] for name in sorted(gone))
        lost = tuple(each for each in outputs if isinstance(each, OutputNode))
        new = {name: each for name, each in queries.items() if name not in known or name in gone}
        changes = {"outputs_not_asked_for": lost, "queries_not_answered": new, "touched": frozenset(), "events": ()}
        return self.with_fields(queries=queries, **changes)

    def with_fields(self, **changes: Any) -> Self:
        """The plan with other values of fields, but for nodes."""
        plan = replace(self, **changes)
        plan.__dict__["readers"] = self.readers
        return plan

    def with_nodes(self, made: Iterable[Node], dropped: Iterable[str] = ()) -> Self:
        """The plan with other nodes. A node that is made takes the place of one with its id."""
        nodes, touched = dict(self.nodes), set(self.touched)
        readers, copied = dict(self.readers), set[str]()
        changed = [(id_, None) for id_ in dropped] + [(each.id, each) for each in made]
        for id_, node in changed:
            before = nodes.pop(id_, None)
            if node is not None:
                nodes[id_] = node
                touched.add(id_)
            old, new = (() if each is None else dict.fromkeys(each.inputs) for each in (before, node))
            for each in (*old, *new):
                if (each in old) != (each in new):
                    if each not in copied:
                        copied.add(each)
                        readers[each] = dict(readers.get(each, {}))
                    if each in new:
                        readers[each][id_] = None
                    else:
                        del readers[each][id_]
                    touched.add(each)
        plan = replace(self, nodes=nodes, touched=frozenset(touched))
        plan.__dict__["readers"] = readers
        return plan

    def lowered(self, nodes: Mapping[str, RelationNode]) -> Self:
        """The plan with relations whose evaluator has been chosen, by id."""
        if not nodes:
            return self
        logical = {id_: node for id_, node in self.logical.items() if id_ not in nodes}
        return self.with_nodes(nodes.values()).with_fields(logical=logical)

    def of(self, kind: type[T]) -> Iterator[T]:
        """All nodes of a kind."""
        return (each for each in self.nodes.values() if isinstance(each, kind))

    @cached_property
    def readers(self) -> Mapping[str, dict[str, None]]:
        """The nodes that read each node, by id, in the order in which they came."""
        found: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            for each in node.inputs:
                found.setdefault(each, {})[node.id] = None
        return found

    def readers_of(self, id_: str) -> Collection[str]:
        return self.readers.get(id_, {}).keys()

    def in_order(self) -> Iterator[Node]:
        """All nodes, each after those that it reads, otherwise in the order of ids."""
        inputs = {id_: tuple(each for each in node.inputs if each in self.nodes) for id_, node in self.nodes.items()}
        return (self.nodes[id_] for id_ in parents_first(dict(sorted(inputs.items()))))

    # -- queries ------------------------------------------------------------------------------------------------------

    @cached_property
    def outputs(self) -> Mapping[str, OutputNode]:
        """The output of each query, by its name."""
        return {each.query: each for each in self.of(OutputNode)}

    def queries_of(self, id_: str) -> tuple[str, ...]:
        """The queries that a node answers."""
        nodes = (self.nodes[each] for each in self.readers_of(id_))
        return tuple(sorted(each.query for each in nodes if isinstance(each, OutputNode)))

    def users_of(self, id_: str) -> frozenset[str]:
        """The queries that need a node."""
        found, waiting, seen = set[str](), [id_], {id_}
        while waiting:
            node = self.nodes[waiting.pop()]
            if isinstance(node, OutputNode):
                found.add(node.query)
            above = [each for each in self.readers_of(node.id) if each not in seen]
            seen.update(above)
            waiting += above
        return frozenset(found)

    @cached_property
    def read_by_others(self) -> frozenset[str]:
        """The queries whose answers other queries read."""
        read = (leaf for each in self.queries.values() for leaf in leaves(each.query.relation))
        return frozenset(leaf.query for leaf in read if isinstance(leaf, Answers))

    # -- relations ----------------------------------------------------------------------------------------------------

    @cached_property
    def relations(self) -> tuple[RelationNode, ...]:
        """The nodes that are the rows of a relation."""
        return tuple(self.of(RelationNode))

    @cached_property
    def evaluated_by(self) -> Mapping[Evaluator, tuple[RelationNode, ...]]:
        found: dict[Evaluator, list[RelationNode]] = {each: [] for each in Evaluator}
        for each in self.relations:
            found[each.evaluator].append(each)
        return {evaluator: tuple(of) for evaluator, of in found.items()}

    @cached_property
    def network(self) -> Network:
        """The selections and joins, and where each select finds its rows."""
        entries: dict[int, NetworkEntry] = {}
        for each in self.of(NetworkNode):
            of = each.computation
            if of is not None:
                entries[of.number] = NetworkEntry(
                    of.number, of.parents, of.legs, of.predicates, each.columns, of.timely
                )
        order = parents_first({number: entries[number].parents for number in sorted(entries)})
        results = {
            each.text: Result(self.network_number(each.inputs[0]), each.legs)
            for each in self.evaluated_by[Evaluator.JOINS]
            if isinstance(each, ProjectNode)
        }
        return Network({number: entries[number] for number in order}, results)

    def network_number(self, id_: str) -> int:
        """The number of a node of the network."""
        node = self.nodes[id_]
        assert isinstance(node, NetworkNode)
        assert node.computation is not None
        return node.computation.number


@dataclass(frozen=True)
class PlanDiff:
    """What one plan has and the other has not, by id, and the nodes that are in both and have changed."""

    made: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]
    kept: int


def diff(old: SharedPlan, new: SharedPlan) -> PlanDiff:
    """What happens to nodes, and so to their state, when a plan takes the place of another."""
    both = [id_ for id_, node in new.nodes.items() if id_ in old.nodes]
    changed = [id_ for id_ in both if old.nodes[id_] is not new.nodes[id_] and old.nodes[id_] != new.nodes[id_]]
    made = (id_ for id_ in new.nodes if id_ not in old.nodes)
    dropped = (id_ for id_ in old.nodes if id_ not in new.nodes)
    return PlanDiff(tuple(sorted(made)), tuple(sorted(dropped)), tuple(sorted(changed)), len(both) - len(changed))
