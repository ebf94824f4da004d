"""The parts of the benchmark of delivery that are arithmetic: its overlay, its queries, what a network carries."""

from __future__ import annotations

import pytest

from bench.delivery import TRANSPORT
from bench.delivery_figures.overlay import Overlay, carried, power_law_overlay, traffic_of
from bench.delivery_figures.queries import POPULARITIES, random_queries, statistics, template_queries
from bench.delivery_figures.runs import Experiment, Run
from bench.delivery_transport import DEFINITIONS
from weft.optimizer.group_results import Groups
from weft.optimizer.group_results.shapes import shape_of

#: A server 0, and 1 – {2, 3} behind it.
SMALL = Overlay(0, {1: 0, 2: 1, 3: 1}, {1: 10.0, 2: 1.0, 3: 2.0})


def test_the_overlay_is_a_tree_that_reaches_every_node() -> None:
    overlay = power_law_overlay(seed=2, nodes=50)
    assert len(overlay.towards) == 49
    assert all(overlay.path(node)[-1] == overlay.first_hop(node) for node in overlay.towards)
    assert all(overlay.towards[overlay.first_hop(node)] == overlay.server for node in overlay.towards)


@pytest.mark.parametrize("popularity", POPULARITIES, ids=lambda each: each.name)
def test_all_queries_can_be_merged(popularity: object) -> None:
    for query in random_queries(popularity, 40, seed=3):  # type: ignore[arg-type]
        assert shape_of(query) is not None
    assert all(shape_of(query) is not None for query in template_queries(40, seed=3))


def test_a_row_crosses_a_link_once() -> None:
    """Two users with the same question at different places: the link that they share carries it once."""
    (query,) = random_queries(POPULARITIES[0], 1, seed=5)
    groups = Groups(statistics(128), overhead=0.5)
    groups.insert("a", query)
    groups.insert("b", query)
    assert groups.group_of("a") == groups.group_of("b")
    once = traffic_of(groups, ["a"])
    assert traffic_of(groups, ["a", "b"]) == once
    assert carried(groups, SMALL, {"a": 2, "b": 3}) == pytest.approx(once * (10 + 1 + 2))


def test_alone_nothing_is_saved_and_nothing_lost() -> None:
    queries = random_queries(POPULARITIES[0], 5, seed=1)
    experiment = Experiment(queries, power_law_overlay(2, 30), statistics(128), seed=1)
    run = Run("five", 0.5)
    groups = experiment.grow(run, (5,))
    if len(groups.names()) == 5:
        assert run.reductions == [pytest.approx(0.0)]
    assert run.sizes == [5]


def test_the_transport_measures_what_the_last_line_names() -> None:
    assert set(TRANSPORT) <= set(DEFINITIONS)
