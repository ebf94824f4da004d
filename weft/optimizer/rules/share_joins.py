"""Finds what selects and joins have in common, whatever they are written like, and has it computed once.

The network of selections and joins grows and shrinks by one select at a time (`weft/optimizer/network/planner.py`), in
the order in which queries were created.
"""

from __future__ import annotations

from functools import partial

from weft.algebra import Select
from weft.optimizer.network.redeciding import Redeciding
from weft.optimizer.network.sizes import MeasuredSizes
from weft.optimizer.network.wanted import is_shareable
from weft.optimizer.rules.drop_unread import without_unread
from weft.optimizer.rules.facts import Facts
from weft.optimizer.rules.indexes import Indexes, indexes_within, with_network
from weft.plan.log_ids import LogId, LogKind
from weft.plan.nodes import Evaluator, LogicalNode, ProjectNode, RelationNode
from weft.plan.shared_plan import SharedPlan


def share_joins(plan: SharedPlan, facts: Facts) -> SharedPlan:
    new = [node for node in plan.logical.values() if _is_free(node, facts)]
    if not new and not plan.outputs_not_asked_for:
        return plan
    indexes = indexes_within(plan)
    planner, redeciding = indexes.planner, redeciding_of(plan, indexes, facts)
    # A select may have given its rows to one that is gone, and to no other: it leaves after that one, and so on.
    while gone := [place for place in planner.nodes.found if LogId(LogKind.ROWS, place) not in plan.nodes]:
        for place in gone:
            if redeciding is not None and redeciding.watches(place):
                redeciding.forget(place)
            planner.deregister(place)
        plan = without_unread(with_network(plan, indexes, {}))
    selects = {}
    for node in sorted(new, key=lambda each: each.order):
        assert isinstance(node.relation, Select)
        planner.register(node.node_id.text, node.relation, node.logs)
        if redeciding is not None:
            _watch(redeciding, node)
        selects[node.node_id.text] = ProjectNode(node.node_id, node.relation, node.start, (), Evaluator.JOINS)
    if not new:
        return plan
    lowered = {node.id for node in new}
    logical = {id_: node for id_, node in plan.logical.items() if id_ not in lowered}
    return with_network(plan, indexes, selects).with_fields(logical=logical)


def _is_free(node: LogicalNode, facts: Facts) -> bool:
    """Whether the network can give a relation its rows."""
    relation = node.relation
    can_be = isinstance(relation, Select) and is_shareable(relation) and not relation.distinct
    return can_be and node.node_id.is_shared and facts.leaves_to(Evaluator.JOINS, node.node_id.text)


def redeciding_of(plan: SharedPlan, indexes: Indexes, facts: Facts) -> Redeciding | None:
    """What watches the orders of joins, those of a plan that was stored too; None if they are kept."""
    if facts.revised is None or not isinstance(facts.sizes, MeasuredSizes):
        return None
    if indexes.redeciding is None:
        revised = facts.revised
        indexes.redeciding = Redeciding(indexes.planner, facts.sizes, revised.patience, revised.forced)
        for node in plan.of(ProjectNode):
            if node.text in indexes.planner.nodes.found:
                _watch(indexes.redeciding, node)
    return indexes.redeciding


def _watch(redeciding: Redeciding, node: RelationNode) -> None:
    assert isinstance(node.relation, Select)
    if len(node.relation.inputs) > 1:
        redeciding.watch(node.text, partial(redeciding.planner.needs_of, node.relation, node.logs))
