"""A coordinator that lasts: providers, queries, rates and loads come and go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.federation.distribution.test_coordinator import federation, four
from weft.federation import FederationError
from weft.federation.distribution.model import edge_cut


def test_a_provider_that_leaves_loses_all_queries_and_one_that_joins_gets_some() -> None:
    coordinator = federation()
    name = coordinator.provider_of("q1")
    number = coordinator.network.number[name]
    had = int((coordinator.placement == number).sum())
    plan = coordinator.provider_left(name)
    assert len(plan.moves) == had > 0
    assert number not in coordinator.placement
    coordinator.moved(coordinator.plan().moves)
    assert number not in coordinator.placement
    coordinator.provider_joined(name)
    coordinator.moved(coordinator.plan().moves)
    assert number in coordinator.placement


def test_loads_and_rates_are_taken_up() -> None:
    coordinator = federation()
    coordinator.measured({"q3": 7.5})
    assert coordinator.queries.load[3] == 7.5
    before = coordinator.quality().edge_cut
    substreams = replace(coordinator.substreams, rate=coordinator.substreams.rate * 2)
    coordinator.described(substreams, coordinator.queries)
    cut = edge_cut(coordinator.network, coordinator.substreams, coordinator.queries, coordinator.placement)
    assert coordinator.quality().edge_cut == pytest.approx(cut)
    assert cut > 1.9 * before


def test_dropped_queries_are_gone() -> None:
    coordinator = federation()
    where = coordinator.provider_of("q9")
    coordinator.dropped(["q3", "q8"])
    assert len(coordinator.queries) == len(coordinator.placement) == 398
    assert coordinator.provider_of("q9") == where
    with pytest.raises(FederationError, match="no query 'q3'"):
        coordinator.provider_of("q3")


def test_what_is_not_known_is_refused() -> None:
    coordinator = four()
    with pytest.raises(FederationError, match="no provider 'n9'"):
        coordinator.provider_left("n9")
    with pytest.raises(FederationError, match="already"):
        coordinator.provider_joined("n1")
    coordinator.provider_left("n1")
    with pytest.raises(FederationError, match="not in the federation"):
        coordinator.provider_left("n1")
    with pytest.raises(FederationError, match="the last one"):
        coordinator.provider_left("n2")
