"""The shared plan in the catalog: what is kept is what comes back, in the next process too."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.optimizer.network.given import q1, select
from tests.support.plans import running
from weft.algebra import Query
from weft.algebra.codec import dumps, loads
from weft.catalog import CATALOG_FILE, Catalog
from weft.catalog.catalog_errors import CatalogError
from weft.catalog.plan_nodes import digest_of, document_of
from weft.loom import Loom
from weft.optimizer.optimizer import optimise
from weft.optimizer.rules.facts import Facts
from weft.plan.network import Network
from weft.plan.nodes import NetworkNode
from weft.plan.shared_plan import SharedPlan
from weft.runtime.state.stored_plan import StoredPlan

TEXTS = {
    "1": q1(20),
    "2": q1(10),
    "3": "SELECT a AS x FROM s WHERE a > 3 AND s = 'x' AND d < 2.5",
    "4": "SELECT p.a AS x FROM s [ROWS 4 SLIDE 3] p, t [ROWS 5 SLIDE 3] q WHERE p.k = q.k AND (p.a > 1 OR q.s <> 'y')",
    "5": "SELECT p.a AS x FROM s [RANGE UNBOUNDED] p, s [RANGE UNBOUNDED] q WHERE p.k = q.k AND p.b IN (1, 3)",
    "6": "SELECT a AS x FROM s WHERE 1 = 2",
    "7": "SELECT a, SUM(b) AS x FROM s [ROWS 6 SLIDE 2] WHERE k > 1 GROUP BY a",
    "8": "SELECT a, MAX(b) AS x FROM s GROUP BY a HAVING MAX(b) > 3",
    "9": "SELECT COUNT(DISTINCT b) AS x FROM s [ROWS 6 SLIDE 2]",
}


def given(*names: str) -> list[Query]:
    return [Query(f"q{name}", select(TEXTS[name]), None) for name in names]


def kept(stored: StoredPlan, *names: str) -> SharedPlan:
    """The plan of some queries, which follows the one that is stored, and is stored."""
    plan = optimise(running(given(*names)), Facts(), stored.load())
    stored.keep(plan)
    return plan


def opened(directory: Path, *, write: bool = True) -> Catalog:
    """A catalog that has the streams of the given queries."""
    if write:
        with Loom.open(directory) as loom:
            if not loom.catalog.streams():
                sources = {each for query in given(*TEXTS) for each in _streams(query)}
                for stream in sources:
                    loom.catalog.add(stream)
    return Catalog.open(directory, write=write)


def _streams(query: Query) -> list[Any]:
    from weft.algebra.properties import leaves

    return list(leaves(query.relation))


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        before = kept(StoredPlan(catalog), *TEXTS)
        assert StoredPlan(catalog).load().nodes == before.nodes
    with opened(tmp_path) as catalog:
        assert kept(StoredPlan(catalog), *TEXTS).nodes == before.nodes
    for node in before.of(NetworkNode):
        there = before.nodes[node.id]
        assert isinstance(there, NetworkNode)
        assert there.computation is not None


def test_a_plan_has_the_digest_of_its_nodes(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        stored = StoredPlan(catalog)
        for names in (("1", "3", "7"), ("1", "7", "8"), (), ("8", "2")):
            plan = kept(stored, *names)
            assert stored.digest == digest_of(map(document_of, plan.nodes.values()))
            assert StoredPlan(catalog).load().nodes == plan.nodes


def test_what_comes_later_finds_what_was_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        first = kept(StoredPlan(catalog), "1").network
    with opened(tmp_path) as catalog:
        second = kept(StoredPlan(catalog), "1", "2").network
    ((place, result),) = first.results.items()
    assert second.results[place] == result
    assert len(second.nodes) == len(first.nodes) + 1, "only a selection of the ten days is new"


def test_numbers_are_never_used_twice(tmp_path: Path) -> None:
    numbers: list[int] = []
    for _ in range(3):
        with opened(tmp_path) as catalog:
            stored = StoredPlan(catalog)
            numbers.extend(kept(stored, "1", "3").network.nodes)
            kept(stored)
    assert len(set(numbers)) == len(numbers)


def test_what_is_dropped_is_forgotten(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        stored = StoredPlan(catalog)
        kept(stored, *TEXTS)
        alone = kept(stored, "3")
    with opened(tmp_path) as catalog:
        assert StoredPlan(catalog).load().nodes == alone.nodes
    assert not kept_nodes_besides(alone)


def kept_nodes_besides(plan: SharedPlan) -> set[str]:
    """The nodes that no query needs."""
    return {id_ for id_ in plan.nodes if not plan.users_of(id_)}


def test_a_reader_plans_without_writing(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        before = kept(StoredPlan(catalog), "1")
    with opened(tmp_path, write=False) as reader:
        assert "q2" in kept(StoredPlan(reader), "1", "2").outputs
        with pytest.raises(CatalogError, match="opened for reading"):
            reader.plan_nodes.save((), (), 1, "anybody")
    with opened(tmp_path) as catalog:
        assert StoredPlan(catalog).load().nodes == before.nodes


def test_a_plan_and_its_queries_change_together(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        before = kept(StoredPlan(catalog), "1")
        with pytest.raises(RuntimeError, match="could not be added"):
            add_and_fail(catalog)
        assert StoredPlan(catalog).load().nodes == before.nodes


def add_and_fail(catalog: Catalog) -> None:
    with catalog.transaction():
        kept(StoredPlan(catalog), "1", "2")
        raise RuntimeError("the query could not be added")


# -- a plan that is of no use -----------------------------------------------------------------------------------------

#: What may have happened to the file behind our back.
DAMAGE = {
    "a node is gone": "DELETE FROM nodes WHERE id = (SELECT min(id) FROM nodes WHERE id LIKE 'scan %')",
    "a node is changed": "UPDATE nodes SET document = replace(document, '10', '11')",
    "a node is empty": "UPDATE nodes SET document = ''",
    "nobody reads": "DELETE FROM nodes WHERE id LIKE 'rows %'",
    "numbers begin anew": "UPDATE shared_plan SET next_number = 1",
    "nothing is known of numbers": "DELETE FROM shared_plan",
    "another weft has made it": "UPDATE shared_plan SET made_by = 'another'",
}

#: What may have happened to a node: the field, and its new value for a node's number.
CHANGES: dict[str, tuple[str, Callable[[int, Any], Any]]] = {
    "a node is its own parent": ("parents", lambda number, parents: (number,) if number > 1 else parents),
    "a node has other legs": ("legs", lambda number, legs: (legs[0], legs[0], legs[0], legs[0], legs[0])),
    "a node is of another level": ("level", lambda number, level: level + 1),
    "a node has another anchor": ("anchor", lambda number, anchor: 1 + number),
    "a join is none": ("join_anchors", lambda number, anchors: None),
}


def damaged(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / CATALOG_FILE, isolation_level=None)) as connection:
        connection.execute(statement)


def changed(directory: Path, field: str, change: Callable[[int, Any], Any]) -> None:
    sources = {each.name: each for query in given(*TEXTS) for each in _streams(query)}
    with closing(sqlite3.connect(directory / CATALOG_FILE, isolation_level=None)) as connection:
        for id_, document in connection.execute("SELECT id, document FROM nodes").fetchall():
            node = loads(document, sources.__getitem__)
            if isinstance(node, NetworkNode) and node.computation is not None:
                value = change(node.computation.number, getattr(node.computation, field))
                text = dumps(replace(node, computation=replace(node.computation, **{field: value})))
                statement = "UPDATE nodes SET document = ?, checksum = ? WHERE id = ?"
                connection.execute(statement, (text, crc32(text.encode()), id_))


@pytest.mark.parametrize("damage", [*DAMAGE, *CHANGES])
def test_a_plan_that_is_of_no_use_is_made_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path) as catalog:
        before = kept(StoredPlan(catalog), *TEXTS)
    statement = DAMAGE.get(damage, "")
    if statement:
        damaged(tmp_path, statement)
    else:
        changed(tmp_path, *CHANGES[damage])
    with opened(tmp_path, write=False) as reader:
        assert kept(StoredPlan(reader), *TEXTS).nodes.keys() == before.nodes.keys()
    with opened(tmp_path) as catalog:
        after = kept(StoredPlan(catalog), *TEXTS)
    assert after.nodes.keys() == before.nodes.keys()
    assert described(after.network) == described(before.network)
    assert "made again" in caplog.text
    caplog.clear()
    with opened(tmp_path) as catalog:
        assert StoredPlan(catalog).load().nodes == after.nodes, "what was made again is kept"
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


def test_numbers_go_on_when_a_plan_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        before = kept(StoredPlan(catalog), "1", "3").network
    damaged(tmp_path, DAMAGE["a node is changed"])
    with opened(tmp_path) as catalog:
        after = kept(StoredPlan(catalog), "1", "3").network
    assert min(after.nodes) > max(before.nodes)


def test_what_could_not_be_written_is_written_with_the_next_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as catalog:
        stored = StoredPlan(catalog)
        kept(stored, "1")
        damaged(
            tmp_path, "CREATE TRIGGER full BEFORE INSERT ON nodes BEGIN SELECT RAISE(FAIL, 'the disk is full'); END"
        )
        assert "q2" in kept(stored, "1", "2").outputs, "the plan is there all the same"
        assert "could not be written" in caplog.text
        assert "q2" not in StoredPlan(catalog).load().outputs
        damaged(tmp_path, "DROP TRIGGER full")
        plan = kept(stored, "1", "2", "3")
    with opened(tmp_path) as catalog:
        assert StoredPlan(catalog).load().nodes == plan.nodes
