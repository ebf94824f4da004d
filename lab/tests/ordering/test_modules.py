"""Distributed join graphs, output modules and footprints: the thesis's examples, and random graphs."""

from __future__ import annotations

from random import Random

import pytest

from lab.ordering.distributed import DistributedJoinGraph, Node, distribute
from lab.ordering.footprints import Descriptor, storage_bytes
from lab.ordering.join_graph import Join, JoinGraph, cut_cycles
from lab.ordering.modules import Module, output_modules
from lab.tests.ordering.graphs import FIGURE_5_4, RUNNING, random_graph, random_tree
from lab.tests.ordering.travel import every_way, travel
from weft.federation import FederationError

# Bits of the running example: site 1 is bit 0, site 2 is bit 1, site 3 is bit 2; written from the left.


def _vector(text: str) -> int:
    return sum(1 << place for place, bit in enumerate(text) if bit == "1")


def _module(graph: DistributedJoinGraph, source: str, target: str) -> Module:
    wanted = graph.position(source), graph.position(target)
    return next(module for module in output_modules(graph) if (module.source, module.target) == wanted)


def _kinds(graph: DistributedJoinGraph) -> dict[tuple[str, str], str]:
    return {
        (graph.nodes[module.source].name, graph.nodes[module.target].name): module.kind
        for module in output_modules(graph)
    }


def _named(graph: DistributedJoinGraph) -> set[tuple[str, str]]:
    return {(graph.nodes[source].name, graph.nodes[target].name) for source, target in graph.edges}


def test_footprints_pass_or_not() -> None:
    graph = distribute(RUNNING)
    expected = {
        ("2", "1"): Descriptor(_vector("010"), _vector("110")),
        ("2", "3"): Descriptor(_vector("010"), _vector("011")),
        ("1", "3"): Descriptor(_vector("110"), _vector("111")),
        ("3", "1"): Descriptor(_vector("011"), _vector("111")),
    }
    for (source, target), descriptor in expected.items():
        assert _module(graph, source, target).descriptors == (descriptor,)

    ready_at_2 = _vector("010")
    assert _module(graph, "2", "1").accepts(ready_at_2)
    assert _module(graph, "2", "3").accepts(ready_at_2)

    to_3 = _module(graph, "1", "3")
    assert not to_3.accepts(_vector("000")), "an R tuple has nothing to do at site 3"
    assert not to_3.accepts(_vector("100")), "nor has it after its own site"
    assert to_3.accepts(_vector("010") | _vector("100")), "S has met R at site 1"
    assert not to_3.accepts(_vector("011") | _vector("100")), "RST is an answer"


def test_storage_takes_what_the_source_states() -> None:
    assert storage_bytes(tuples=1000, sites=3, modules=4) == (375.0, 1.5, 1.5)


def test_modules_of_the_running_example() -> None:
    graph = distribute(RUNNING)
    assert _named(graph) == {("2", "1"), ("2", "3")}
    assert [graph.is_partial(graph.position(name)) for name in "123"] == [True, False, True]
    assert _kinds(graph) == {("2", "1"): "RMO", ("2", "3"): "RMO", ("1", "3"): "RO", ("3", "1"): "RO"}


def test_modules_of_figure_5_4() -> None:
    graph = distribute(FIGURE_5_4)
    assert _named(graph) == {("1", "2"), ("4", "2"), ("4", "5"), ("5", "6")}
    assert {node.name for place, node in enumerate(graph.nodes) if graph.is_partial(place)} == {"2", "5", "6"}
    assert _kinds(graph) == {
        ("1", "2"): "RO",
        ("4", "2"): "RMO",
        ("4", "5"): "RMO",
        ("5", "2"): "RMO",
        ("5", "6"): "RMO",
        ("2", "5"): "RMO",
        ("2", "6"): "RMO",
        ("6", "2"): "RO",
    }
    runs = list(every_way(graph, output_modules(graph)))
    assert len(runs) > 1
    assert all(run.answers == 1 and not run.dead_ends for run in runs)


def test_the_start_of_algorithm_5_1_makes_no_difference() -> None:
    for graph in (RUNNING, FIGURE_5_4, *(random_tree(Random(seed), 6, 5) for seed in range(50))):
        first, *others = [distribute(graph, start) for start in graph.streams]
        assert all(other == first for other in others)


