"""What the rules keep from plan to plan to be quick. It follows from the nodes, and is made from them if need be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TypeVar

from weft.algebra import Select
from weft.optimizer.aggregates.row_shapes import RowAggregate, row_aggregate
from weft.optimizer.aggregates.stream_shapes import Woven, woven
from weft.optimizer.network.nodes import Entry
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.redeciding import Redeciding
from weft.optimizer.rules.facts import Facts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import Computation, FoundRows, Result, parents_first
from weft.plan.nodes import FilterNode, JoinNode, NetworkNode, Node, ProjectNode, RelationNode, ScanNode
from weft.plan.shared_plan import SharedPlan

Shape = TypeVar("Shape")


@dataclass
class Indexes:
    """The planner of the network, with the ids of its nodes by number."""

    planner: Planner
    ids: dict[int, str] = field(default_factory=dict)
    redeciding: Redeciding | None = None
    #: The nodes of the plan that this is about.
    nodes: Mapping[str, Node] | None = None


def indexes_of(plan: SharedPlan, facts: Facts) -> Indexes:
    """The indexes of a finished plan. They become those of the plan that is made of it."""
    known = plan.indexes
    is_current = isinstance(known, Indexes) and known.nodes is plan.nodes and known.planner.statistics is facts.sizes
    return known if is_current and isinstance(known, Indexes) else restored(plan, facts)


def indexes_within(plan: SharedPlan) -> Indexes:
    """The indexes of a plan while it is made."""
    assert isinstance(plan.indexes, Indexes)
    return plan.indexes


def restored(plan: SharedPlan, facts: Facts) -> Indexes:
    """The indexes of a plan, made from its nodes."""
    planner = Planner(facts.sizes)
    ids: dict[int, str] = {}
    computations: dict[int, Computation] = {}
    for each in plan.of(NetworkNode):
        if each.computation is not None:
            number = each.computation.number
            ids[number], computations[number] = each.id, each.computation
    order = parents_first({number: computations[number].parents for number in sorted(computations)})
    selects = {
        each.text: FoundRows(Result(plan.network_number(each.inputs[0]), each.legs), each.columns)
        for each in plan.of(ProjectNode)
        if each.legs
    }
    planner.nodes.restore((computations[number] for number in order), selects, plan.next_number)
    return Indexes(planner, ids)


# -- the network as nodes ---------------------------------------------------------------------------------------------


def with_network(plan: SharedPlan, indexes: Indexes, selects: Mapping[str, ProjectNode]) -> SharedPlan:
    """The plan with the selections and joins that its selects need by now; `selects` are new, by the text of their id.

    What follows from the node of an input follows from it at all levels above: ids, and where selects find their rows.
    """
    entries, ids = indexes.planner.nodes, indexes.ids
    changed, removed, places = entries.take_changes()
    dropped = {ids.pop(number) for number in removed if number in ids}
    made: dict[str, Node] = {}
    for number in _with_those_above(changed, entries.entries):
        entry = entries[number]
        id_ = _id_of(entry, ids)
        before = ids.get(number)
        if before is not None and before != id_:
            dropped.add(before)
        ids[number] = id_
        made[id_] = _node_of(entry, id_, ids, plan.joins_on_executors)
        places |= entry.places
    for place in sorted(places):
        found = entries.found.get(place)
        if found is not None:
            known = selects.get(place) or plan.nodes[LogId(LogKind.ROWS, place)]
            assert isinstance(known, ProjectNode)
            select = _reading(known, found, ids)
            made[select.id] = select
    gone = []
    for id_ in sorted(dropped - made.keys()):
        scan = plan.nodes[id_]
        read = [each for each in plan.readers_of(id_) if not isinstance(plan.nodes[each], NetworkNode | ProjectNode)]
        if isinstance(scan, ScanNode) and read:
            # A reduction reads the log as well.
            made[id_] = replace(scan, computation=None, columns=())
        else:
            gone.append(id_)
    return plan.with_nodes(made.values(), gone).with_fields(indexes=indexes, next_number=entries.next_number)


def _with_those_above(numbers: Iterable[int], entries: Mapping[int, Entry]) -> Iterable[int]:
    """Some nodes of the network and all above them, each after its parents."""
    found, waiting = set(numbers), list(numbers)
    while waiting:
        above = entries[waiting.pop()].children - found
        found |= above
        waiting += above
    parents = {number: tuple(each for each in entries[number].parents if each in found) for number in sorted(found)}
    return parents_first(parents)


def _id_of(entry: Entry, ids: Mapping[int, str]) -> str:
    if not entry.parents:
        return scan_id(entry.legs[0])
    digest = blake2b(digest_size=7)
    described = (*entry.legs, entry.predicates.text, str(entry.timely), *(ids[each] for each in entry.parents))
    for part in described:
        digest.update(len(part).to_bytes(4, "big") + part.encode())
    return f"{FilterNode.kind if len(entry.parents) == 1 else JoinNode.kind} {digest.hexdigest()}"


def scan_id(log: str) -> str:
    return f"{ScanNode.kind} {log}"


def scan_inputs(log: LogId) -> tuple[str, ...]:
    """The node that gives the rows of a log, if one does."""
    return () if log.kind in (LogKind.STREAM, LogKind.TABLE) else (log,)


def _node_of(entry: Entry, id_: str, ids: Mapping[int, str], away: bool) -> NetworkNode:
    computation = Computation(
        entry.number, entry.parents, entry.legs, entry.predicates, entry.timely, entry.level,
        entry.anchor, entry.selected, entry.join_anchors, entry.joined, entry.rows,
    )  # fmt: skip
    columns, inputs = tuple(sorted(entry.columns)), tuple(ids[each] for each in entry.parents)
    if not inputs:
        return ScanNode(id_, scan_inputs(entry.legs[0]), computation, columns, away, entry.legs[0])
    return (FilterNode if len(inputs) == 1 else JoinNode)(id_, inputs, computation, columns, away)


def _reading(select: ProjectNode, found: FoundRows, ids: Mapping[int, str]) -> ProjectNode:
    return ProjectNode(
        select.node_id, select.relation, select.start, (ids[found.result.node],), select.evaluator,
        found.result.legs, found.columns,
    )  # fmt: skip


# -- aggregates -------------------------------------------------------------------------------------------------------


#: The shapes of aggregates by the text of their ids, which says what they are of.
_STREAM_SHAPES: dict[str, Woven] = {}
_ROW_SHAPES: dict[str, RowAggregate] = {}
_MOST_SHAPES = 100_000


def stream_shape(node: RelationNode) -> Woven:
    """What an aggregate needs of the rows of a stream. Raises NotWoven."""
    found = _STREAM_SHAPES.get(node.text)
    if found is None:
        found = woven(node.relation)
        _note(_STREAM_SHAPES, node, found)
    return found


def row_shape(node: RelationNode) -> RowAggregate:
    """What an aggregate needs of the rows of a log. Raises NotWoven."""
    found = _ROW_SHAPES.get(node.text)
    if found is None:
        assert isinstance(node.relation, Select)
        found = row_aggregate(node.relation, node.logs[0], node.start.first)
        _note(_ROW_SHAPES, node, found)
    return found


def _note(shapes: dict[str, Shape], node: RelationNode, shape: Shape) -> None:
    if node.node_id.is_shared:
        if len(shapes) >= _MOST_SHAPES:
            shapes.clear()
        shapes[node.text] = shape
