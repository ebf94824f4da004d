"""The overlay that rows travel on: a power-law graph of a thousand nodes, and its minimum spanning tree.

Traffic is counted on every link of the tree: a row crosses a link once if some query behind the link wants it, with the
columns that those queries need. What a network carries is the sum over its links of latency × traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from weft.optimizer.group_results import Groups
from weft.optimizer.group_results.forest import Forest
from weft.optimizer.group_results.forms import met
from weft.optimizer.group_results.pricing import ForestMember, Pricing, TreeNode

NODES = 1_000
_LATENCIES = (1.0, 50.0)


@dataclass(frozen=True)
class Overlay:
    """A tree of nodes with the server at its root: for each node the next one on the way to the server, and how far."""

    server: int
    towards: Mapping[int, int]
    latency: Mapping[int, float]

    def path(self, node: int) -> list[int]:
        """The nodes whose links to the next one a row crosses on its way from the server."""
        found = []
        while node != self.server:
            found.append(node)
            node = self.towards[node]
        return found

    def first_hop(self, node: int) -> int:
        """The server's neighbour on the way to a node."""
        return self.path(node)[-1]


def power_law_overlay(seed: int, nodes: int = NODES) -> Overlay:
    """A power-law graph with random latencies, its minimum spanning tree, and a server somewhere."""
    random = np.random.default_rng(seed)
    graph = nx.barabasi_albert_graph(nodes, 2, seed=seed)
    for left, right in graph.edges:
        graph.edges[left, right]["latency"] = float(random.uniform(*_LATENCIES))
    tree = nx.minimum_spanning_tree(graph, weight="latency")
    server = int(random.integers(nodes))
    towards = dict(nx.bfs_predecessors(tree, server))
    return Overlay(server, towards, {node: tree.edges[node, next_]["latency"] for node, next_ in towards.items()})


def origins(overlay: Overlay, count: int, seed: int) -> list[int]:
    """Where the users of queries are: anywhere but at the server."""
    random = np.random.default_rng(seed)
    elsewhere = sorted(overlay.towards)
    return [elsewhere[each] for each in random.integers(len(elsewhere), size=count)]


def carried(groups: Groups, overlay: Overlay, where: Mapping[str, int]) -> float:
    """What the network carries for the groups, of queries that are somewhere."""
    total = 0.0
    for group in groups.names():
        behind: dict[int, list[str]] = {}
        for member in groups.members(group):
            for node in overlay.path(where[member]):
                behind.setdefault(node, []).append(member)
        traffic: dict[tuple[str, ...], float] = {}
        for node, members in behind.items():
            key = tuple(members)
            if key not in traffic:
                traffic[key] = traffic_of(groups, members)
            total += traffic[key] * overlay.latency[node]
    return total


def traffic_of(groups: Groups, members: Sequence[str]) -> float:
    """Bytes per tick that some members of one group need together: what a link with them behind it carries."""
    forest = groups._where[members[0]]
    return traffic(forest.prices, [forest.members[name] for name in members]) if isinstance(forest, Forest) else 0.0


def traffic(prices: Pricing, members: Sequence[ForestMember]) -> float:
    """Bytes per tick that some members of one tree need together, each row once, without what others want."""
    sums = members[0].node.own
    for member in members[1:]:
        sums = sums | member.node.own
    together = prices.cost(TreeNode(met([member.node.form for member in members]), sums=sums))
    if not prices.policy.told or len(members) == 1:
        return together
    # Rows of a join that meet in the windows of none are not sent: there are no more than the members have.
    nodes = [member.node for member in members]
    return min(together, sum(prices.rate(node.form) * prices.told_width(node.own, tagged=True) for node in nodes))


def traffic_alone(groups: Groups, member: str) -> float:
    """Bytes per tick of a query's answers, if they are sent alone: with the columns that its user sees."""
    forest = groups._where[member]
    if not isinstance(forest, Forest):
        return 0.0
    prices, found = forest.prices, forest.members[member]
    if prices.policy.told:
        # The same price as of a group of one, also if no row of the sample is among its answers.
        return traffic(prices, [found])
    node = found.node
    shown = sum({1 << prices.columns[published] for _, published in found.subscription.columns})
    return prices.rate(node.form) * prices.share(node.own.rows) * prices.width(shown)
