"""Networks from a seed: their shape, and that the seed decides."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lab.federation.generated_topologies import power_law, transit_stub
from weft.federation.distribution.topology import Topology, TopologyError, ways_from


@pytest.mark.parametrize("make", [transit_stub, power_law])
def test_everyone_is_there_and_can_be_reached(make) -> None:
    topology = make(3, sites=600, sources=10, providers=40)
    assert len(topology.sites) == 600
    assert (len(topology.sources), len(topology.providers)) == (10, 40)
    assert not set(topology.sources) & set(topology.providers)
    assert np.isfinite(ways_from(topology, [0]).milliseconds).all()


@pytest.mark.parametrize("make", [transit_stub, power_law])
def test_the_seed_decides(make) -> None:
    assert make(1, sites=300, sources=5, providers=9) == make(1, sites=300, sources=5, providers=9)
    assert make(1, sites=300, sources=5, providers=9) != make(2, sites=300, sources=5, providers=9)


def test_stubs_are_near_and_domains_far() -> None:
    topology = transit_stub(1)
    far = ways_from(topology, topology.providers).milliseconds[:, topology.providers]
    nearest = np.sort(far, axis=1)[:, 1]
    assert np.median(nearest) < 20
    assert np.median(far) > 60


def test_a_few_sites_of_a_power_law_have_very_many_links() -> None:
    topology = power_law(1)
    degree = Counter(end for link in topology.links for end in (link.a, link.b))
    assert max(degree.values()) > 20 * np.median(list(degree.values()))


def test_more_sites_are_asked_for_than_there_is_room() -> None:
    with pytest.raises(TopologyError, match="ask for more sites"):
        transit_stub(1, sites=100, sources=50, providers=50)


def test_ways_know_the_site_before() -> None:
    topology: Topology = transit_stub(1, sites=300, sources=5, providers=9)
    ways = ways_from(topology, [0])
    link = {frozenset((topology.number[e.a], topology.number[e.b])): e.microseconds for e in topology.links}
    for site in range(1, 300):
        before = int(ways.before[0, site])
        step = ways.milliseconds[0, site] - ways.milliseconds[0, before]
        assert step == pytest.approx(link[frozenset((before, site))] / 1000)
