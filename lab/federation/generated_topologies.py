"""Networks from a seed: the two shapes that experiments on wide-area networks use.

**Transit–stub**: a few transit domains far apart, each a few well-connected routers; behind every router some stub
domains, small networks of neighbours. Most of a way is spent between domains, as on the Internet.

**Power law**: sites join one after another and link to well-linked ones, so that a few have very many links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import networkx as nx
import numpy as np
from numpy.random import Generator

from weft.federation import FederationError
from weft.federation.distribution.topology import Site, SiteLink, Topology

#: Milliseconds over a link, from and to: within a stub domain, from a stub to its router, within a transit domain,
#: and between transit domains.
WITHIN_STUB, TO_ROUTER, WITHIN_TRANSIT, BETWEEN_TRANSIT = (1, 5), (5, 15), (10, 30), (40, 100)

Edge = tuple[int, int]


def transit_stub(
    seed: int,
    sites: int = 4096,
    sources: int = 100,
    providers: int = 256,
    domains: int = 4,
    routers: int = 4,
    stubs: int = 15,
) -> Topology:
    """A transit–stub network: `domains` of `routers` each, `stubs` stub domains behind every router.

    Sources and providers are different sites of stub domains, drawn at random. Providers have a capability of 1.
    """
    transit = domains * routers
    _check_counts(sites - transit, sources, providers)
    random = np.random.default_rng(seed)
    stub_sizes = _sizes(sites - transit, transit * stubs)
    edges = [
        *_drawn(random, _transit_edges(random, domains, routers), WITHIN_TRANSIT),
        *_drawn(random, _domain_edges(random, domains, routers), BETWEEN_TRANSIT),
    ]
    first = transit
    for stub, size in enumerate(stub_sizes):
        members = range(first, first + size)
        edges += _drawn(random, _connected(random, members, extra=size // 2), WITHIN_STUB)
        if size:
            edges += _drawn(random, [(stub % transit, int(random.choice(members)))], TO_ROUTER)
        first += size
    return _peopled(random, sites, edges, range(transit, sites), sources, providers)


def power_law(seed: int, sites: int = 4096, sources: int = 100, providers: int = 256, links: int = 2) -> Topology:
    """A network of preferential attachment: each site links to `links` others, well-linked ones first."""
    _check_counts(sites, sources, providers)
    random = np.random.default_rng(seed)
    edges = _drawn(random, nx.barabasi_albert_graph(sites, links, seed=seed).edges(), (1, 40))
    return _peopled(random, sites, list(edges), range(sites), sources, providers)


def _check_counts(room: int, sources: int, providers: int) -> None:
    if providers < 1 or sources < 1:
        raise FederationError(f"a network needs a source and a provider; asked for {sources} and {providers}")
    if sources + providers > room:
        raise FederationError(
            f"{sources} sources and {providers} providers need {sources + providers} sites, and only {room} "
            "can be one: ask for more sites"
        )


def _peopled(
    random: Generator,
    sites: int,
    edges: Sequence[tuple[int, int, int]],
    eligible: Sequence[int],
    sources: int,
    providers: int,
) -> Topology:
    chosen = random.choice(np.asarray(eligible), sources + providers, replace=False)
    sending, running = set(chosen[:sources].tolist()), set(chosen[sources:].tolist())
    named = tuple(Site(f"n{number}", float(number in running), number in sending) for number in range(sites))
    return Topology(named, tuple(SiteLink((f"n{a}", f"n{b}"), microseconds / 1000) for a, b, microseconds in edges))


def _sizes(total: int, parts: int) -> list[int]:
    """A total in parts that differ by one at most."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def _transit_edges(random: Generator, domains: int, routers: int) -> Iterator[Edge]:
    for domain in range(domains):
        members = range(domain * routers, (domain + 1) * routers)
        yield from _connected(random, members, extra=routers)


def _domain_edges(random: Generator, domains: int, routers: int) -> Iterator[Edge]:
    """Every two domains are linked, each through some router of theirs."""
    for a, b in combinations(range(domains), 2):
        yield a * routers + int(random.integers(routers)), b * routers + int(random.integers(routers))


def _connected(random: Generator, members: Sequence[int], extra: int) -> list[Edge]:
    """A random tree over some sites and a few links more."""
    tree = [(members[int(random.integers(place))], members[place]) for place in range(1, len(members))]
    if len(members) < 2:
        return tree
    pairs = (tuple(sorted(random.choice(len(members), 2, replace=False).tolist())) for _ in range(extra))
    more = {(members[a], members[b]) for a, b in pairs}
    return tree + sorted(more - set(tree))


def _drawn(
    random: Generator, edges: Sequence[Edge] | Iterator[Edge], between: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Links of some edges with random latencies."""
    low, high = between
    return [(int(a), int(b), int(random.integers(low * 1000, high * 1000 + 1))) for a, b in edges]
