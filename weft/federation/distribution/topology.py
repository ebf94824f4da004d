"""Sites and links as data, and the shortest ways between sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from weft.federation.federation_errors import TopologyError


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


def read_topology(path: Path) -> Topology:
    """The topology that a file describes. Raises TopologyError, which names the place in the file."""
    try:
        text = path.read_text()
    except OSError as problem:
        raise TopologyError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    try:
        return topology_from(yaml.safe_load(text))
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        raise TopologyError(f"{path}{place} is not YAML: {getattr(problem, 'problem', problem)}") from problem
    except TopologyError as problem:
        raise TopologyError(f"{path}: {problem}") from None


def topology_from(described: Any) -> Topology:
    """The topology that parsed YAML describes."""
    top = _mapping(described, "the file", {"sites", "links"})
    sites = tuple(_site(each, f"sites[{place}]") for place, each in enumerate(_listed(top, "sites")))
    names = {site.name for site in sites}
    for place, site in enumerate(sites):
        if site.name in {other.name for other in sites[:place]}:
            raise TopologyError(f"sites[{place}]: there is a site {site.name!r} already; names must differ")
    links = tuple(_link(each, f"links[{place}]", names) for place, each in enumerate(_listed(top, "links")))
    topology = Topology(sites, links)
    if not topology.providers:
        raise TopologyError("no site has a capability, so none can run queries: give one `capability: 1`")
    if not topology.sources:
        raise TopologyError("no site is a source, so there are no data: give one `source: true`")
    ways_from(topology, topology.providers[:1])
    return topology


def _site(described: Any, place: str) -> Site:
    given = _mapping(described, place, {"name", "capability", "source"})
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise TopologyError(f"{place}: a site needs a name, a text; found {name!r}")
    capability = _number(given.get("capability", 0), f"{place} ({name}): capability")
    is_source = given.get("source", False)
    if not isinstance(is_source, bool):
        raise TopologyError(f"{place} ({name}): source is true or false; found {is_source!r}")
    return Site(name, capability, is_source)


def _link(described: Any, place: str, names: set[str]) -> Link:
    given = _mapping(described, place, {"between", "milliseconds"})
    ends = given.get("between")
    if not isinstance(ends, list) or len(ends) != 2:
        raise TopologyError(f"{place}: `between` names two sites, as in [a, b]; found {ends!r}")
    for end in ends:
        if end not in names:
            raise TopologyError(f"{place}: there is no site {end!r}; add it to `sites`, or correct the name")
    if ends[0] == ends[1]:
        raise TopologyError(f"{place}: a link leads from one site to another; both are {ends[0]!r}")
    if "milliseconds" not in given:
        raise TopologyError(f"{place}: say how long a message takes, as in `milliseconds: 20`")
    microseconds = round(_number(given["milliseconds"], f"{place}: milliseconds") * 1000)
    if microseconds < 1:
        raise TopologyError(f"{place}: a message takes 0.001 milliseconds at least; found {given['milliseconds']!r}")
    return Link(ends[0], ends[1], microseconds)


def _mapping(described: Any, place: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(described, dict):
        raise TopologyError(f"{place}: expected {', '.join(sorted(known))}; found {described!r}")
    for key in described:
        if key not in known:
            raise TopologyError(f"{place}: unknown key {key!r}; known are {', '.join(sorted(known))}")
    return described


def _listed(given: Mapping[str, Any], key: str) -> list[Any]:
    found = given.get(key)
    if not isinstance(found, list):
        raise TopologyError(f"`{key}` must be a list; found {found!r}")
    return found


def _number(given: Any, place: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given) or given < 0:
        raise TopologyError(f"{place} must be a number, zero or more; found {given!r}")
    return float(given)
