"""EXPLAIN (VERBOSE): what each rule does, and every node with whom it is for."""

from __future__ import annotations

import pytest

from tests.runtime.joins.workloads import workload
from weft.algebra import Query
from weft.explain.explained import explained
from weft.optimizer.optimizer import RULES
from weft.plan.facts import NOT_MEASURED
from weft.sql.check import check


def bound(seed: int) -> tuple[Query, ...]:
    told = workload(seed, queries=10)
    return tuple(check(";".join([*told.streams.values(), *told.tables.values(), *told.queries.values()])).queries)


@pytest.mark.parametrize("seed", range(5))
def test_every_rule_and_every_query_is_told_of(seed: int) -> None:
    queries = bound(seed)
    text = explained(queries, None, NOT_MEASURED, "VERBOSE")
    rules = text.partition("rules, one after the other\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[1] for line in rules] == [each.__name__ for each in RULES]
    for query in queries:
        assert f"  output {query.name} <- rows " in text


def test_one_query_is_shown_with_the_nodes_that_it_needs() -> None:
    queries = check(
        """CREATE STREAM s (n BIGINT, k STRING, v BIGINT) WATERMARK FOR n AS n USING memory;
        CREATE CONTINUOUS QUERY sums AS SELECT k, SUM(v) AS v FROM s [ROWS 10 SLIDE 5] GROUP BY k;
        CREATE CONTINUOUS QUERY large AS SELECT k FROM s WHERE v > 100;"""
    ).queries
    text = explained(queries, queries[1], NOT_MEASURED, "VERBOSE")
    assert "share_joins" in text
    assert "where T1.v >= 101" in text or "where T1.v > 100" in text
    assert "window tree" not in text.partition("nodes, each after")[2]
    whole = explained(queries, queries[0], NOT_MEASURED, "VERBOSE")
    assert "keeps count(1), count(v), sum(" in whole or "keeps count(1)" in whole
    assert "windows [RANGE 10 SLIDE 5]" in whole
