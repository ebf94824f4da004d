"""All queries onto all providers at once, by someone who knows everything.

The yardstick for the hierarchy: the best that single moves find, and the time that takes.
"""

from __future__ import annotations

from weft.federation.distribution.graph import QueryGraph, graph_of
from weft.federation.distribution.mapping import Targets, greedy, refined, targets_over
from weft.federation.model.edge_cut import Placement
from weft.federation.model.network import NetworkGraph
from weft.federation.model.queries import QuerySet
from weft.federation.model.substreams import Substreams

#: How far beyond its fair share of the load a provider may go.
SLACK = 0.10


def all_providers(network: NetworkGraph, graph: QueryGraph, slack: float = SLACK) -> Targets:
    """Every provider as a target."""
    fair = float(graph.weight.sum() / network.capability.sum())
    return targets_over(network, [[each] for each in range(len(network.providers))], fair, slack)


def greedily(network: NetworkGraph, substreams: Substreams, queries: QuerySet, slack: float = SLACK) -> Placement:
    """Each query where it costs least when its turn comes."""
    graph = graph_of(network, substreams, queries)
    return greedy(graph, substreams.rate, all_providers(network, graph, slack))


def centrally(network: NetworkGraph, substreams: Substreams, queries: QuerySet, slack: float = SLACK) -> Placement:
    """The same, refined."""
    graph = graph_of(network, substreams, queries)
    targets = all_providers(network, graph, slack)
    # As printed: passes run to their end, and go on while they improve; that is at most eight times in practice.
    passes, whole_passes = 8, len(queries)
    return refined(graph, substreams.rate, targets, greedy(graph, substreams.rate, targets), passes, whole_passes)
