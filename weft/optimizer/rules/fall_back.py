"""Leaves to Spark what nothing else evaluates, each relation by a plan of its own, and notes why."""

from __future__ import annotations

from weft.algebra import Relation, Select, Stream
from weft.optimizer.aggregates.stream_shapes import NotWoven
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import row_shape, scan_id, scan_inputs, stream_shape
from weft.plan.nodes import Decision, Evaluator, LogicalNode, RelationNode, ScanNode, SparkSelectNode
from weft.plan.shared_plan import SharedPlan


def fall_back(plan: SharedPlan, facts: Facts) -> SharedPlan:
    lowered: dict[str, RelationNode] = {}
    scans: dict[str, ScanNode] = {}
    for id_, node in plan.logical.items():
        inputs = tuple(log if scan_inputs(log) else scan_id(log) for log in node.logs)
        decision = Decision("fall_back", reason(node))
        lowered[id_] = SparkSelectNode(node.node_id, node.relation, node.start, inputs, Evaluator.SQL, decision)
        for log in node.logs:
            if not scan_inputs(log) and scan_id(log) not in plan.nodes:
                scans[scan_id(log)] = ScanNode(scan_id(log), (), None, log=log)
    return plan.with_nodes(scans.values()).lowered(lowered) if scans else plan.lowered(lowered)


def reason(node: LogicalNode) -> str:
    """Why Spark evaluates a relation."""
    relation: Relation = node.relation
    if not node.node_id.is_shared:
        return "it shares nothing"
    assert isinstance(relation, Select)
    if not relation.is_grouped:
        return "its rows come out when their windows close"
    try:
        if isinstance(relation.inputs[0].source, Stream):
            stream_shape(node)
        else:
            row_shape(node)
    except NotWoven as error:
        return str(error)
    return "it began like this"
