"""The optimizer as a whole: what its plans do not depend on, and what follows from their ids."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.joins.workloads import workload
from tests.support.plans import planned, running
from weft.algebra import Query
from weft.algebra.codec import dumps
from weft.optimizer.optimizer import RULES, optimise, steps
from weft.optimizer.rules.facts import Facts
from weft.plan.canonical import normalised, with_ordered_operands, without_names
from weft.plan.event_time import RunningQuery
from weft.plan.nodes import LogicalNode, NetworkNode, OutputNode, RelationNode
from weft.plan.shared_plan import SharedPlan, diff
from weft.sql.check import check

TRADES = """CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, qty BIGINT)
    WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS USING memory;"""


HOURLY = "[RANGE 1 HOUR SLIDE 1 HOUR]"


def bound(seed: int, queries: int = 12) -> tuple[Query, ...]:
    told = workload(seed, queries=queries)
    report = check(";".join([*told.streams.values(), *told.tables.values(), *told.queries.values()]))
    assert report.ok
    return tuple(report.queries)


def shuffled(asked: dict[str, RunningQuery], seed: int) -> dict[str, RunningQuery]:
    """Some queries in another order, each with its number."""
    names = list(asked)
    random.Random(seed).shuffle(names)
    return {name: asked[name] for name in names}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_a_plan_depends_on_no_order_of_queries(seed: int) -> None:
    asked = running(bound(seed))
    plan = optimise(asked, Facts())
    assert optimise(shuffled(asked, seed), Facts()).nodes == plan.nodes
    assert optimise(asked, Facts(), plan) is plan


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_a_finished_plan_is_whole(seed: int) -> None:
    plan = planned(bound(seed))
    check_is_whole(plan)
    few = {name: each for name, each in plan.queries.items() if random.Random(seed + len(name)).random() < 0.6}
    # What other queries read has to be there.
    few |= {name: plan.queries[name] for name in plan.read_by_others}
    later = optimise(few, Facts(cycle=3), plan)
    check_is_whole(later)
    changed = diff(plan, later)
    assert {id_ for id_ in plan.nodes if id_ not in later.nodes} == set(changed.dropped)
    check_is_whole(optimise(dict(plan.queries), Facts(cycle=5), later))


def check_is_whole(plan: SharedPlan) -> None:
    """Every input is there, every node is needed, each query has an output, and nothing is left to be decided."""
    assert not plan.logical
    assert not plan.forms
    assert {each.query for each in plan.of(OutputNode)} == plan.queries.keys()
    for node in plan.nodes.values():
        assert not isinstance(node, LogicalNode)
        assert all(each in plan.nodes for each in node.inputs), node
        assert plan.users_of(node.id), node
    order = [node.id for node in plan.in_order()]
    assert sorted(order) == sorted(plan.nodes)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_relations_have_one_id_exactly_if_they_mean_the_same(seed: int) -> None:
    queries = bound(seed)
    ids: dict[str, str] = {}
    for query in queries:
        (output,) = planned([query]).of(OutputNode)
        meaning = dumps(with_ordered_operands(without_names(normalised(query.relation))))
        assert ids.setdefault(meaning, output.node_id.text) == output.node_id.text
    assert len(set(ids.values())) == len(ids)


def test_names_and_operands_play_no_part_in_ids() -> None:
    alike = check(
        f"""{TRADES}
        CREATE CONTINUOUS QUERY a AS SELECT t.symbol AS s, SUM(t.qty) AS q FROM trades t {HOURLY} GROUP BY t.symbol;
        CREATE CONTINUOUS QUERY b AS SELECT symbol, SUM(qty) AS total FROM trades {HOURLY} GROUP BY symbol;
        CREATE CONTINUOUS QUERY c AS SELECT symbol FROM trades UNION SELECT symbol FROM trades WHERE qty > 1 RETAIN
          UNBOUNDED;
        CREATE CONTINUOUS QUERY d AS SELECT symbol AS x FROM trades WHERE qty > 1 UNION SELECT symbol FROM trades RETAIN
          UNBOUNDED"""
    )
    assert alike.ok
    plan = planned(alike.queries)
    answered = {name: output.inputs for name, output in plan.outputs.items()}
    assert answered["a"] == answered["b"]
    assert answered["c"] == answered["d"]
    assert answered["a"] != answered["c"]


def test_queries_that_begin_in_different_cycles_share_reductions_and_trees_but_no_answers() -> None:
    script = check(
        f"{TRADES} CREATE CONTINUOUS QUERY a AS SELECT symbol, SUM(qty) AS q FROM trades {HOURLY} GROUP BY symbol"
    )
    (query,) = script.queries
    first = optimise(running([query]), Facts())
    both = optimise({**first.queries, "b": running([query], first=4)["a"]}, Facts(cycle=4), first)
    answers = [both.nodes[each.inputs[0]] for each in both.of(OutputNode)]
    assert len({each.id for each in answers}) == 2
    assert len({each.inputs for each in answers}) == 1


@pytest.mark.parametrize("seed", range(4))
def test_every_rule_leaves_a_plan_that_needs_it_no_more(seed: int) -> None:
    asked, facts = running(bound(seed)), Facts()
    for (name, plan), rule in zip(steps(asked, facts), RULES, strict=True):
        assert name == rule.__name__
        again = rule(plan, facts)
        assert again.nodes.keys() == plan.nodes.keys(), name
        assert again.logical.keys() == plan.logical.keys(), name


def test_a_query_that_comes_when_another_goes_keeps_the_subquery_that_both_read() -> None:
    inner = "(SELECT symbol, SUM(qty) AS q FROM trades [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY symbol) j"
    script = check(
        f"{TRADES} CREATE CONTINUOUS QUERY a AS SELECT j.symbol FROM {inner} WHERE j.q > 1;"
        f"CREATE CONTINUOUS QUERY b AS SELECT j.q FROM {inner} WHERE j.q > 2"
    )
    first, second = script.queries
    plan = planned([first])
    check_is_whole(optimise(running([second]), Facts(), plan))


def test_queries_that_share_nothing_have_ids_of_their_own() -> None:
    script = check(
        f"{TRADES} CREATE CONTINUOUS QUERY a SHARING OFF AS SELECT symbol FROM trades WHERE qty > 1;"
        "CREATE CONTINUOUS QUERY b AS SELECT symbol FROM trades WHERE qty > 1"
    )
    plan = planned(script.queries)
    mine, shared = (plan.nodes[plan.outputs[name].inputs[0]] for name in "ab")
    assert isinstance(mine, RelationNode)
    assert isinstance(shared, RelationNode)
    assert not mine.node_id.is_shared
    assert shared.node_id.is_shared
    assert [each.kind for each in plan.of(NetworkNode)].count("filter") == 1
