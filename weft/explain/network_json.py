"""The network as JSON documents: all that the text says, and all of the lists."""

from __future__ import annotations

from weft.explain.json import Document
from weft.plan.shared_network import JoinFamily, JoinOrder, NetworkQuery, SharedNetwork, SharedNode


def network_document(network: SharedNetwork) -> Document:
    """Nodes, parents before children, and families of joins, lower levels first."""
    return {
        "nodes": [_node(each) for each in network.nodes.values()],
        "families": [_family(each) for each in network.families],
        "cost": network.cost,
    }


def network_query_document(query: NetworkQuery) -> Document:
    """A query's part in the network: nodes by number. Its companions are the queries of the nodes that it shares."""
    return {
        "answers": [{"node": node, "inputs": list(names)} for node, names in query.answers],
        "nodes": list(query.nodes),
        "shared": list(query.shared),
        "own": list(query.own),
        "cost": str(query.cost),
        "alone": query.alone,
        "not_shared": [
            {
                "node": why.node,
                "nearest": why.nearest,
                "reason": why.reason,
                "theirs": list(why.theirs),
                "ours": list(why.ours),
            }
            for why in query.not_shared
        ],
        "beside": query.beside,
        "orders": [_order(each) for each in query.orders],
    }


def _order(order: JoinOrder) -> Document:
    return {
        "order": order.order,
        "cost": order.cost,
        "best": order.best,
        "best_cost": order.best_cost,
        "seen": dict(order.seen),
        "history": [
            {
                "cycle": each.cycle,
                "from": each.before,
                "to": each.after,
                "cost_before": each.cost_before,
                "cost_after": each.cost_after,
                "seen": dict(each.seen),
            }
            for each in order.history
        ],
    }


def _node(node: SharedNode) -> Document:
    return {
        "node": node.number,
        "kind": node.kind,
        "title": node.title,
        "parents": list(node.parents),
        "level": node.level,
        "legs": list(node.legs),
        "equations": list(node.equations),
        "conditions": list(node.conditions),
        "columns": list(node.columns),
        "timely": node.timely,
        "rows": node.rows,
        "measured": node.measured,
        "cost": node.cost,
        "queries": list(node.queries),
    }


def _family(family: JoinFamily) -> Document:
    return {
        "level": family.level,
        "inputs": list(family.inputs),
        "equations": list(family.equations),
        "joins": list(family.joins),
        "selections": list(family.selections),
        "kept": family.kept,
    }