def test_links_between_roots_come_from_the_recursion() -> None:
    """1 → 2, 1 → 8, 4 → 2, 4 → 5: what node 1 sends to 8 first may have to go to 5, and the other way around."""
    graph = JoinGraph(
        {"A": "1", "B": "4", "C": "2", "D": "8", "E": "5"},
        (Join("A.a", "C.a", "2"), Join("C.b", "B.b", "2"), Join("A.c", "D.c", "8"), Join("B.d", "E.d", "5")),
    )
    distributed = distribute(graph)
    assert _named(distributed) == {("1", "2"), ("1", "8"), ("4", "2"), ("4", "5")}
    assert {("8", "5"), ("5", "8")} <= _kinds(distributed).keys()
    assert all(run.answers == 1 for run in every_way(distributed, output_modules(distributed)))


def test_linked_siblings_that_both_need_a_third_node_come_to_an_end() -> None:
    """As printed, the algorithm creates 2 → 6, for it 5 → 6, for it 2 → 6, and so on for ever."""
    nodes = tuple(Node(str(number), str(number), (), (), ()) for number in (4, 2, 5, 6))
    graph = DistributedJoinGraph(nodes, frozenset({(0, 1), (0, 2), (0, 3)}))
    assert set(_kinds(graph)) == {
        ("4", "2"), ("4", "5"), ("4", "6"), ("2", "5"), ("5", "2"), ("2", "6"), ("6", "2"), ("5", "6"), ("6", "5"),
    }  # fmt: skip


def test_a_place_with_two_sub_queries_has_two_nodes() -> None:
    """R is read at 1 and joined at 2; S is read at 2 and joined at 1. As two nodes the graph would go in a circle."""
    graph = JoinGraph({"R": "1", "S": "2", "T": "1"}, (Join("R.a", "S.a", "2"), Join("S.b", "T.b", "1")))
    distributed = distribute(graph)
    assert [(node.name, node.streams) for node in distributed.nodes] == [
        ("1", ("R",)),
        ("1/2", ("S", "T")),
        ("2", ("R", "S")),
    ]
    assert _named(distributed) == {("1", "2"), ("2", "1/2")}


def test_cycles_within_a_place_stay_and_cycles_across_places_are_cut() -> None:
    streams = {"R": "1", "S": "2", "T": "3"}
    sides = (("R.a", "S.a"), ("S.b", "T.b"), ("R.c", "T.c"))
    within = cut_cycles(JoinGraph(streams, tuple(Join(left, right, "9") for left, right in sides)))
    assert len(within.joins) == 3
    assert within.selections == ()
    across = cut_cycles(JoinGraph(streams, tuple(Join(*side, place) for side, place in zip(sides, "123", strict=True))))
    assert len(across.joins) == 2
    assert across.selections == (Join("R.c", "T.c", "3"),)


def _holds_on(seed: int, runs: int) -> None:
    """From any start the same graph, without circles; every way ends in one answer, nowhere in vain or twice."""
    random = Random(seed)
    query = random_graph(random, random.randint(2, 8), random.randint(1, 8), random.choice([0, 0, 1, 2]))
    cut = cut_cycles(query)
    graph = distribute(cut)
    assert all(distribute(cut, start) == graph for start in cut.streams)
    assert all(node not in above for node, above in enumerate(graph.ancestors()))
    modules = output_modules(graph)
    for _ in range(runs):
        run = travel(graph, modules, random.choice)
        assert (run.answers, run.dead_ends, run.void, run.redundant) == (1, [], [], []), f"seed {seed}"


def test_both_algorithms_on_random_graphs() -> None:
    for seed in range(300):
        _holds_on(seed, runs=10)


@pytest.mark.prove
def test_both_algorithms_on_many_random_graphs() -> None:
    for seed in range(300, 5_000):
        _holds_on(seed, runs=30)


def test_all_ways_through_small_random_graphs_end_in_an_answer() -> None:
    ways = 0
    for seed in range(60):
        random = Random(seed)
        graph = distribute(random_tree(random, 4, 6))
        for run in every_way(graph, output_modules(graph)):
            ways += 1
            assert (run.answers, run.dead_ends, run.void, run.redundant) == (1, [], [], []), f"seed {seed}"
    assert ways > 100


def test_mistakes_in_a_graph_are_refused_with_advice() -> None:
    with pytest.raises(FederationError, match="no place receives"):
        JoinGraph({"R": "1"}, (Join("R.a", "S.a", "1"),))
    with pytest.raises(FederationError, match="make two queries"):
        JoinGraph({"R": "1", "S": "1"}, ())
    with pytest.raises(FederationError, match="under two names"):
        JoinGraph({"R": "1"}, (Join("R.a", "R.b", "1"),))
