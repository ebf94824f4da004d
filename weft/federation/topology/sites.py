"""Sites and links as data, and the shortest ways between sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.federation.errors import TopologyError


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the network. One with a capability runs queries, one that is a source sends data; most only forward.

    Capability is relative: a site of 2 does in a second what a site of 1 does in two.
    """

    name: str
    capability: float = 0.0
    is_source: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between two sites, both ways, and how long a message takes over it."""

    a: str
    b: str
    microseconds: int


@dataclass(frozen=True)
class Topology:
    """Sites and links. Sites are known by their numbers in `sites` wherever there are many of them."""

    sites: tuple[Site, ...]
    links: tuple[Link, ...]

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each site by its name."""
        return {site.name: number for number, site in enumerate(self.sites)}

    @cached_property
    def providers(self) -> tuple[int, ...]:
        """The sites that run queries."""
        return tuple(number for number, site in enumerate(self.sites) if site.capability > 0)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The sites that send data."""
        return tuple(number for number, site in enumerate(self.sites) if site.is_source)


@dataclass(frozen=True)
class Ways:
    """The shortest ways from some sites to all others: milliseconds, and for each site the one before it on its way.

    `before` is −1 at the start of a way. Row i belongs to the i-th of the sites that were asked for.
    """

    milliseconds: NDArray[np.float64]
    before: NDArray[np.int32]


def ways_from(topology: Topology, starts: Sequence[int]) -> Ways:
    """The shortest ways from some sites. Raises TopologyError if a provider or source cannot be reached from them."""
    size = len(topology.sites)
    ends = np.array([(topology.number[link.a], topology.number[link.b]) for link in topology.links], np.int32)
    delays = np.array([link.microseconds for link in topology.links], np.float64) / 1000
    ends = ends.reshape(-1, 2)
    graph = csr_array((delays, (ends[:, 0], ends[:, 1])), shape=(size, size))
    distances, before = dijkstra(graph, directed=False, indices=np.asarray(starts), return_predecessors=True)
    for number in (*topology.providers, *topology.sources):
        unreached = np.flatnonzero(np.isinf(distances[:, number]))
        if len(unreached):
            far, near = topology.sites[number].name, topology.sites[starts[int(unreached[0])]].name
            raise TopologyError(f"no links lead from {near!r} to {far!r}: add one, or leave one of the two out")
    return Ways(distances, np.maximum(before, -1).astype(np.int32))
