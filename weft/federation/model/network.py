"""The network graph: providers with capabilities, sources, and how many milliseconds lie between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.federation.topology import Topology, ways_from


@dataclass(frozen=True)
class NetworkGraph:
    """Providers and sources, complete with the latency of each pair. All that a decision may know of the network.

    How data travel between them is the data overlay's affair: nothing here says which links a way takes.
    """

    providers: tuple[str, ...]
    capability: NDArray[np.float64]
    sources: tuple[str, ...]
    between: NDArray[np.float64]
    from_source: NDArray[np.float64]

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each provider by its name."""
        return {name: number for number, name in enumerate(self.providers)}


def network_of(topology: Topology) -> NetworkGraph:
    """The network graph of a topology; latencies are those of the shortest ways."""
    ways = ways_from(topology, topology.providers).milliseconds
    return NetworkGraph(
        providers=tuple(topology.sites[site].name for site in topology.providers),
        capability=np.array([topology.sites[site].capability for site in topology.providers]),
        sources=tuple(topology.sites[site].name for site in topology.sources),
        between=ways[:, topology.providers],
        from_source=np.ascontiguousarray(ways[:, topology.sources].T),
    )
