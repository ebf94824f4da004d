"""The one theorem: what a subscription cuts out of its group's rows is what its query answers alone.

Whom to merge with is drawn here, and not left to what it costs: all merges must be exact, those that do not pay too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.optimizer.group_results.delivering import delivered, published
from tests.optimizer.group_results.drawn import QUOTES, TRADES, VENUES, alike, bound
from tests.oracle import Oracle
from tests.oracle_values import row_key
from tests.support.generator import batches, table_rows
from weft.algebra import Query
from weft.catalog import decode, encode
from weft.optimizer.group_results import Groups, QueryKind, TrafficStatistics, forms
from weft.optimizer.group_results.forms import absorbed
from weft.optimizer.group_results.pricing import Pricing, TreeNode
from weft.plan.subscription import as_json, from_json

PROPERTY = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)

arrivals = batches([TRADES, QUOTES], count=4, most=8, pace=5)


def answers_of(
    queries: Sequence[Query], cycles: Sequence[tuple[Any, Any]], venues: Sequence[Any]
) -> list[Mapping[str, list[tuple[Any, ...]]]]:
    """What queries answer alone, cycle by cycle, with all windows closed in the end."""
    oracle = Oracle([TRADES, QUOTES])
    oracle.load(VENUES, venues)
    for query in queries:
        oracle.create(query)
    closing = ({}, {"trades": 3_000, "quotes": 3_000})
    return [oracle.cycle(rows, heartbeats) for rows, heartbeats in [*cycles, closing]]


def check(groups: Groups, queries: Mapping[str, Query], cycles: Sequence[Any], venues: Sequence[Any]) -> None:
    """Every member gets exactly its answers, in each cycle."""
    representatives = {group: groups.representative(group) for group in groups.names()}
    parts = [part.query for each in representatives.values() for part in each.parts]
    alone, together = answers_of(list(queries.values()), cycles, venues), answers_of(parts, cycles, venues)
    for name in queries:
        representative = representatives[groups.group_of(name)]
        subscription = from_json(as_json(groups.subscription(name)))
        assert subscription.needed <= set(representative.columns)
        for cycle, answers in enumerate(together):
            got = delivered(subscription, published(representative, answers))
            wanted = alone[cycle][name]
            if Counter(map(row_key, got)) != Counter(map(row_key, wanted)):
                note(f"{name} in cycle {cycle}: {as_json(subscription)}")
                note(f"representative: {[part.query.relation for part in representative.parts]}")
            assert Counter(map(row_key, got)) == Counter(map(row_key, wanted))


@contextmanager
def merging_with(data: st.DataObject) -> Iterator[None]:
    """Whatever it costs: a new query joins any group, or none; and conditions are replaced by hulls early."""
    few = partial(absorbed, most=data.draw(st.sampled_from((1, 2, 8))))

    def best(prices: Pricing, new: TreeNode, besides: int | None = None) -> tuple[int, float] | None:
        others = [number for number in range(len(prices.roots)) if number != besides]
        if not others or data.draw(st.integers(0, 7)) == 7:
            return None
        return data.draw(st.sampled_from(others)), 1.0

    with patch.object(Pricing, "best", best), patch.object(forms, "absorbed", few):
        yield


@PROPERTY
@given(alike(), arrivals, table_rows(VENUES), st.integers(0, 6), st.booleans(), st.data())
def test_every_member_gets_exactly_its_answers(
    queries: dict[str, Query], cycles: Any, venues: Any, most_delay: int, told: bool, data: st.DataObject
) -> None:
    groups = Groups(TrafficStatistics(sample=64), most_delay=most_delay, told=told)
    with merging_with(data):
        for name, query in queries.items():
            groups.insert(name, query)
    check(groups, queries, cycles, venues)


@PROPERTY
@given(alike(most=9), arrivals, table_rows(VENUES), st.booleans(), st.data())
def test_it_stays_so_when_queries_come_and_go(
    queries: dict[str, Query], cycles: Any, venues: Any, told: bool, data: st.DataObject
) -> None:
    groups = Groups(TrafficStatistics(sample=64), told=told)
    standing: dict[str, Query] = {}
    with merging_with(data):
        for name, query in queries.items():
            groups.insert(name, query)
            standing[name] = query
            if len(standing) > 2 and data.draw(st.booleans()):
                gone = data.draw(st.sampled_from(sorted(standing)))
                groups.terminate(gone)
                del standing[gone]
            if data.draw(st.integers(0, 4)) == 4:
                groups.reoptimise()
    check(groups, standing, cycles, venues)


@PROPERTY
@given(alike(), st.data())
def test_groups_outlive_a_restart(queries: dict[str, Query], data: st.DataObject) -> None:
    groups = Groups(TrafficStatistics(sample=64))
    with merging_with(data):
        for name, query in queries.items():
            groups.insert(name, query)
    kept = {group: groups.group_as_data(group, encode) for group in groups.names()}
    document = {"next": groups.next_number, "groups": kept}
    again = Groups(TrafficStatistics(sample=32))
    again.restore(document, queries, decode)
    assert {group: again.group_as_data(group, encode) for group in again.names()} == kept
    for group in groups.names():
        assert again.members(group) == groups.members(group)
        # By their texts: NaN does not equal itself.
        assert repr(again.representative(group)) == repr(groups.representative(group))
    assert all(repr(again.subscription(name)) == repr(groups.subscription(name)) for name in queries)


def test_what_hulls_answer_too_much_is_cut_away() -> None:
    texts = [f"SELECT qty FROM trades WHERE qty BETWEEN {n} AND {n + 3} AND num = {n % 13}" for n in range(0, 60, 2)]
    queries = {f"q{n}": bound(f"q{n}", text) for n, text in enumerate(texts)}
    groups = Groups(TrafficStatistics(sample=64))
    with patch.object(Pricing, "best", lambda prices, node: (0, 1.0) if prices.roots else None):
        for name, query in queries.items():
            groups.insert(name, query)
    (group,) = groups.names()
    row = dict.fromkeys((field.name for field in TRADES.fields), None)
    rows = [{**row, "n": n, "qty": qty, "num": num} for n, (qty, num) in enumerate(product(range(64), range(13)))]
    check(groups, queries, [({"trades": rows}, {})], [])
    part = groups.representative(group).parts[0].query
    (answers, _) = answers_of([part], [({"trades": rows}, {})], [])
    wanted = [row for row in rows if any(row["qty"] - n in range(4) and row["num"] == n % 13 for n in range(0, 60, 2))]
    assert len(wanted) < len(answers[part.name]) < len(rows)


def test_a_function_may_tell_zeros_apart_that_are_one_key() -> None:
    """CAST(price AS STRING) is '0.0' or '-0.0' within one group: it is no condition on groups."""
    where = "WHERE CAST(x.price AS STRING) = '0.0'"
    texts = [f"SELECT x.price AS p, COUNT(*) AS k FROM trades x [ROWS 6 SLIDE 6] {each}" for each in ("", where)]
    queries = {f"q{n}": bound(f"q{n}", f"{text} GROUP BY x.price") for n, text in enumerate(texts)}
    groups = Groups()
    for name, query in queries.items():
        groups.insert(name, query)
    assert groups.group_of("q0") != groups.group_of("q1")
    assert groups.representative(groups.group_of("q1")).kind is QueryKind.AGGREGATE
