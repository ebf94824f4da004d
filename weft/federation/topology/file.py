"""Sites and links from a YAML file.

sites:
  - name: zurich
    capability: 8          # cores, say: what counts is the ratio between sites; without it a site runs no queries
  - name: feed
    source: true           # data come from here
  - name: exchange         # forwards, no more
links:
  - between: [zurich, exchange]
    milliseconds: 3.5
  - between: [feed, exchange]
    milliseconds: 0.2
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from weft.federation.errors import TopologyError
from weft.federation.topology.sites import Link, Site, Topology, ways_from


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
