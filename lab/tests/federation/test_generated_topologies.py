"""Networks from a seed: their shape, and that the seed decides."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lab.federation.generated_topologies import power_law, transit_stub
from lab.federation.multicast import trees_of
from weft.federation.distribution.topology import Topology, ways_from


@pytest.mark.parametrize("make", [transit_stub, power_law])
def test_everyone_is_there_and_can_be_reached(make) -> None:
    topology = make(3, sites=600, sources=10, providers=40)
    assert len(topology.sites) == 600
    assert (len(topology.sources), len(topology.providers)) == (10, 40)
    assert not set(topology.sources) & set(topology.providers)
    assert np.isfinite(ways_from(topology, [0])).all()


@pytest.mark.parametrize("make", [transit_stub, power_law])
def test_the_seed_decides(make) -> None:
    assert make(1, sites=300, sources=5, providers=9) == make(1, sites=300, sources=5, providers=9)
    assert make(1, sites=300, sources=5, providers=9) != make(2, sites=300, sources=5, providers=9)


def test_stubs_are_near_and_domains_far() -> None:
    topology = transit_stub(1)
    far = ways_from(topology, topology.providers)[:, topology.providers]
    nearest = np.sort(far, axis=1)[:, 1]
    assert np.median(nearest) < 20
    assert np.median(far) > 60


def test_a_few_sites_of_a_power_law_have_very_many_links() -> None:
    topology = power_law(1)
    degree = Counter(end for link in topology.links for end in link.between)
    assert max(degree.values()) > 20 * np.median(list(degree.values()))


def test_more_sites_are_asked_for_than_there_is_room() -> None:
    with pytest.raises(match="ask for more sites"):
        transit_stub(1, sites=100, sources=50, providers=50)


def test_trees_know_the_site_before() -> None:
    topology: Topology = transit_stub(1, sites=300, sources=1, providers=9)
    ((ways,), trees) = ways_from(topology, topology.sources), trees_of(topology)
    (before,), (start,) = trees.before, topology.sources
    link = {frozenset(topology.number[end] for end in each.between): each.milliseconds for each in topology.links}
    for site in set(range(300)) - {start}:
        step = ways[site] - ways[before[site]]
        assert step == pytest.approx(link[frozenset((int(before[site]), site))])
