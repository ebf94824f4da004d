"""The worked examples of the ARGUS digest that planning decides, under their own names, from SQL to network."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lab.join_sharing import MatchPlan, WithoutInference, WithoutJoinSharing, WithoutRestructuring, weighted_size
from tests.optimizer.network.given import GivenSizes, joins, logs_of, q1, register, select, shape
from weft.optimizer.network.choose_joins import JoinChoice, NewJoin
from weft.optimizer.network.planner import Planner
from weft.optimizer.network.wanted import wanted

#: Transfers as the source has them: few of large amounts, most of one type; most amounts are there once.
FED = GivenSizes(
    log_rows={"stream f": 300_000},
    values={("stream f", "amount"): 100_000},
    shares={
        (("stream f",), "T1.type_code = 1000"): Fraction(4, 5),
        (("stream f",), "T1.amount > 500000"): Fraction(1, 1000),
        (("stream f",), "T1.amount > 1000000"): Fraction(1, 2000),
    },
)
#: The same, with the split of amounts measured: the first join of Q1 is then that of r1 and r2, as in the source.
SPLIT_FIRST = GivenSizes(
    FED.log_rows,
    {("stream f", "amount"): 2},
    FED.shares | {(("stream f", "stream f"), "T1.amount - 2*T2.amount < 0"): Fraction(1, 10)},
)

S1 = "T1.amount > 500000 AND T1.type_code = 1000"
P4 = (
    "T1.amount - 2*T2.amount < 0 AND T1.benef_account = T2.orig_account AND T1.rbank_aba - T2.sbank_aba = 0 "
    "AND T1.tran_date - T2.tran_date <= 0 AND T1.tran_date - T2.tran_date >= -1728000000000"
)
P5 = (
    "T2.amount - T3.amount = 0 AND T2.benef_account = T3.orig_account AND T2.rbank_aba - T3.sbank_aba = 0 "
    "AND T2.tran_date - T3.tran_date <= 0 AND T2.tran_date - T3.tran_date >= -1728000000000"
)
TEN_DAYS = "T1.tran_date - T2.tran_date >= -864000000000 AND T2.tran_date - T3.tran_date >= -864000000000"


def with_q1(statistics: GivenSizes = SPLIT_FIRST, make: type[Planner] = Planner) -> Planner:
    planner = make(statistics)
    register(planner, "q1", q1(20))
    return planner


def test_network_of_q1() -> None:
    planner = with_q1()
    assert shape(planner) == [
        "1: stream f | TRUE",
        f"2: 1 | {S1}",
        "3: 2 | T1.amount > 1000000",
        f"4: 3 x 2 | {P4}",
        f"5: 4 x 2 | {P5}",
    ]
    assert weighted_size(planner.network) == 34
    chain = planner.nodes[3]
    assert chain.anchor == 1
    assert chain.selected.text == "T1.amount > 1000000 AND T1.type_code = 1000"
    first, second = planner.nodes[4], planner.nodes[5]
    assert (first.anchor, first.anchors, first.level) == (4, (1, 1, True), 1)
    assert (second.anchor, second.anchors, second.level) == (5, (4, 1, True), 2)
    assert set(second.joined.text.split(" AND ")) == {*P5.split(" AND "), "T3.amount > 500000", "T3.type_code = 1000"}


def test_sharing_q2_as_one_selection() -> None:
    planner = with_q1()
    before = shape(planner)
    register(planner, "q2", q1(10))
    assert shape(planner) == [*before, f"6: 5 | {TEN_DAYS}"]
    assert weighted_size(planner.network) == 37
    found = planner.nodes[6]
    assert (found.anchor, found.level, found.selected.text) == (5, 2, TEN_DAYS)
    # Without sharing of joins, there would be two more of them.
    apart = with_q1(make=WithoutJoinSharing)
    register(apart, "q2", q1(10))
    assert weighted_size(apart.network) == 58


def test_match_plan_and_sharing_selection() -> None:
    there = "SELECT x.a AS c FROM s [RANGE UNBOUNDED] x, t [RANGE UNBOUNDED] y WHERE x.k = y.k"
    wanted_too = """SELECT x.a AS c FROM s [RANGE UNBOUNDED] x, t [RANGE UNBOUNDED] y, u [RANGE UNBOUNDED] z
        WHERE x.k = y.k AND y.a = z.a"""
    # Joining t and u first is best for the second query alone.
    statistics = GivenSizes(
        {"stream s": 100_000, "stream t": 1_000, "stream u": 1_000},
        {("stream t", "a"): 1_000_000, ("stream s", "k"): 10},
    )
    new_joins: dict[type[Planner], int] = {}
    for make in (WithoutRestructuring, MatchPlan):
        planner = make(statistics)
        register(planner, "there", there)
        register(planner, "too", wanted_too)
        new_joins[make] = joins(planner) - 1
    assert new_joins == {WithoutRestructuring: 1, MatchPlan: 2}


def test_anchors_of_selections_and_of_joins() -> None:
    planner = Planner(statistics=GivenSizes({"stream s": 100}))
    for place, bound in enumerate((1, 2, 3)):
        register(planner, f"chain{place}", f"SELECT a AS x FROM s WHERE a > {bound}")
    base, *chain = planner.network.nodes
    assert [planner.nodes[number].parents for number in chain] == [(base,), (chain[0],), (chain[1],)]
    assert {planner.nodes[number].anchor for number in chain} == {base}
    assert planner.nodes[chain[2]].selected.text == "T1.a >= 4"
    join = "SELECT x.a AS c FROM s [RANGE UNBOUNDED] x, s [RANGE UNBOUNDED] y WHERE x.k = y.k AND x.b < y.b"
    register(planner, "join", join)
    register(planner, "above", f"{join} AND x.a > 1")
    register(planner, "further", f"{join} AND x.a > 1 AND x.d = y.d")
    of = {place: planner.nodes[result.node] for place, result in planner.network.results.items()}
    assert of["join"].anchors == (base, base, False)
    assert of["above"].anchor == of["further"].anchor == of["join"].number
    assert of["further"].parents == (of["above"].number,)
    # A comparison of two inputs is a selection of the join's rows; beyond its anchor it counts in full.
    assert of["further"].predicates.text == "T1.d - T2.d = 0"
    assert of["further"].selected.text == "T1.a >= 2 AND T1.d - T2.d = 0"


@pytest.mark.parametrize("turned", [False, True])
def test_either_input_can_be_the_first(turned: bool) -> None:
    planner = Planner()
    link = (
        "{0}.benef_account = {1}.orig_account AND {0}.amount > 5 AND {1}.tran_date - INTERVAL 5 DAYS <= {0}.tran_date"
    )
    text = "SELECT x1.tranid AS a FROM f [RANGE UNBOUNDED] x1, f [RANGE UNBOUNDED] x2 WHERE "
    register(planner, "first", text + link.format("x1", "x2"))
    before = shape(planner)
    register(planner, "second", text + link.format(*(("x2", "x1") if turned else ("x1", "x2"))))
    assert shape(planner) == before
    first, second = planner.network.results["first"], planner.network.results["second"]
    assert second.legs == (first.legs[::-1] if turned else first.legs)


def test_projections_grow_by_what_is_needed() -> None:
    planner = with_q1()
    before = {number: set(node.columns) for number, node in planner.network.nodes.items()}
    assert before[5] == {(0, "tranid"), (1, "tranid"), (2, "tranid")}
    register(planner, "q2", q1(10))
    after = {number: set(node.columns) for number, node in planner.network.nodes.items()}
    assert after[4] - before[4] == {(0, "tran_date")}
    assert after[5] - before[5] == {(0, "tran_date"), (1, "tran_date"), (2, "tran_date")}
    assert all(after[number] == before[number] for number in (1, 2, 3))
    planner.deregister("q2")
    assert {number: set(node.columns) for number, node in planner.network.nodes.items()} == before


def test_columns_of_q1() -> None:
    planner = with_q1()
    counts = {number: len(node.columns) for number, node in planner.network.nodes.items() if node.parents}
    # S1 keeps all that is read above it but the type, which it has checked; the others keep what the source says.
    assert counts == {2: 7, 3: 5, 4: 6, 5: 3}


def test_the_join_graph_has_an_edge_for_each_equi_join() -> None:
    text = """SELECT a.a AS x FROM s [RANGE UNBOUNDED] a, t [RANGE UNBOUNDED] b, u [RANGE UNBOUNDED] c,
        v [RANGE UNBOUNDED] d WHERE a.k = b.k AND b.a = c.a AND a.b = c.b AND c.s = d.s"""
    statistics = GivenSizes({"stream s": 10, "stream t": 10, "stream u": 1_000, "stream v": 1_000})
    bound = select(text)
    best = JoinChoice(wanted(bound, logs_of(bound)), Planner(statistics).estimates).best()
    assert isinstance(best, NewJoin)
    assert isinstance(best.left_part, NewJoin)
    # 1 and 2 first; joining them with 3 applies both P(2,3) and P(1,3); 4 can only follow 3.
    assert best.left_part.left_part.legs == (0, 1)
    assert best.left_part.right_part.legs == (2,)
    assert best.right_part.legs == (3,)


def test_selections_that_keep_most_rows_are_part_of_the_join() -> None:
    planner = with_q1(SPLIT_FIRST, WithoutInference)
    checked = [node.predicates.text for node in planner.network.nodes.values()]
    assert checked.count("T1.amount > 1000000 AND T1.type_code = 1000") == 1, "r1 is selected apart"
    assert not any(text == "T1.type_code = 1000" for text in checked), "r2 and r3 are not"
    assert sum(".type_code = 1000" in text for text in checked) == 3


def test_a_query_that_is_there_already() -> None:
    planner = with_q1()
    before = shape(planner)
    rewritten = """SELECT c.tranid AS x, a.tranid AS y, b.tranid AS z FROM f b, f c, f a
        WHERE b.tran_date + INTERVAL 20 DAYS >= c.tran_date AND c.amount - b.amount = 0 AND c.tran_date >= b.tran_date
        AND c.orig_account = b.benef_account AND b.rbank_aba = c.sbank_aba AND a.amount > 1000000
        AND a.amount < 2 * b.amount AND b.sbank_aba - a.rbank_aba = 0 AND b.orig_account = a.benef_account
        AND a.tran_date <= b.tran_date AND b.tran_date - INTERVAL 20 DAYS <= a.tran_date
        AND a.type_code = 1000 AND 1000 = b.type_code AND c.type_code BETWEEN 1000 AND 1000"""
    register(planner, "again", q1(20))
    register(planner, "rewritten", rewritten)
    assert shape(planner) == before
    assert planner.network.results["again"] == planner.network.results["q1"]
    legs = planner.network.results["q1"].legs
    assert planner.network.results["rewritten"].legs == (legs[1], legs[2], legs[0])


def test_duplicates_come_and_go() -> None:
    planner = with_q1()
    before = shape(planner)
    register(planner, "again", q1(20))
    planner.deregister("q1")
    assert shape(planner) == before
    planner.deregister("again")
    assert shape(planner) == []
