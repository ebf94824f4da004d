"""Has all aggregates over a stream share one reduction of its rows to partials.

A reduction goes by the keys, the conditions and the slices of all that read it. Windows that close are answered by
window trees over it; groups that never close read it directly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.algebra import Select, Stream
from weft.optimizer.aggregates.stream_shapes import NotWoven, Woven
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import scan_id, stream_shape
from weft.plan.facts import StreamFacts
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import (
    Evaluator,
    GroupNode,
    LogicalNode,
    Node,
    ProjectNode,
    ReduceNode,
    RelationNode,
    ScanNode,
    WindowTreeNode,
)
from weft.plan.shared_plan import SharedPlan


def reduce_id(stream: str) -> str:
    """The id of a stream's reduction: partials serve any plan, so its state stays whatever its readers want."""
    return f"{ReduceNode.kind} {LogId(LogKind.STREAM, stream)}"


def share_reductions(plan: SharedPlan, facts: Facts) -> SharedPlan:
    lowered: dict[str, RelationNode] = {}
    new: dict[str, list[Woven]] = {}
    for id_, node in plan.logical.items():
        shape = _shape(node, facts)
        if shape is not None:
            kind = GroupNode if shape.is_running else ProjectNode
            inputs = (reduce_id(shape.stream),)
            lowered[id_] = kind(node.node_id, node.relation, node.start, inputs, Evaluator.WINDOWS)
            new.setdefault(shape.stream, []).append(shape)
    made: dict[str, Node] = dict(lowered)
    for stream in sorted(new.keys() | _that_lost_readers(plan)):
        known = plan.nodes.get(reduce_id(stream))
        if stream in new and isinstance(known, ReduceNode) and stream not in _that_lost_readers(plan):
            made[known.id] = _with(known, new[stream])
        else:
            left = [stream_shape(each) for each in readers_over(plan, stream)]
            if left or stream in new:
                known_facts = known.facts if isinstance(known, ReduceNode) else facts.streams.get(stream, StreamFacts())
                empty = ReduceNode(
                    reduce_id(stream), (scan_id(LogId(LogKind.STREAM, stream)),), (), (), (), (), False, known_facts
                )
                made[empty.id] = _with(empty, [*left, *new.get(stream, ())])
        if scan_id(LogId(LogKind.STREAM, stream)) not in plan.nodes:
            log = LogId(LogKind.STREAM, stream)
            made[scan_id(log)] = ScanNode(scan_id(log), (), None, log=log)
    if not made:
        return plan
    logical = {id_: node for id_, node in plan.logical.items() if id_ not in lowered}
    return plan.with_nodes(made.values()).with_fields(logical=logical)


def _shape(node: LogicalNode, facts: Facts) -> Woven | None:
    """What a relation needs of a stream's partials; None if it is not answered from them."""
    relation = node.relation
    if not (node.node_id.is_shared and facts.leaves_to(Evaluator.WINDOWS, node.node_id.text)):
        return None
    if not isinstance(relation, Select) or not relation.is_grouped or len(relation.inputs) > 1:
        return None
    if not isinstance(relation.inputs[0].source, Stream):
        return None
    try:
        return stream_shape(node)
    except NotWoven:
        return None


def _that_lost_readers(plan: SharedPlan) -> frozenset[str]:
    """The streams over which there is less than before to be answered from partials."""
    if not plan.outputs_not_asked_for:
        return frozenset()
    touched = (plan.nodes.get(each) for each in plan.touched)
    logs = {
        LogId.parse(each.id.removeprefix(f"{ReduceNode.kind} ")) for each in touched if isinstance(each, ReduceNode)
    }
    trees = (plan.nodes.get(each) for each in plan.touched)
    logs |= {each.log for each in trees if isinstance(each, WindowTreeNode)}
    return frozenset(log.of for log in logs if log.kind is LogKind.STREAM)


def readers_over(plan: SharedPlan, stream: str) -> Iterable[RelationNode]:
    """The relations that are answered from the partials of a stream."""
    for id_ in plan.readers_of(reduce_id(stream)):
        node = plan.nodes[id_]
        above = plan.readers_of(id_) if isinstance(node, WindowTreeNode) else (id_,)
        yield from (each for each in map(plan.nodes.__getitem__, above) if isinstance(each, RelationNode))


def _with(node: ReduceNode, shapes: Iterable[Woven]) -> ReduceNode:
    """A reduction that more aggregates can read."""
    keys, sets, windows, aggregates = (
        list(node.keys),
        list(node.predicate_sets),
        list(node.windows),
        list(node.aggregates),
    )
    tells_least = node.tells_least
    for shape in shapes:
        keys += shape.keys
        sets.append(shape.conditions)
        windows += () if shape.is_running else (shape.window,)
        aggregates += (text for measure in shape.all_measures for text in measure.texts)
        tells_least |= shape.select.emit_empty
    return replace(
        node,
        keys=tuple(dict.fromkeys(keys)),
        predicate_sets=tuple(dict.fromkeys(sets)),
        windows=tuple(dict.fromkeys(windows)),
        aggregates=tuple(dict.fromkeys(aggregates)),
        tells_least=tells_least,
    )
