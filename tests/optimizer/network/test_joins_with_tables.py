"""Tables as legs of the network."""

from __future__ import annotations

import pytest

from tests.optimizer.network.given import register
from weft.optimizer.network.planner import Planner


@pytest.mark.parametrize(
    "text",
    [
        "SELECT s.a FROM r1, r2, s WHERE r1.k = r2.k AND r2.a = s.a",
        "SELECT s.a FROM r1, r2, s WHERE r1.k = r2.k",
        "SELECT s.a FROM r1, r2, s",
        "SELECT s.a FROM r1 x, r1 y, r1 z, r2 u, r2 v, r2 w, r1 p, r2 q, s WHERE x.k = y.k AND p.a = q.a AND s.b = q.b",
        "SELECT s.a FROM r1, r2, s [ROWS 5], t [ROWS 5] WHERE r1.k = r2.k AND r1.a = s.a AND r2.a = t.a",
    ],
)
def test_tables_are_not_joined_with_each_other(text: str) -> None:
    planner = Planner()
    bound = register(planner, "q", text)
    found = [node for node in planner.network.nodes.values() if node.is_join]
    assert len(found) == len(bound.inputs) - 1
    assert all(not all(leg.is_table for leg in node.legs) for node in found)


def test_a_join_of_one_stream_with_tables_takes_late_rows_and_shares() -> None:
    planner = Planner()
    register(planner, "few", "SELECT s.a FROM s JOIN r1 ON s.k = r1.k WHERE r1.a > 5")
    register(planner, "fewer", "SELECT s.b FROM r1 JOIN s ON s.k = r1.k WHERE r1.a > 7")
    (join,) = [node for node in planner.network.nodes.values() if node.is_join]
    assert not join.timely
