"""Where things are: sites, the links between them, and the shortest ways; as data, and from a YAML file.

What such a file looks like is shown in docs/federation.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.federation import FederationError


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"is_source": "source"}):
    """A place in the network. One with a capability runs queries, one that is a source sends data; most only forward.

    Capability is relative: a site of 2 does in a second what a site of 1 does in two.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    capability: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    is_source: bool = False


class SiteLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A connection between two sites, both ways, and how long a message takes over it."""

    between: tuple[str, str]
    milliseconds: Annotated[float, msgspec.Meta(ge=0.001, le=1e9)]


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Sites and links. Sites are known by their numbers in `sites` wherever there are many of them."""

    sites: tuple[Site, ...]
    links: tuple[SiteLink, ...]

    @cached_property
    def number(self) -> dict[str, int]:
        return {site.name: number for number, site in enumerate(self.sites)}

    @cached_property
    def providers(self) -> tuple[int, ...]:
        """The sites that run queries."""
        return tuple(number for number, site in enumerate(self.sites) if site.capability > 0)

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The sites that send data."""
        return tuple(number for number, site in enumerate(self.sites) if site.is_source)


def ways_from(topology: Topology, starts: Sequence[int]) -> NDArray[np.float64]:
    """The milliseconds of the shortest ways from some sites to all others, a row for each of them.

    Raises FederationError if a provider or source cannot be reached.
    """
    size = len(topology.sites)
    delays = np.array([link.milliseconds for link in topology.links])
    ends = np.array([[topology.number[end] for end in link.between] for link in topology.links], np.int32)
    links = csr_array((delays, ends.reshape(-1, 2).T), shape=(size, size))
    distances: NDArray[np.float64] = dijkstra(links, directed=False, indices=np.asarray(starts))
    for number in (*topology.providers, *topology.sources):
        unreached = np.flatnonzero(np.isinf(distances[:, number]))
        if len(unreached):
            far, near = topology.sites[number].name, topology.sites[starts[int(unreached[0])]].name
            raise FederationError(f"no links lead from {near!r} to {far!r}: add one, or leave one of the two out")
    return distances


def read_topology(path: Path) -> Topology:
    """The topology that a file describes. Raises FederationError, which names the place in the file."""
    try:
        text = path.read_text()
    except OSError as problem:
        raise FederationError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    try:
        return topology_from(yaml.safe_load(text))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise FederationError(f"{path}{place} is not YAML: {getattr(problem, 'problem', problem)}") from problem
    except (FederationError, msgspec.ValidationError) as problem:
        raise FederationError(f"{path}: {problem}") from None


def topology_from(described: Any) -> Topology:
    topology = msgspec.convert(described, Topology)
    names = [site.name for site in topology.sites]
    for place, name in enumerate(names):
        if names.index(name) < place:
            raise FederationError(f"sites[{place}]: there is a site {name!r} already; names must differ")
    for place, link in enumerate(topology.links):
        a, b = link.between
        unknown = {a, b} - topology.number.keys()
        if unknown:
            name = unknown.pop()
            raise FederationError(f"links[{place}]: there is no site {name!r}; add it to `sites`, or correct the name")
        if a == b:
            raise FederationError(f"links[{place}]: a link leads from one site to another; both are {a!r}")
    if not topology.providers:
        raise FederationError("no site has a capability, so none can run queries: give one `capability: 1`")
    if not topology.sources:
        raise FederationError("no site is a source, so there are no data: give one `source: true`")
    ways_from(topology, topology.providers[:1])
    return topology
