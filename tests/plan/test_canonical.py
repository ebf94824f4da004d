"""Normalising changes the shape of a relation and never its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from sqlglot import exp

from tests.oracle import Oracle
from tests.oracle_script import Script
from tests.oracle_values import row_key
from tests.sql.given import given_names
from tests.support.generator import Workload, workloads
from tests.support.golden import FIXTURES, Example, read_golden, rewrite_golden
from weft.algebra import Query
from weft.algebra.properties import clock_column
from weft.explain.query_text import query_text
from weft.plan.canonical import normalised
from weft.sql import parse
from weft.sql.relation_binder import bind_relation

GOLDEN = FIXTURES / "plan" / "normal.sql"
EXAMPLES = read_golden(GOLDEN)


def normal_form(select: str) -> str:
    tree = parse(select)
    assert isinstance(tree, exp.Query)
    relation = bind_relation(tree, given_names())
    return query_text(Query("q", normalised(relation), clock_column(relation)))


@pytest.fixture(scope="module", autouse=True)
def _rewritten(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        rewrite_golden(GOLDEN, normal_form)
        pytest.skip("golden files are rewritten; read the diff, then run the tests again")


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"normal:{example.line}" for example in EXAMPLES])
def test_the_normal_form_of_each_operator(example: Example) -> None:
    assert normal_form(example.statement) == example.expected


@given(workload=workloads())
@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_normal_form_has_the_same_answers(workload: Workload) -> None:
    script = Script(";".join([*workload.streams.values(), *workload.tables.values()]))
    normal = Oracle(script.oracle.streams.values())
    for cycle in workload.cycles:
        script.load_named(cycle.tables)
        for name, rows in cycle.tables.items():
            normal.load(script.tables[name], rows)
        for name in cycle.drop:
            script.run(f"DROP CONTINUOUS QUERY {name}")
            normal.drop(name)
        for name in cycle.create:
            script.run(workload.queries[name])
            query = script.query(name)
            normal.create(replace(query, relation=normalised(query.relation)))
        expected = script.oracle.cycle(cycle.rows, cycle.heartbeats)
        found = normal.cycle(cycle.rows, cycle.heartbeats)
        assert {name: sorted(map(row_key, rows), key=repr) for name, rows in found.items()} == {
            name: sorted(map(row_key, rows), key=repr) for name, rows in expected.items()
        }
        assert normal.dead_letters == script.oracle.dead_letters
