"""Routing over trees: every user gets exactly its rows, and no link carries a row twice or a column in vain."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.delivery.naive import bag, delivered, lies_in, plain_rows, takes
from tests.delivery.recorded import play
from weft.delivery import Itinerary, Span
from weft.delivery.members import Members, share
from weft.delivery.parcel import Message, Parcel, decode, encode
from weft.plan.subscription import Comparison, Subscription


def _parcels(cycles: int, members: int, seed: int) -> list[Parcel]:
    return [
        Parcel(
            "p",
            played.cycle,
            played.cycle,
            None,
            played.control,
            tuple(replace(each, watermark=None) for each in played.published),
        )
        for played in play(cycles, members, seed, rows=15)
    ]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), tell=st.booleans())
def test_trees_of_routers_deliver_exactly_and_once(seed: int, tell: bool) -> None:
    chance = random.Random(seed)
    parcels = _parcels(6, 8, seed)
    routes = {each.query: each for parcel in parcels for each in parcel.routes}
    parent = {node: chance.randrange(node) for node in range(1, 7)}
    home = {query: chance.randrange(0, 7) for query in routes}
    behind: dict[int, set[str]] = {node: set() for node in range(7)}
    for query, node in home.items():
        at_node = node
        behind[at_node].add(query)
        while at_node:
            at_node = parent[at_node]
            behind[at_node].add(query)
    links = {node: Members() for node in parent}
    users = {node: Members() for node in range(7)}
    got: dict[str, list[tuple[int, dict[str, object]]]] = {query: [] for query in routes}
    for parcel in parcels:
        at: dict[int, Parcel | None] = {0: parcel}
        for each in parcel.routes:
            for node, link in links.items():
                if each.query in behind[node] and each.query not in link.routes:
                    link.put(each)
        for node in parent:
            came = at[parent[node]]
            at[node] = _crossed(came, links[node], tell)
            _no_row_twice_and_no_column_in_vain(at[node], {query: routes[query] for query in behind[node]}, parcel)
        for node, came in at.items():
            for each in came.routes if came is not None else ():
                if home[each.query] == node:
                    users[node].put(each)
            for batch in users[node].batches(came) if came is not None else ():
                got[batch.query] += [(batch.cycle, row) for row in plain_rows(batch.table)]
    assert {query: bag(rows) for query, rows in got.items()} == {
        query: bag(delivered(route, parcels)) for query, route in routes.items()
    }


def _crossed(came: Parcel | None, behind: Members, tell: bool) -> Parcel | None:
    shared = share(came, behind, tell) if came is not None else None
    return decode(encode(shared)) if shared is not None else None


def _no_row_twice_and_no_column_in_vain(came: Parcel | None, behind: dict[str, Itinerary], whole: Parcel) -> None:
    """Rows have an id of their own, unless no one behind the link needs it: then their number must not be larger."""
    if came is None:
        return
    needs: set[str] = set()
    for route in behind.values():
        for subscription, span in route.legs:
            needs |= subscription.needed | set(span.by)
    count: Counter[tuple[str, int]] = Counter()
    for message in came.messages:
        assert set(message.rows.column_names) <= needs
        assert "ballast" not in message.rows.column_names
        count[message.group, message.epoch] += message.rows.num_rows
    wanted: Counter[tuple[str, int]] = Counter()
    for message in whole.messages:
        for row in plain_rows(message.rows):
            wanted[message.group, message.epoch] += any(
                takes(subscription, row) and lies_in(span, message, whole.cycle, row)
                for route in behind.values()
                for subscription, span in route.legs
                if span.stream == message.group and (route.ended is None or whole.cycle < route.ended)
            )
    assert count == +wanted


def test_a_row_goes_with_the_columns_that_its_takers_need() -> None:
    first = Subscription("g", (("a", "a"),), ((Comparison("b", ">", 5),),))
    second = Subscription("g", (("c", "c"),), ((Comparison("b", ">", 8),),))
    members = Members([Itinerary(name, (each,), (Span("g", 0),)) for name, each in (("q1", first), ("q2", second))])
    rows = pa.table({"a": [1, 2, 3], "b": [5, 6, 9], "c": [10, 20, 30], "d": [0, 0, 0]})
    shared = share(Parcel("p", 1, 0, messages=(Message("g", 0, rows),)), members)
    assert shared is not None
    assert [each.rows.to_pydict() for each in shared.messages] == [
        {"a": [2], "b": [6]},
        {"a": [3], "b": [9], "c": [30]},
    ]
    nothing = replace(shared, messages=(Message("g", 1, rows),), routes=())
    assert share(nothing, members) is None


def test_rows_with_their_takers_need_no_columns_of_conditions() -> None:
    first = Subscription("g", (("a", "a"),), ((Comparison("b", ">", 5),),))
    second = Subscription("g", (("c", "c"),), ((Comparison("b", ">", 8),),))
    legs = (("q1", first, 1), ("q2", second, 2))
    members = Members([Itinerary(name, (each,), (Span("g", 0),), number=number) for name, each, number in legs])
    values = list(range(1_000))
    rows = pa.table({"a": values, "b": [6 + each % 4 for each in values], "c": values})
    parcel = Parcel("p", 1, 0, messages=(Message("g", 0, rows),))
    shared = share(parcel, members, tell=True)
    assert shared is not None
    assert [each.rows.column_names for each in shared.messages] == [["a"], ["a", "c"]]
    assert [set().union(*each.takers.sets) for each in shared.messages if each.takers] == [
        {("q1", 1)},
        {("q1", 1), ("q2", 2)},
    ]
    arrived = decode(encode(shared))
    expected = {"q1": values, "q2": [each for each in values if 6 + each % 4 > 8]}
    assert {each.query: sorted(each.table.column(0).to_pylist()) for each in members.batches(arrived)} == expected
    # Another query that has got the name of one takes none of its rows.
    later = Members([Itinerary("q1", (first,), (Span("g", 0),), number=3)])
    assert list(later.batches(arrived)) == []
    # What few rows would save is not worth naming who takes them.
    few = share(Parcel("p", 1, 0, messages=(Message("g", 0, rows.slice(0, 3)),)), members, tell=True)
    assert few is not None
    assert all(each.takers is None for each in few.messages)


@pytest.mark.parametrize("told", [False, True])
def test_what_answers_say_of_rows_that_were_left_out_comes_along(told: bool) -> None:
    said = {b"weft.kept": b'{"f": {"share": 0.5, "until": 7}}'}
    first = Subscription("g", (("x", "n"),), ((Comparison("n", ">", 5),),))
    members = Members([Itinerary("q", (first,), (Span("g", 0),), number=1)])
    rows = pa.table({"n": [1, 6, 7], "m": [0, 0, 0]}).replace_schema_metadata(said)
    parcel = decode(encode(Parcel("p", 3, 0, messages=(Message("g", 0, rows),))))
    crossed = _crossed(parcel, members, told)
    assert crossed is not None
    (batch,) = members.batches(decode(encode(crossed)))
    assert batch.table.to_pylist() == [{"x": 6}, {"x": 7}]
    assert batch.table.schema.metadata == said
