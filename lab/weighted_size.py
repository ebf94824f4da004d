"""The weighted size of a network, a measure of what the optimiser has found to share that no engine has a part in.

    selections after 0, 1, 2, 3, 4 joins     5, 4, 3, 2, 1
    joins number 1, 2, 3, 4 of a chain       16, 8, 4, 2

It says nothing about time.
"""

from __future__ import annotations

from weft.plan.network import Network


def weighted_size(network: Network) -> int:
    """The sum of the weights of all nodes."""
    levels: dict[int, int] = {}
    total = 0
    for number, node in network.nodes.items():
        below = max((levels[parent] for parent in node.parents), default=0)
        levels[number] = below + node.is_join
        if node.is_join:
            total += max(32 >> levels[number], 1)
        elif not node.is_base:
            total += max(5 - levels[number], 1)
    return total
