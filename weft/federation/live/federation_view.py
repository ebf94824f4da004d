"""A federation as plain data, and as a picture of its network, in which a link shows the streams that cross it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from weft.federation.distribution.coordinator import Coordinator
from weft.federation.distribution.coordinator_tree import clusters
from weft.federation.distribution.topology import Site, Topology
from weft.federation.live.ledger import FederationLedger


def status_of(
    ledger: FederationLedger,
    coordinator: Coordinator | None,
    through: Mapping[str, int],
    rates: Mapping[str, float],
    states: Mapping[str, str],
) -> dict[str, Any]:
    """The state of a federation. `states` says of each site whether it runs."""
    load = _loads(coordinator)
    standing = None if coordinator is None else coordinator.quality()
    streams = {name: record for name, record in ledger.streams.items() if not record.is_dropped}
    return {
        "place": ledger.place,
        "coordinators": [] if coordinator is None else list(coordinator.leaders()),
        "edge_cut": None if standing is None else standing.edge_cut,
        "fullest": None if standing is None else standing.fullest,
        "sites": [
            {
                "name": site,
                "state": states[site],
                "queries": len(ledger.run_by(site)),
                "load": load.get(site, 0.0),
                "through": through.get(site, 0),
            }
            for site in ledger.members
        ],
        "streams": [
            {
                "name": name,
                "owner": record.owner,
                "batches": len(record.marks),
                "clock": record.marks[-1].clock if record.marks else None,
                "rate": rates.get(name),
            }
            for name, record in streams.items()
        ],
        "queries": [
            {"name": each.name, "home": each.home, "provider": each.provider, "since": each.stays[-1].after}
            for each in ledger.running()
        ],
    }


def _loads(coordinator: Coordinator | None) -> dict[str, float]:
    """The load of each provider that is known."""
    if coordinator is None:
        return {}
    return dict(zip(coordinator.network.providers, coordinator.loads().tolist(), strict=True))


_WIDTH, _HEIGHT, _MARGIN = 920, 600, 110
_COLOURS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#a6761d", "#666666", "#66a61e")
_FONT = "font-family='Helvetica, Arial, sans-serif'"

Point = tuple[float, float]


def picture(topology: Topology, ledger: FederationLedger, coordinator: Coordinator | None) -> str:
    graph = nx.Graph()
    graph.add_nodes_from(site.name for site in topology.sites)
    for link in topology.links:
        # Drawn by its root, or one long link would leave no room for the short ones.
        graph.add_edge(*link.between, milliseconds=link.milliseconds, drawn=math.sqrt(link.milliseconds))
    at = _places(graph)
    body = [*_links(topology, at), *_streams(graph, ledger, at), *_lines_of_command(coordinator, at)]
    body += [part for site in topology.sites for part in _site(site, ledger, coordinator, at[site.name])]
    body += _legend(ledger, coordinator)
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' {_FONT}>"
    return "\n".join([head, f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='white'/>", *body, "</svg>"])


def _places(graph: nx.Graph) -> dict[str, Point]:
    """Where sites are drawn: far from one another if their link takes long."""
    found = nx.kamada_kawai_layout(graph, weight="drawn")
    spots = np.array(list(found.values()))
    low, size = spots.min(axis=0), np.maximum(np.ptp(spots, axis=0), 1e-9)
    room = np.array([_WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN - 40])
    placed = ((spots - low) / size * room + _MARGIN).tolist()
    return {site: (x, y) for site, (x, y) in zip(found, placed, strict=True)}


def _links(topology: Topology, at: Mapping[str, Point]) -> Iterator[str]:
    for link in topology.links:
        (x, y), (u, v) = (at[end] for end in link.between)
        yield _line((x, y), (u, v), "stroke='#cccccc' stroke-width='1.5'")
        yield _text((x + u) / 2, (y + v) / 2 + 16, f"{link.milliseconds:g} ms", size=10, colour="#888888")


def _streams(graph: nx.Graph, ledger: FederationLedger, at: Mapping[str, Point]) -> Iterator[str]:
    """The links of the shortest ways from each stream's owner to its readers, each once, and beside other streams'."""
    for number, (name, record) in enumerate(ledger.streams.items()):
        ways = nx.single_source_dijkstra_path(graph, record.owner, weight="milliseconds")
        readers = {each.provider for each in ledger.running() if name in each.reads}
        style = f"stroke='{_COLOURS[number % len(_COLOURS)]}' stroke-width='2.5' stroke-opacity='0.8'"
        for a, b in sorted({link for reader in readers for link in pairwise(ways[reader])}):
            (x, y), (u, v) = at[a], at[b]
            aside = 3.5 * (number % 5 - 1) / (math.hypot(u - x, v - y) or 1.0)
            dx, dy = -(v - y) * aside, (u - x) * aside
            yield _line((x + dx, y + dy), (u + dx, v + dy), style)


def _lines_of_command(coordinator: Coordinator | None, at: Mapping[str, Point]) -> Iterator[str]:
    if coordinator is None:
        return
    providers = coordinator.network.providers
    for cluster in clusters(coordinator.tree):
        (x, y) = at[providers[cluster.leader]]
        for member in cluster.members:
            (u, v) = at[providers[member]]
            if (x, y) != (u, v):
                bend = f"{(x + u) / 2 + (v - y) / 6:.1f},{(y + v) / 2 - (u - x) / 6:.1f}"
                yield (
                    f"<path d='M {x:.1f},{y:.1f} Q {bend} {u:.1f},{v:.1f}' fill='none' stroke='#444444' "
                    "stroke-width='1' stroke-dasharray='4 4'/>"
                )


def _site(site: Site, ledger: FederationLedger, coordinator: Coordinator | None, place: Point) -> Iterator[str]:
    (x, y), name, runs_queries = place, site.name, site.capability > 0
    if runs_queries:
        load, length = _loads(coordinator), 2 * math.pi * 20
        share = load.get(name, 0.0) / (sum(load.values()) or 1.0)
        dashes = f"stroke-dasharray='{length * min(share, 1.0):.1f} {length:.1f}'"
        turned = f"transform='rotate(-90 {x:.1f} {y:.1f})'"
        rings = [(26, "fill='white' stroke='#cccccc' stroke-width='1'")]
        rings += [(20, f"fill='none' stroke='#e4572e' stroke-width='8' {dashes} {turned}")]
        if coordinator is not None and name in coordinator.leaders():
            rings += [(30, "fill='none' stroke='#444444' stroke-width='1.5'")]
        yield from (f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' {style}/>" for radius, style in rings)
        yield _text(x, y - 36, name if name in ledger.members else f"{name} (away)", weight="bold")
        yield _text(x, y + 4, str(len(ledger.run_by(name))), weight="bold")
        yield _text(x, y + 46, f"{share:.0%} of all load", size=11)
    else:
        yield f"<rect x='{x - 9:.1f}' y='{y - 9:.1f}' width='18' height='18' rx='3' fill='white' stroke='#555555'/>"
        yield _text(x, y - 16, name, weight="bold")
    below = y + (60 if runs_queries else 26)
    for number, (stream, record) in enumerate(ledger.streams.items()):
        if record.owner == name:
            yield _text(x, below, stream, size=12, colour=_COLOURS[number % len(_COLOURS)])
            below += 14


def _legend(ledger: FederationLedger, coordinator: Coordinator | None) -> Iterator[str]:
    said = f"{len(ledger.running())} queries, {len(ledger.members)} sites, {len(ledger.streams)} streams"
    if coordinator is not None:
        standing = coordinator.quality()
        said += f"; edge cut {standing.edge_cut:,.0f}, the fullest provider has {standing.fullest:.2f} of its fair load"
    yield _text(_WIDTH / 2, _HEIGHT - 34, said, size=13)
    keys = "number: queries that run there · ring: share of the load · thin circle, dashed lines: coordinators"
    yield _text(_WIDTH / 2, _HEIGHT - 14, keys, size=11, colour="#666666")


def _line(start: Point, end: Point, style: str) -> str:
    (x, y), (u, v) = start, end
    return f"<line x1='{x:.1f}' y1='{y:.1f}' x2='{u:.1f}' y2='{v:.1f}' {style}/>"


def _text(x: float, y: float, text: str, *, size: int = 13, colour: str = "#222222", weight: str = "normal") -> str:
    # A white edge keeps names readable where lines cross them.
    edge = "paint-order='stroke' stroke='white' stroke-width='3'"
    style = f"font-size='{size}' fill='{colour}' font-weight='{weight}' text-anchor='middle' {edge}"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(text)}</text>"
