"""Has DISTINCT over history and set operators remember their values in the driver.

A select that shows some columns of a set operator's rows, and does nothing else, takes them from there.
"""

from __future__ import annotations

from weft.algebra import Column, Relation, Select, SetOperation
from weft.optimizer.rules.facts import Facts
from weft.plan.nodes import DistinctNode, Evaluator, LogicalNode, ProjectNode, RelationNode, SetOperationNode
from weft.plan.shared_plan import SharedPlan


def keep_sets(plan: SharedPlan, facts: Facts) -> SharedPlan:
    lowered = {}
    for id_, node in plan.logical.items():
        kind = _kind(node)
        is_free = not node.node_id.is_shared or facts.leaves_to(Evaluator.SETS, node.node_id.text)
        if kind is not None and is_free:
            lowered[id_] = kind(node.node_id, node.relation, node.start, node.logs, Evaluator.SETS)
    return plan.lowered(lowered)


def _kind(node: LogicalNode) -> type[RelationNode] | None:
    relation = node.relation
    if isinstance(relation, SetOperation):
        return SetOperationNode
    if relation.distinct and relation.window is None:
        return DistinctNode
    return ProjectNode if node.node_id.is_shared and picks_columns(relation) else None


def picks_columns(relation: Relation) -> bool:
    """Whether a relation shows columns of a set operator's rows, and does nothing else."""
    return (
        isinstance(relation, Select)
        and len(relation.inputs) == 1
        and isinstance(relation.inputs[0].source, SetOperation)
        and relation.where is None
        and relation.window is None
        and not (relation.is_grouped or relation.distinct)
        and all(isinstance(each.expression, Column) for each in relation.outputs)
    )
