"""The index of computations: what is kept is what comes back, in the next process too."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.optimizer.network.given import logs_of, q1, select
from weft.algebra import Select
from weft.algebra.codec import dumps, loads
from weft.catalog import CATALOG_FILE, Catalog
from weft.catalog.catalog_errors import CatalogError
from weft.plan.log_ids import LogId, LogKind
from weft.plan.network import Network
from weft.runtime.stages.joins.stored_network import StoredNetwork
from weft.sql.check import check

TEXTS = {
    "1": q1(20),
    "2": q1(10),
    "3": "SELECT a AS x FROM s WHERE a > 3 AND s = 'x' AND d < 2.5",
    "4": "SELECT p.a AS x FROM s [ROWS 4 SLIDE 3] p, t [ROWS 5 SLIDE 3] q WHERE p.k = q.k AND (p.a > 1 OR q.s <> 'y')",
    "5": "SELECT p.a AS x FROM s [RANGE UNBOUNDED] p, s [RANGE UNBOUNDED] q WHERE p.k = q.k AND p.b IN (1, 3)",
    "6": "SELECT a AS x FROM s WHERE 1 = 2",
}


def some(*places: str) -> dict[str, tuple[Select, list[LogId]]]:
    bound = {place: select(TEXTS[place]) for place in places}
    return {place: (each, logs_of(each)) for place, each in bound.items()}


def network_of(stored: StoredNetwork, selects: dict[str, tuple[Select, list[LogId]]]) -> Network:
    """The network of some selects, which is kept."""
    network = stored.planned(selects)
    stored.keep()
    return network


def test_a_network_comes_back_as_it_was(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some(*TEXTS))
    with Catalog.open(tmp_path) as catalog:
        kept = StoredNetwork(catalog)
        assert kept.planner.network == before
        after = network_of(kept, some(*TEXTS))
    assert after == before
    for number, node in before.nodes.items():
        assert [each.literals for each in node.predicates.disjunctions] == [
            each.literals for each in after.nodes[number].predicates.disjunctions
        ]


def test_what_comes_later_finds_what_was_kept(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        first = network_of(StoredNetwork(catalog), some("1"))
    with Catalog.open(tmp_path) as catalog:
        second = network_of(StoredNetwork(catalog), some("1", "2"))
    assert second.results["1"] == first.results["1"]
    assert len(second.nodes) == len(first.nodes) + 1, "only a selection of the ten days is new"


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        with Catalog.open(tmp_path) as catalog:
            kept = StoredNetwork(catalog)
            numbers.extend(network_of(kept, some("1", "3")).nodes)
            network_of(kept, {})
    assert len(set(numbers)) == len(numbers)


def test_what_is_dropped_is_forgotten(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        kept = StoredNetwork(catalog)
        network_of(kept, some(*TEXTS))
        alone = network_of(kept, some("3"))
    with Catalog.open(tmp_path) as catalog:
        assert StoredNetwork(catalog).planner.network == alone


def test_a_stream_that_is_created_again_with_other_columns_is_another_log(tmp_path: Path) -> None:
    """`a > 2.5` is `a >= 3` of an INT, and was `a > 2.5` of a DECIMAL."""

    def over(type_: str, place: str) -> dict[str, tuple[Select, list[LogId]]]:
        script = f"""CREATE STREAM w (n BIGINT, a {type_}) WATERMARK FOR n AS n USING json;
            CREATE CONTINUOUS QUERY q AS SELECT a FROM w WHERE a > 2.5"""
        relation = check(script).queries[0].relation
        assert isinstance(relation, Select)
        return {place: (relation, [LogId(LogKind.STREAM, "w")])}

    with Catalog.open(tmp_path) as catalog:
        network_of(StoredNetwork(catalog), over("DECIMAL(6, 1)", "1"))
    with Catalog.open(tmp_path) as catalog:
        network = network_of(StoredNetwork(catalog), over("INT", "2"))
    with Catalog.open(tmp_path) as catalog:
        assert StoredNetwork(catalog).planner.network == network
    assert described(network) == described(network_of(StoredNetwork(None), over("INT", "2")))


def test_a_reader_plans_without_writing(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some("1"))
    with Catalog.open(tmp_path, write=False) as reader:
        kept = StoredNetwork(reader)
        assert "2" in network_of(kept, some("1", "2")).results
        with pytest.raises(CatalogError, match="opened for reading"):
            reader.computations.save(kept.planner.nodes.changes(), "anybody")
    with Catalog.open(tmp_path) as catalog:
        assert StoredNetwork(catalog).planner.network == before


def test_a_network_and_its_queries_change_together(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some("1"))
        with pytest.raises(RuntimeError, match="could not be added"):
            add_and_fail(catalog)
        assert StoredNetwork(catalog).planner.network == before


def add_and_fail(catalog: Catalog) -> None:
    with catalog.transaction():
        network_of(StoredNetwork(catalog), some("1", "2"))
        raise RuntimeError("the query could not be added")


# -- an index that is of no use ---------------------------------------------------------------------------------------

#: What may have happened to the file behind our back.
DAMAGE = {
    "a node is gone": "DELETE FROM computations WHERE number = (SELECT min(number) FROM computations)",
    "a node is changed": "UPDATE computations SET document = replace(document, '10', '11')",
    "a node is empty": "UPDATE computations SET document = ''",
    "a select is in no node": "UPDATE found SET node = 999",
    "a select has other legs": "UPDATE found SET legs = '[0, 0, 0]'",
    "nobody reads": "DELETE FROM found",
    "numbers begin anew": "UPDATE next_computation SET number = 1",
    "nothing is known of numbers": "DELETE FROM next_computation",
    "another weft has made it": "UPDATE next_computation SET made_by = 'another'",
}


#: What may have happened to a node, by the field that is stored: its place, and its new value for a node's number.
CHANGES: dict[str, tuple[int, Callable[[int, Any], Any]]] = {
    "a node is its own parent": (0, lambda number, parents: (number,) if number > 1 else parents),
    "a node has other legs": (1, lambda number, legs: ("stream v",)),
    "a list is a text": (2, lambda number, conditions: "x"),
    "a node is of another level": (4, lambda number, level: level + 1),
    "a node has another anchor": (5, lambda number, anchor: 1 + number),
    "a join is none": (7, lambda number, anchors: None),
}


def damaged(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / CATALOG_FILE, isolation_level=None)) as connection:
        connection.execute(statement)


def changed(directory: Path, place: int, change: Callable[[int, Any], Any]) -> None:
    with closing(sqlite3.connect(directory / CATALOG_FILE, isolation_level=None)) as connection:
        for number, document in connection.execute("SELECT number, document FROM computations").fetchall():
            fields = list(loads(document))
            fields[place] = change(number, fields[place])
            text = dumps(tuple(fields))
            statement = "UPDATE computations SET document = ?, checksum = ? WHERE number = ?"
            connection.execute(statement, (text, crc32(text.encode()), number))


@pytest.mark.parametrize("damage", [*DAMAGE, *CHANGES])
def test_an_index_that_is_of_no_use_is_planned_anew(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some(*TEXTS))
    statement = DAMAGE.get(damage, "")
    if statement:
        damaged(tmp_path, statement)
    else:
        changed(tmp_path, *CHANGES[damage])
    with Catalog.open(tmp_path, write=False) as reader:
        assert network_of(StoredNetwork(reader), some(*TEXTS)).results.keys() == before.results.keys()
    with Catalog.open(tmp_path) as catalog:
        after = network_of(StoredNetwork(catalog), some(*TEXTS))
    assert described(after) == described(before)
    if "DELETE FROM next_computation" not in statement:
        assert "planned anew" in caplog.text
    caplog.clear()
    with Catalog.open(tmp_path) as catalog:
        assert StoredNetwork(catalog).planner.network == after, "what was planned anew is kept"
    assert not caplog.text


def described(network: Network) -> list[tuple[object, ...]]:
    """Nodes in their order, whatever their numbers."""
    order = {number: position for position, number in enumerate(network.nodes)}
    places: dict[int, list[str]] = {}
    for place, result in network.results.items():
        places.setdefault(result.node, []).append(place)
    return [
        (
            each.legs,
            each.predicates,
            each.columns,
            tuple(order[p] for p in each.parents),
            sorted(places.get(number, [])),
        )
        for number, each in network.nodes.items()
    ]


def test_numbers_go_on_when_a_network_is_planned_anew(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some("1", "3"))
    damaged(tmp_path, DAMAGE["a node is changed"])
    with Catalog.open(tmp_path) as catalog:
        after = network_of(StoredNetwork(catalog), some("1", "3"))
    assert min(after.nodes) > max(before.nodes)


def test_what_could_not_be_written_is_written_with_the_next_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Catalog.open(tmp_path) as catalog:
        kept = StoredNetwork(catalog)
        network_of(kept, some("1"))
        damaged(
            tmp_path, "CREATE TRIGGER full BEFORE INSERT ON found BEGIN SELECT RAISE(FAIL, 'the disk is full'); END"
        )
        assert "2" in network_of(kept, some("1", "2")).results, "the network is there all the same"
        assert "could not be written" in caplog.text
        assert "2" not in StoredNetwork(catalog).planner.network.results
        damaged(tmp_path, "DROP TRIGGER full")
        network = network_of(kept, some("1", "2", "3"))
    with Catalog.open(tmp_path) as catalog:
        assert StoredNetwork(catalog).planner.network == network


def test_planning_alone_writes_nothing(tmp_path: Path) -> None:
    with Catalog.open(tmp_path) as catalog:
        before = network_of(StoredNetwork(catalog), some("1"))
        assert "2" in StoredNetwork(catalog).planned(some("1", "2")).results
        assert StoredNetwork(catalog).planner.network == before
