"""The auction queries of the source, their representative, and who contains whom."""

from __future__ import annotations

import pytest

from tests.optimizer.group_results.delivering import delivered, published
from tests.oracle import Oracle
from weft.algebra import Query, Select
from weft.optimizer.group_results import Groups, TrafficStatistics
from weft.optimizer.group_results.forms import Form, contains
from weft.optimizer.group_results.shapes import shape_of
from weft.sql import NamesInMemory, read, statements

#: Clocks count minutes.
HOUR = 60
STREAMS = (
    "CREATE STREAM open_auction (item BIGINT, seller BIGINT, price BIGINT, t BIGINT) WATERMARK FOR t AS t - 600 "
    "USING parquet",
    "CREATE STREAM closed_auction (item BIGINT, buyer BIGINT, t BIGINT) WATERMARK FOR t AS t - 600 USING parquet",
)
Q3 = (
    f"SELECT o.item, o.seller, o.price, o.t FROM open_auction o [ROWS {3 * HOUR}], closed_auction c [NOW] "
    "WHERE o.item = c.item"
)
Q4 = (
    f"SELECT o.item, o.t, c.buyer, c.t AS closed FROM open_auction o [ROWS {5 * HOUR}], closed_auction c [NOW] "
    "WHERE o.item = c.item"
)
Q5 = (
    "SELECT o.item, o.seller, o.price, o.t, c.buyer, c.t AS closed "
    f"FROM open_auction o [ROWS {5 * HOUR}], closed_auction c [NOW] WHERE o.item = c.item"
)


def names() -> NamesInMemory:
    found = NamesInMemory()
    for text in STREAMS:
        statement = read(text, found)
        assert isinstance(statement, statements.Create)
        found.add(statement.definition)
    return found


def bound(name: str, text: str) -> Query:
    statement = read(f"CREATE CONTINUOUS QUERY {name} AS {text}", names())
    assert isinstance(statement, statements.Create)
    return statement.definition


def form(text: str) -> Form:
    shape = shape_of(bound("q", text))
    assert shape is not None
    groups = Groups(TrafficStatistics())
    groups.insert("q", bound("q", text))
    (forest,) = groups._forests.values()
    (tree,) = forest.trees
    return tree.root.form


def answers(queries: list[Query], opened: int, closed: int) -> dict[str, list[tuple[object, ...]]]:
    """What queries answer when auction 7 opens and closes at these minutes."""
    oracle = Oracle(names().definitions.values())
    for query in queries:
        oracle.create(query)
    rows = {
        "open_auction": [{"item": 7, "seller": 1, "price": 9, "t": opened}],
        "closed_auction": [{"item": 7, "buyer": 2, "t": closed}, {"item": 8, "buyer": 3, "t": closed}],
    }
    return oracle.cycle(rows)


def test_q3_and_q4_become_q5_and_residuals_give_each_its_own() -> None:
    queries = {"q3": bound("q3", Q3), "q4": bound("q4", Q4)}
    groups = Groups(TrafficStatistics())
    for name, query in queries.items():
        groups.insert(name, query)
    assert groups.group_of("q3") == groups.group_of("q4")
    representative = groups.representative(groups.group_of("q3"))
    (part,) = representative.parts
    assert isinstance(part.query.relation, Select)
    # The inputs have an order of their own: that of their names.
    assert [each.window.range for each in part.query.relation.inputs if each.window] == [1, 5 * HOUR]
    # O.*, C.buyer and C.t, and no more.
    assert len(representative.columns) == 6
    # p1 and p2: what was loosened is made tight again.
    ranges = {name: [ticks for _, ticks in groups.subscription(name).meeting.ranges] for name in queries}
    assert ranges == {"q3": [1, 3 * HOUR], "q4": [1, 5 * HOUR]}
    for closed in (0, 179, 180, 181, 299, 300, -1):
        alone = answers(list(queries.values()), 0, closed)
        rows = published(representative, answers([part.query], 0, closed))
        for name in queries:
            assert delivered(groups.subscription(name), rows) == alone[name], (name, closed)


@pytest.mark.parametrize(("closed", "joins"), [(179, True), (180, True), (181, False), (0, True), (-1, False)])
def test_lemma_3_1_with_closed_bounds(closed: int, joins: bool) -> None:
    """T = (3 h, 0), as the source has it: 3 h 00 still joins. In weft conditions on clocks say such bounds."""
    text = (
        "SELECT o.item FROM open_auction o, closed_auction c "
        f"WHERE o.item = c.item AND o.t >= c.t - {3 * HOUR} AND o.t <= c.t"
    )
    assert bool(answers([bound("q", text)], 0, closed)["q"]) == joins


@pytest.mark.parametrize(("closed", "joins"), [(179, True), (180, False), (0, True), (-1, False)])
def test_windows_are_half_open(closed: int, joins: bool) -> None:
    """A window of 3 h is (τ − 3 h, τ]: what opened just 3 h ago has left it."""
    assert bool(answers([bound("q3", Q3)], 0, closed)["q3"]) == joins


def test_containment_of_queries() -> None:
    assert contains(form(Q3), form(Q5))
    assert contains(form(Q4), form(Q5))
    assert not contains(form(Q5), form(Q3))


def test_aggregates_are_contained_only_with_equal_windows() -> None:
    def counted(hours: int, where: str = "") -> str:
        return (
            f"SELECT seller, COUNT(*) AS c FROM open_auction [ROWS {hours * HOUR} SLIDE {HOUR}] {where} GROUP BY seller"
        )

    def together(*texts: str) -> bool:
        groups = Groups(TrafficStatistics())
        for number, text in enumerate(texts):
            groups.insert(f"q{number}", bound(f"q{number}", text))
        return len({groups.group_of(f"q{number}") for number in range(len(texts))}) == 1

    shapes = {hours: shape_of(bound("q", counted(hours))) for hours in (3, 5)}
    assert shapes[3] is not None
    assert shapes[5] is not None
    assert shapes[3].family != shapes[5].family
    assert not together(counted(3), counted(5))
    assert together(counted(3), counted(3, "WHERE seller > 4"))
