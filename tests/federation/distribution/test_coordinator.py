"""The coordinator: what it is told, what it answers, and what it says of it."""

from __future__ import annotations

import numpy as np
import pytest

from lab.federation.generated_topologies import transit_stub
from lab.federation.synthetic import drawn_queries, workload
from lab.simulate.lasting_coordinator import LastingCoordinator, distribute
from tests.federation.examples import FOUR_QUERIES, FOUR_SUBSTREAMS, TWO_PROVIDERS
from weft.federation import FederationError
from weft.federation.distribution.coordinator import Coordinator, Move, affordable, explained, plan_text, route_text
from weft.federation.distribution.coordinator_tree import tree_over
from weft.federation.distribution.model import network_of


def federation(queries: int = 400) -> LastingCoordinator:
    network = network_of(transit_stub(1, sites=400, sources=10, providers=30))
    drawn = workload(2, sources=10, substreams=500, groups=6, fewest=20, most=40)
    found, _ = drawn_queries(drawn, np.random.default_rng(3), queries, 30)
    coordinator = LastingCoordinator(network, drawn.substreams, seed=1)
    distribute(coordinator, [f"q{number}" for number in range(queries)], found)
    return coordinator


def four() -> LastingCoordinator:
    coordinator = LastingCoordinator(TWO_PROVIDERS, FOUR_SUBSTREAMS)
    distribute(coordinator, ["Q1", "Q2", "Q3", "Q4"], FOUR_QUERIES)
    return coordinator


def test_the_coordinator_places_the_four_queries() -> None:
    coordinator = four()
    assert [coordinator.provider_of(each) for each in ("Q1", "Q2", "Q3", "Q4")] == ["n1", "n2", "n1", "n2"]
    assert coordinator.quality().edge_cut == pytest.approx(110)


def test_what_a_move_saves_is_what_the_edge_cut_loses() -> None:
    coordinator = four()
    # From scheme 3 with Q4 at n1 as well: 110 − (60 + 0) + (20 + 5).
    move = coordinator.move("Q4", "n1")
    assert (move.source, move.target, move.milliseconds) == ("n2", "n1", 5.0)
    before = coordinator.quality().edge_cut
    coordinator.moved([move])
    assert coordinator.quality().edge_cut == pytest.approx(before - move.saves)
    assert move.saves == pytest.approx(35)
    assert coordinator.move("Q4", "n1").saves == 0


def test_costs_are_what_the_edges_of_a_query_would_cost() -> None:
    coordinator = federation(60)
    costs = coordinator.costs("q7")
    for provider in (0, 5, 29):
        move = coordinator.move("q7", coordinator.network.providers[provider])
        here = costs[coordinator.placement[7]]
        assert here - costs[provider] == pytest.approx(move.saves, abs=1e-6)


def test_a_new_query_is_routed_and_the_way_is_shown() -> None:
    coordinator = federation()
    new = coordinator.queries.chosen([5])
    routed = coordinator.route("again", new)
    (decision,) = coordinator.register(["again"], new)
    assert decision == routed
    assert coordinator.provider_of("again") == decision.provider == decision.steps[-1].target
    assert decision.steps[0].coordinator == coordinator.network.providers[coordinator.tree.leader]
    for step in decision.steps:
        assert list(step.costs.values()) == sorted(step.costs.values())
    text = route_text(decision)
    assert text.startswith(f"again goes to {decision.provider}")
    assert f"chose {decision.provider}:" in text


def test_a_plan_moves_nothing_until_it_is_carried_out() -> None:
    coordinator = federation()
    coordinator.moved(coordinator.move(f"q{number}", coordinator.network.providers[3]) for number in range(80))
    before = coordinator.placement.copy()
    plan = coordinator.plan()
    assert (coordinator.placement == before).all()
    assert plan.before == coordinator.quality()
    coordinator.moved(plan.moves)
    assert coordinator.quality() == plan.after
    assert plan.after.fullest < 1.3 < plan.before.fullest
    assert f"{len(plan.moves)} queries move" in plan_text(plan)


def test_a_plan_within_a_budget_carries_no_more_and_still_saves() -> None:
    coordinator = federation()
    coordinator.moved(coordinator.move(f"q{number}", coordinator.network.providers[3]) for number in range(80))
    budget = 0.2 * sum(move.carries * move.milliseconds for move in coordinator.plan().moves)
    plan = coordinator.plan(budget)
    assert 0 < sum(move.carries * move.milliseconds for move in plan.moves) <= budget
    assert plan.after.edge_cut < plan.before.edge_cut
    coordinator.moved(plan.moves)
    assert coordinator.quality() == plan.after


def test_why_a_query_is_where_it_is() -> None:
    text = explained(four(), "Q3", others=1)
    assert text.splitlines() == [
        "Q3 runs at n1; its user is at n2",
        "  under      n1",
        "  reads      5 bytes/s, 1 substreams",
        "  shares     5 bytes/s of it with 1 of 1 neighbours",
        "  load       0.1 of 0.2 there",
        # 5 × 2 from s1, and 1 × 5 for its answers; at n2 5 × 6, and 5 × 5 for what it shares with Q1.
        "  costs      15 (bytes/s × ms)",
        "  at n2       55; moving carries 0 bytes over 5 ms, never pays; load there 0.2",
    ]


def test_what_is_not_known_is_refused() -> None:
    coordinator = four()
    with pytest.raises(FederationError, match="no provider 'n9'"):
        coordinator.move("Q1", "n9")
    with pytest.raises(FederationError, match="no query 'Q9'"):
        coordinator.provider_of("Q9")
    with pytest.raises(FederationError, match="already"):
        coordinator.register(["Q1"], FOUR_QUERIES.chosen([0]))


def test_the_queries_of_a_provider_that_is_away_go_where_new_ones_would() -> None:
    known = four()
    only_n2 = tree_over([1], TWO_PROVIDERS.between)
    coordinator = Coordinator(TWO_PROVIDERS, FOUR_SUBSTREAMS, only_n2, known.names, known.queries, known.placement)
    assert coordinator.rerouted("n1") == {"Q1": "n2", "Q3": "n2"}


def test_moves_within_a_budget() -> None:
    moves = [Move(f"q{number}", "n1", "n2", 1.0, float(number), 1.0) for number in range(1, 41)]
    half = sum(move.costs for move in moves) / 2
    kept = affordable(moves, half)
    assert 0 < sum(move.costs for move in kept) <= half
    # With equal gains the cheapest go first, so more than half of them fit.
    assert len(moves) / 2 < len(kept) < len(moves)
    assert list(kept) == moves[: len(kept)]
