"""The index of computations: what is kept is what comes back, in the next process too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.optimizer.network.given import logs_of, q1, select
from weft.algebra import Select
from weft.catalog import Catalog, CatalogReadOnly
from weft.optimizer.network import KeptNetwork

TEXTS = {
    "1": q1(20),
    "2": q1(10),
    "3": "SELECT a AS x FROM s WHERE a > 3 AND s = 'x' AND d < 2.5",
    "4": "SELECT p.a AS x FROM s [ROWS 4 SLIDE 3] p, t [ROWS 5 SLIDE 3] q WHERE p.k = q.k AND (p.a > 1 OR q.s <> 'y')",
    "5": "SELECT p.a AS x FROM s [RANGE UNBOUNDED] p, s [RANGE UNBOUNDED] q WHERE p.k = q.k AND p.b IN (1, 3)",
    "6": "SELECT a AS x FROM s WHERE 1 = 2",
}


def some(*places: str) -> dict[str, tuple[Select, list[str]]]:
    bound = {place: select(TEXTS[place]) for place in places}
    return {place: (each, logs_of(each)) for place, each in bound.items()}


def test_a_network_comes_back_as_it_was(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = KeptNetwork(catalog).network_of(some(*TEXTS))
    with Catalog.open(tmp_path) as catalog:
        kept = KeptNetwork(catalog)
        assert kept.planner.network == before
        after = kept.network_of(some(*TEXTS))
    assert after == before
    for number, node in before.nodes.items():
        assert [each.literals for each in node.predicates.disjunctions] == [
            each.literals for each in after.nodes[number].predicates.disjunctions
        ]


def test_what_comes_later_finds_what_was_kept(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        first = KeptNetwork(catalog).network_of(some("1"))
    with Catalog.open(tmp_path) as catalog:
        second = KeptNetwork(catalog).network_of(some("1", "2"))
    assert second.results["1"] == first.results["1"]
    assert len(second.nodes) == len(first.nodes) + 1, "only a selection of the ten days is new"


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        with Catalog.open(tmp_path) as catalog:
            kept = KeptNetwork(catalog)
            numbers.extend(kept.network_of(some("1", "3")).nodes)
            kept.network_of({})
    assert len(set(numbers)) == len(numbers)


def test_what_is_dropped_is_forgotten(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        kept = KeptNetwork(catalog)
        kept.network_of(some(*TEXTS))
        alone = kept.network_of(some("3"))
    with Catalog.open(tmp_path) as catalog:
        assert KeptNetwork(catalog).planner.network == alone


def test_a_reader_plans_without_writing(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = KeptNetwork(catalog).network_of(some("1"))
    with Catalog.open(tmp_path, write=False) as reader:
        kept = KeptNetwork(reader)
        assert "2" in kept.network_of(some("1", "2")).results
        with pytest.raises(CatalogReadOnly):
            reader.keep_computations(kept.planner.nodes.take_changes())
    with Catalog.open(tmp_path) as catalog:
        assert KeptNetwork(catalog).planner.network == before


def test_a_network_and_its_queries_change_together(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = KeptNetwork(catalog).network_of(some("1"))
        with pytest.raises(RuntimeError, match="could not be added"):
            add_and_fail(catalog)
        assert KeptNetwork(catalog).planner.network == before


def add_and_fail(catalog: Catalog) -> None:
    with catalog.transaction():
        KeptNetwork(catalog).network_of(some("1", "2"))
        raise RuntimeError("the query could not be added")
