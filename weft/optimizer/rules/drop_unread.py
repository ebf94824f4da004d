"""Drops the outputs of queries that are gone, and the nodes that nothing reads any more."""

from __future__ import annotations

from weft.optimizer.rules.facts import Facts
from weft.plan.nodes import NetworkNode, OutputNode
from weft.plan.shared_plan import SharedPlan


def drop_unread(plan: SharedPlan, facts: Facts) -> SharedPlan:
    """A query that was dropped and created again under its name is another query."""
    gone = [each.id for each in plan.outputs_not_asked_for]
    if not gone:
        return plan
    return without_unread(plan.with_nodes((), gone))


def without_unread(plan: SharedPlan) -> SharedPlan:
    """The plan without the nodes that have lost their readers, and those that only they read.

    Selections and joins leave by a rule of their own (`share_joins.py`), which knows what they were there for. What a
    relation reads that has no evaluator yet stays.
    """
    wanted = {log for each in plan.logical.values() for log in each.logs}
    waiting = list(plan.touched)
    unread: dict[str, None] = {}
    while waiting:
        id_ = waiting.pop()
        node = plan.nodes.get(id_)
        if node is None or isinstance(node, OutputNode) or id_ in unread or id_ in wanted:
            continue
        if isinstance(node, NetworkNode) and node.computation is not None:
            continue
        if all(each in unread for each in plan.readers_of(id_)):
            unread[id_] = None
            waiting += node.inputs
    return plan.with_nodes((), unread) if unread else plan
