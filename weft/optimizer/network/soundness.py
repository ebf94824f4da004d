"""Whether nodes that were taken up from a file are a network at all.

What is said of a node must agree with what is said of those below it, and somebody must need it. Whether its conditions
are the right ones is not looked at: to know that, one would have to plan.
"""

from __future__ import annotations

from weft.optimizer.network.nodes import Entry, Nodes
from weft.optimizer.network.wanted import leg_name
from weft.predicates.sets import columns_of_set


def require_sound(nodes: Nodes) -> None:
    """Raises ValueError if some node does not fit into its network."""
    for entry in nodes.entries.values():
        _require_fitting(entry, nodes)


def _require_fitting(entry: Entry, nodes: Nodes) -> None:
    below = [nodes[parent] for parent in entry.parents]
    legs = tuple(leg for each in below for leg in each.legs)
    width = len(entry.legs)
    read = {column.source for column in columns_of_set(entry.predicates)}
    agrees = {
        "its legs": entry.legs == legs if below else width == 1,
        "its level": entry.level == max((each.level for each in below), default=0) + (len(below) == 2),
        "its anchor": entry.anchor == (below[0].anchor if entry.is_selection else entry.number),
        "its join": (entry.anchors is None) == (len(below) < 2)
        and (entry.anchors is None or entry.anchors[:2] == tuple(each.anchor for each in below)),
        "its conditions": read <= set(map(leg_name, range(width))),
        "its number": entry.number < nodes.next_number,
        "its readers": bool(entry.children or entry.places),
        "its selects": all(sorted(nodes.found[place].result.legs) == list(range(width)) for place in entry.places),
    }
    wrong = [what for what, is_right in agrees.items() if not is_right]
    if wrong:
        raise ValueError(f"node {entry.number} does not fit into its network: {', '.join(wrong)}")
