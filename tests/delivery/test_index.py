"""The index finds the rows of every member: as each alone would, and as a loop over rows in plain Python does."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.delivery.naive import bag, delivered, plain_rows, takes
from weft.delivery import DeliveryError, Itinerary, Span
from weft.delivery.parcel import Message, Parcel
from weft.delivery.subscription_index import Index
from weft.plan.subscription import Comparison, Meeting, Schedule, Subscription

_BIG = 2**62
_DOUBLES = (0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324, 1e308, 2.0**53)
_COLUMNS: dict[str, tuple[pa.DataType, tuple[Any, ...]]] = {
    "n": (pa.int64(), (-_BIG, -3, 0, 1, 2, 3, 7, 2**53, 2**53 + 1, _BIG)),
    "m": (pa.int32(), (-3, 0, 1, 2, 3)),
    "x": (pa.float64(), _DOUBLES),
    "y": (pa.float64(), _DOUBLES),
    "flag": (pa.bool_(), (True, False)),
    "name": (pa.string(), ("", "a", "ab", "b", "é", "\U0001f600", "\uffff")),
    "raw": (pa.binary(), (b"", b"\x00", b"a", b"\xff")),
    "d": (pa.decimal128(10, 2), (Decimal("0.10"), Decimal("-7.25"), Decimal("99999999.99"), Decimal("0.00"))),
    "huge": (pa.decimal128(38, 0), (Decimal(10**37), Decimal(-(10**37)), Decimal(2**63), Decimal(5), Decimal(-1))),
    "day": (pa.date32(), (date(1969, 12, 31), date(2024, 2, 29), date(1970, 1, 1))),
    "s.ts": (pa.timestamp("us", "UTC"), (-7, 0, 3, 10, 11, 25)),
    "t.ts": (pa.timestamp("us", "UTC"), (-7, 0, 3, 10, 11, 25)),
    "window_end": (pa.timestamp("us", "UTC"), (0, 10, 20, 30, -10)),
    "gap": (pa.duration("us"), (0, 5, -5, 86_400_000_000)),
}
_ORDERED = ("<", "<=", "=", "!=", ">", ">=")


def _values(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(_COLUMNS[name][1])


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(0, 12))
    columns = {
        name: pa.array(draw(st.lists(_values(name) | st.none(), min_size=count, max_size=count)), kind)
        for name, (kind, _) in _COLUMNS.items()
    }
    return pa.table(columns)


@st.composite
def _comparisons(draw: st.DrawFn) -> Comparison:
    name = draw(st.sampled_from(sorted(_COLUMNS)))
    match draw(st.integers(0, 8)):
        case 0:
            return Comparison(name, draw(st.sampled_from(("is null", "is not null"))))
        case 1:
            return Comparison(name, "in", tuple(draw(st.lists(_values(name) | st.none(), max_size=3))))
        case 2:
            left, right = draw(st.sampled_from((("n", "m"), ("x", "y"), ("s.ts", "t.ts"), ("name", "name"))))
            return Comparison(left, draw(st.sampled_from(_ORDERED)), other=right)
    return Comparison(name, draw(st.sampled_from(_ORDERED)), draw(_values(name) | st.none()))


_clocks = st.sampled_from((("s.ts", "t.ts"), ("s.ts",), ("window_end",)))
_bounds = st.none() | st.integers(-10, 30)


@st.composite
def _itineraries(draw: st.DrawFn, query: str) -> Itinerary:
    subscription = Subscription(
        "g",
        (("shown", draw(st.sampled_from(sorted(_COLUMNS)))), ("n", "n")),
        tuple(map(tuple, draw(st.lists(st.lists(_comparisons(), max_size=3), min_size=1, max_size=3)))),
        draw(
            st.none()
            | st.builds(
                lambda a, b, slide, origin: Meeting((("t.ts", a), ("s.ts", b)), slide, origin),
                st.integers(1, 20),
                st.integers(1, 20),
                st.integers(1, 7),
                st.integers(-3, 20),
            )
        ),
        draw(
            st.none() | st.builds(Schedule, st.just("window_end"), st.sampled_from((10, 20, 30)), st.integers(-20, 20))
        ),
    )
    spans = st.builds(Span, st.just("g"), st.integers(0, 1), st.just(()) | _clocks, _bounds, _bounds)
    return Itinerary(query, (subscription,), tuple(draw(st.lists(spans, min_size=1, max_size=3))))


def _found(itineraries: list[Itinerary], parcel: Parcel) -> dict[str, list[int]]:
    legs = [(each.query, subscription, span) for each in itineraries for subscription, span in each.legs]
    message = parcel.messages[0]
    batch = pa.RecordBatch.from_struct_array(message.rows.to_struct_array().combine_chunks())
    matches = Index(legs).matches(batch, message.epoch, parcel.cycle)
    return {query: positions.tolist() for query, positions in matches}


@settings(max_examples=60, deadline=None)
@given(table=_tables(), data=st.data(), epoch=st.integers(0, 1), cycle=st.integers(-10, 30))
def test_index_and_each_member_alone_and_the_naive_evaluator_agree(
    table: pa.Table, data: st.DataObject, epoch: int, cycle: int
) -> None:
    itineraries = [data.draw(_itineraries(f"q{number}")) for number in range(data.draw(st.integers(1, 6)))]
    parcel = Parcel("p", cycle, 0, messages=(Message("g", epoch, table),))
    together = _found(itineraries, parcel)
    rows = plain_rows(table)
    for each in itineraries:
        assert _found([each], parcel).get(each.query, []) == together.get(each.query, [])
        (subscription,) = each.subscriptions
        got = [
            (cycle, {shown: rows[at][name] for shown, name in subscription.columns})
            for at in together.get(each.query, [])
        ]
        assert bag(got) == bag(delivered(each, [parcel]))


def _alone(comparison: Comparison, column: pa.Array) -> list[int]:
    leg = ("q", Subscription("g", (("v", "v"),), ((comparison,),)), Span("g", 0))
    return [at for _, rows in Index([leg]).matches(pa.record_batch({"v": column}), 0, 0) for at in rows.tolist()]


@pytest.mark.parametrize(
    ("comparison", "column", "expected"),
    [
        (Comparison("v", "=", math.nan), pa.array([math.nan, 1.0, None]), [0]),
        (Comparison("v", ">", math.inf), pa.array([math.nan, math.inf, 1.0]), [0]),
        (Comparison("v", "=", 0.0), pa.array([-0.0, 0.0, 5e-324]), [0, 1]),
        (Comparison("v", ">", Decimal("0.1")), pa.array([0.1]), [0]),  # the DOUBLE is a little more than a tenth
        (Comparison("v", ">", 2**53), pa.array([2**53 + 1, 2**53], pa.int64()), [0]),
        (Comparison("v", ">", 1.5), pa.array([1, 2], pa.int32()), [1]),
        (Comparison("v", "<", 2**70), pa.array([1, 2], pa.int64()), [0, 1]),
        (Comparison("v", ">", -math.inf), pa.array([1, None], pa.int64()), [0]),
        (Comparison("v", "<", "b"), pa.array(["a", "b", None]).dictionary_encode(), [0]),
        (Comparison("v", "!=", None), pa.array([1, None]), []),
        (Comparison("v", "=", 5), pa.nulls(2), []),
        (Comparison("v", "is null"), pa.nulls(2), [0, 1]),
    ],
)
def test_comparisons_are_exact(comparison: Comparison, column: pa.Array, expected: list[int]) -> None:
    assert _alone(comparison, column) == expected


def test_clocks_may_be_as_far_apart_as_64_bits_allow() -> None:
    meeting = Meeting((("a", 5), ("b", _BIG)), 3, 1)
    leg = ("q", Subscription("g", (("a", "a"),), meeting=meeting), Span("g", 0))
    rows = pa.record_batch({"a": pa.array([_BIG, 0], pa.int64()), "b": pa.array([-_BIG, 0], pa.int64())})
    assert [at for _, found in Index([leg]).matches(rows, 0, 0) for at in found.tolist()] == [1]


def test_a_row_that_several_conjunctions_and_spans_have_is_taken_once() -> None:
    either = ((Comparison("v", ">", 1),), (Comparison("v", "<", 9),))
    subscription = Subscription("g", (("v", "v"),), either)
    legs = [("q", subscription, Span("g", 0, since=0)), ("q", subscription, Span("g", 0, ("v",), 0, 100))]
    found = dict(Index(legs).matches(pa.record_batch({"v": [5]}), 0, 3))
    assert {query: at.tolist() for query, at in found.items()} == {"q": [0]}


def test_rows_that_lack_a_column_are_not_for_members_that_need_it() -> None:
    leg = ("q", Subscription("g", (("v", "v"),), ((Comparison("w", ">", 1),),)), Span("g", 0))
    assert list(Index([leg]).matches(pa.record_batch({"v": [5]}), 0, 0)) == []


def test_constants_of_another_kind_than_the_column_are_refused() -> None:
    with pytest.raises(DeliveryError, match="type string is compared with 5"):
        _alone(Comparison("v", "=", 5), pa.array(["a"]))


def test_many_members_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.delivery.subscription_index._PORTION", 7)
    legs = [
        (
            low,
            Subscription("g", (("v", "v"),), ((Comparison("v", ">=", low), Comparison("v", "<", low + 3)),)),
            Span("g", 0),
        )
        for low in range(50)
    ]
    rows = pa.record_batch({"v": list(range(40))})
    found = {member: at.tolist() for member, at in Index(legs).matches(rows, 0, 0)}
    assert found == {low: [at for at in range(low, low + 3) if at < 40] for low in range(40)}


def test_the_naive_evaluator_knows_the_worked_example_of_joins() -> None:
    """Heights of snow: the second query's windows hold all five pairs, the first one's only three of them."""
    pairs = [(0, 30), (0, 55), (20, 55), (50, 55), (50, 61)]
    half_an_hour = Subscription("g", (("s", "s"),), meeting=Meeting((("s", 31), ("t", 1))))
    assert [(s, t) for s, t in pairs if takes(half_an_hour, {"s": s, "t": t})] == [(0, 30), (50, 55), (50, 61)]
