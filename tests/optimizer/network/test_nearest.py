"""The nearest node, and what is in the way: worked examples, and beside a search through all nodes."""

from __future__ import annotations

import random

import pytest

from lab.join_sharing import WithoutRestructuring
from tests.optimizer.network.given import logs_of, register, select
from tests.optimizer.network.test_random_networks import a_select
from weft.optimizer.network.nearest import Nearest, Neighbours
from weft.optimizer.network.nodes import Entry
from weft.optimizer.network.planner import Planner
from weft.predicates.clauses import Disjunction, PredicateSet, set_implies


def planned(*texts: str, make: type[Planner] = WithoutRestructuring) -> Planner:
    planner = make()
    for number, text in enumerate(texts):
        register(planner, str(number), text)
    return planner


def nearest_to(planner: Planner, place: str) -> Nearest | None:
    return Neighbours(planner.nodes).nearest(planner.network.results[place].node)


def texts(conditions: tuple[Disjunction, ...]) -> list[str]:
    return [each.text for each in conditions]


def in_the_way(found: Nearest | None) -> list[tuple[str, list[str]]]:
    assert found is not None
    return [(each.text, texts(instead)) for each, instead in found.in_the_way]


def test_a_selection_that_keeps_too_few_rows() -> None:
    planner = planned("SELECT a FROM s WHERE a > 100 AND k = 1", "SELECT a FROM s WHERE a > 50 AND k = 1")
    found = nearest_to(planner, "1")
    assert found is not None
    assert found.node == planner.network.results["0"].node
    assert in_the_way(found) == [("T1.a > 100", ["T1.a > 50"])]


def test_what_nobody_asks_for_has_nothing_in_its_place() -> None:
    planner = planned("SELECT a FROM s WHERE a > 100 AND k = 1", "SELECT a FROM s WHERE b = 2 AND k = 1")
    assert in_the_way(nearest_to(planner, "1")) == [("T1.a > 100", [])]


def test_the_one_with_most_conditions_in_common_is_the_nearest() -> None:
    planner = planned(
        "SELECT a FROM s WHERE a = 1 AND k = 2",
        "SELECT a FROM s WHERE a = 1 AND b = 3 AND k > 4",
        "SELECT a FROM s WHERE a = 1 AND b = 3 AND k > 2 AND s = 'x'",
    )
    found = nearest_to(planner, "2")
    assert found is not None
    assert found.node == planner.network.results["1"].node
    assert in_the_way(found) == [("T1.k >= 5", ["T1.k >= 3"])]


def test_a_join_by_other_equations() -> None:
    join = "SELECT p.a AS x FROM s [ROWS 5] p, t [ROWS 5] q WHERE {} AND p.b > 3"
    planner = planned(join.format("p.k = q.k"), join.format("p.a = q.k"))
    found = nearest_to(planner, "1")
    assert found is not None
    assert texts(found.its_equations) == ["T1.k - T2.k = 0"]
    assert texts(found.own_equations) == ["T1.a - T2.k = 0"]
    assert found.in_the_way == ()


def test_one_equation_more_is_a_condition_like_any_other() -> None:
    join = "SELECT p.a AS x FROM s [ROWS 5] p, t [ROWS 5] q WHERE p.k = q.k AND {}"
    planner = planned(join.format("p.a = q.a"), join.format("p.a > q.a"))
    found = nearest_to(planner, "1")
    assert found is not None
    assert (found.its_equations, found.own_equations) == ((), ())
    assert in_the_way(found) == [("T1.a - T2.a = 0", ["T1.a - T2.a > 0"])]


def test_inputs_may_change_places() -> None:
    """Both join s with itself; what the one says of its first input, the other says of its second."""
    planner = planned(
        "SELECT p.a AS x FROM s [ROWS 5] p, s [ROWS 5] q WHERE p.k = q.b AND p.a > 7",
        "SELECT p.a AS x FROM s [ROWS 5] p, s [ROWS 5] q WHERE q.k = p.b AND q.a > 3",
    )
    assert in_the_way(nearest_to(planner, "1")) == [("T2.a >= 8", ["T2.a >= 4"])]


def test_late_rows_tell_joins_apart() -> None:
    join = "SELECT p.a AS x FROM s [{0}] p, s [{0}] q WHERE p.k = q.b"
    planner = planned(join.format("ROWS 5"), join.format("RANGE UNBOUNDED"))
    found = nearest_to(planner, "1")
    assert found is not None
    assert found.differs_in_lateness
    wider = "SELECT p.a AS x FROM s [RANGE UNBOUNDED] p, s [RANGE UNBOUNDED] q WHERE p.k = q.b AND p.a + q.a = 9"
    found = nearest_to(planned(join.format("ROWS 5"), join.format("RANGE UNBOUNDED"), wider), "0")
    assert found is not None
    assert found.differs_in_lateness, "all that are timely like it are left out: there are none"


def test_nobody_else_is_there() -> None:
    planner = planned("SELECT a FROM s WHERE a > 100", "SELECT a FROM t WHERE a > 100")
    assert nearest_to(planner, "0") is None
    assert Neighbours(planner.nodes).nearest(planner.nodes.base("stream s")) is None


def test_nodes_that_are_left_out_are_not_the_nearest() -> None:
    planner = planned("SELECT a FROM s WHERE a > 100", "SELECT a FROM s WHERE a > 50", "SELECT a FROM s WHERE k = 1")
    one, other, last = (planner.network.results[place].node for place in "012")
    found = Neighbours(planner.nodes).nearest(last, {one})
    assert found is not None
    assert found.node == other


# -- beside a search through all nodes --------------------------------------------------------------------------------


def demands(entry: Entry) -> PredicateSet:
    return entry.joined if entry.anchors is not None else entry.selected


def ground(entry: Entry) -> object:
    return entry.anchor if entry.anchors is None else entry.anchors


def followed(wanted: PredicateSet, theirs: PredicateSet) -> int:
    """How many conditions of the one follow from single ones of the other."""
    one_by_one = [PredicateSet(each.text, (each,)) for each in theirs.disjunctions]
    return sum(any(set_implies(PredicateSet(w.text, (w,)), each) for w in wanted.disjunctions) for each in one_by_one)


@pytest.mark.parametrize("seed", range(25))
def test_no_other_node_has_more_in_common(seed: int) -> None:
    pick = random.Random(seed)
    planner = WithoutRestructuring()
    for number in range(9):
        bound = select(a_select(pick))
        planner.register(str(number), bound, logs_of(bound))
    neighbours = Neighbours(planner.nodes)
    compared = 0
    for number, entry in planner.nodes.entries.items():
        if not entry.parents:
            continue
        alike = [
            each
            for each in planner.nodes.entries.values()
            if each.number != number and each.parents and ground(each) == ground(entry)
        ]
        found = neighbours.nearest(number)
        if not alike or found is None or found.differs_in_lateness:
            assert not alike
            continue
        best = max(followed(demands(entry), demands(each)) for each in alike)
        theirs = demands(planner.nodes[found.node])
        open_ = len(found.in_the_way) + len(found.its_equations)
        assert len(theirs.disjunctions) - open_ >= best
        compared += 1
    assert compared or seed % 5
