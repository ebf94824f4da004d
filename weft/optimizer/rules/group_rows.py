"""Has aggregates over rows in the driver answered there: those of joins, other aggregates and set operators."""

from __future__ import annotations

from weft.algebra import Select
from weft.optimizer.aggregates.stream_shapes import NotWoven
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import row_shape
from weft.plan.nodes import Evaluator, GroupNode, LogicalNode, ProjectNode, RelationNode
from weft.plan.shared_plan import SharedPlan


def group_rows(plan: SharedPlan, facts: Facts) -> SharedPlan:
    lowered: dict[str, RelationNode] = {}
    for id_, node in plan.logical.items():
        if node.node_id.is_shared and facts.leaves_to(Evaluator.GROUPS, node.node_id.text) and _is_computed(node):
            assert isinstance(node.relation, Select)
            assert node.relation.window is not None
            kind = GroupNode if node.relation.window.is_unbounded else ProjectNode
            lowered[id_] = kind(node.node_id, node.relation, node.start, (node.logs[0],), Evaluator.GROUPS)
    return plan.lowered(lowered)


def _is_computed(node: LogicalNode) -> bool:
    """Whether groups of rows can be computed here."""
    if not isinstance(node.relation, Select) or not node.relation.is_grouped:
        return False
    try:
        row_shape(node)
    except NotWoven:
        return False
    return True
