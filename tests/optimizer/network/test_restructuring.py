"""Joins that become selections of weaker ones, and joins again: by the same numbers, with the same rows."""

from __future__ import annotations

import random

from lab.join_sharing import WithoutRestructuring, weighted_size
from tests.optimizer.network.given import GivenSizes, joins, logs_of, register, shape
from tests.optimizer.network.naive import Evaluated, selected
from tests.optimizer.network.test_random_networks import check, some_rows
from weft.algebra import Select
from weft.optimizer.network.planner import Planner

FEW = GivenSizes({"stream s": 1_000})


def pair(low: int, ticks: int, more: str = "") -> str:
    return f"""SELECT x.a AS one, y.b AS two FROM s [RANGE UNBOUNDED] x, s [RANGE UNBOUNDED] y
        WHERE x.k = y.k AND x.s = y.s AND x.a > {low} AND y.clock - x.clock <= {ticks}{more}"""


def triple(low: int, ticks: int) -> str:
    return f"""SELECT x.a AS one, y.b AS two, z.a AS three
        FROM s [RANGE UNBOUNDED] x, s [RANGE UNBOUNDED] y, s [RANGE UNBOUNDED] z
        WHERE x.k = y.k AND x.s = y.s AND x.a > {low} AND y.clock - x.clock <= {ticks} AND y.b = z.b AND y.d = z.d"""


def test_two_joins_become_selections_of_what_they_have_in_common() -> None:
    planner = Planner(statistics=FEW)
    register(planner, "first", pair(3, 1))
    before = planner.network.results["first"]
    register(planner, "second", pair(1, 0))
    assert joins(planner) == 1
    network = planner.network
    assert network.results["first"] == before, "it keeps its number"
    first, second = (network.nodes[network.results[place].node] for place in ("first", "second"))
    assert first.predicates.text == "T1.a >= 4"
    assert second.predicates.text == "T1.clock - T2.clock >= 0"
    assert first.parents == second.parents
    (common,) = first.parents
    assert network.nodes[common].is_join


def test_a_join_gives_way_to_a_new_one_that_is_weaker() -> None:
    planner = Planner(statistics=FEW)
    register(planner, "strong", pair(3, 1))
    register(planner, "weak", pair(1, 1))
    assert joins(planner) == 1
    network = planner.network
    assert network.nodes[network.results["weak"].node].is_join
    assert network.nodes[network.results["strong"].node].parents == (network.results["weak"].node,)


def test_what_is_read_comes_before_who_reads_it() -> None:
    """Nodes have no sequence numbers to keep apart: they are listed in order, wherever a node has come between."""
    planner = Planner(statistics=FEW)
    for place, text in {"strong": pair(3, 1), "above": triple(3, 1), "weak": pair(1, 1), "other": triple(1, 0)}.items():
        register(planner, place, text)
        seen: set[int] = set()
        for node in planner.network.nodes.values():
            assert seen.issuperset(node.parents)
            seen.add(node.number)
    numbers = [node.number for node in planner.network.nodes.values()]
    assert numbers != sorted(numbers), "a node that came later is read by one that was there"


def test_a_range_that_covers_two() -> None:
    planner = Planner(statistics=FEW)
    register(planner, "low", pair(0, 1, " AND x.b >= 1 AND x.b < 2"))
    register(planner, "high", pair(0, 1, " AND x.b >= 5 AND x.b < 7"))
    (join,) = (node for node in planner.network.nodes.values() if node.is_join)
    below = [planner.nodes[parent].selected.text for parent in join.parents]
    checked = " AND ".join([join.predicates.text, *below])
    assert "T1.b > 0" in checked
    assert "T1.b <= 6" in checked


def test_without_restructuring_joins_stay_apart() -> None:
    planner = WithoutRestructuring(FEW)
    register(planner, "first", pair(3, 1))
    register(planner, "second", pair(1, 0))
    assert joins(planner) == 2


def test_what_is_not_worth_it_is_not_put_together() -> None:
    # What both have in common is half of everything: two joins of few rows each cost less.
    statistics = GivenSizes({"stream s": 1_000_000}, {("stream s", "k"): 2, ("stream s", "s"): 2})
    planner = Planner(statistics=statistics)
    register(planner, "first", pair(0, 1, " AND x.b = 1 AND y.b = 1"))
    register(planner, "second", pair(0, 1, " AND x.b = 2 AND y.b = 2"))
    assert joins(planner) == 2


def test_joins_above_a_weakened_one_stay_and_are_found() -> None:
    planner = Planner(statistics=FEW)
    present: dict[str, Select] = {}
    present["long"] = register(planner, "long", triple(3, 1))
    before = planner.network.results["long"]
    present["pair"] = register(planner, "pair", pair(1, 1))
    assert planner.network.results["long"] == before
    levels = joins(planner)
    present["again"] = register(planner, "again", triple(3, 1))
    present["tighter"] = register(planner, "tighter", triple(3, 0))
    assert planner.network.results["again"] == before
    assert joins(planner) == levels, "the second join is found above the weaker first one"
    check(planner, present, some_rows(random.Random(1), 6))


def test_when_the_weaker_query_goes_the_join_is_as_it_was() -> None:
    planner = Planner(statistics=FEW)
    strong = register(planner, "strong", pair(3, 1))
    register(planner, "long", triple(3, 1))
    before, results = weighted_size(planner.network), dict(planner.network.results)
    register(planner, "weak", pair(1, 1))
    planner.deregister("weak")
    assert weighted_size(planner.network) == before
    assert planner.network.results == results
    assert planner.network.nodes[results["strong"].node].is_join
    logs = some_rows(random.Random(2), 6)
    rows = Evaluated(planner.network, logs)
    assert rows.of(results["strong"]) == selected(strong, logs_of(strong), logs)
    register(planner, "again", pair(3, 0))
    assert planner.nodes[planner.network.results["again"].node].anchor == results["strong"].node


def test_a_chain_gets_shorter_when_its_middle_goes() -> None:
    planner = Planner()
    for low in (1, 2, 3):
        register(planner, str(low), f"SELECT a AS x FROM s WHERE a > {low}")
    numbers = {place: result.node for place, result in planner.network.results.items()}
    planner.deregister("2")
    assert shape(planner) == ["1: stream s | TRUE", f"{numbers['1']}: 1 | T1.a >= 2", f"{numbers['3']}: 2 | T1.a >= 4"]


def test_the_same_queries_in_the_same_order_make_the_same_network() -> None:
    def made() -> list[str]:
        planner = Planner(statistics=FEW)
        for number, (low, ticks) in enumerate([(3, 1), (1, 0), (2, 5), (0, 0), (3, 1)]):
            register(planner, f"p{number}", pair(low, ticks))
            register(planner, f"t{number}", triple(low, ticks))
        planner.deregister("p1")
        return shape(planner)

    assert made() == made()
