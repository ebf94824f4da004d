from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.examples import TRADES, expressions, queries, query, selection, values
from weft.algebra import Call, Literal, Query, Select, Window, codec
from weft.algebra.codec import CodecError
from weft.algebra.types import BIGINT, INT


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0
    label: str = ""


class Colour(Enum):
    RED = 1


codec.register(Point, Colour)


def spelled(value: Any) -> Any:
    """`value` as nested tuples of exact type and spelling: equal only for values that are the same in every respect."""
    if is_dataclass(value):
        return type(value), *(spelled(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple):
        return tuple, *map(spelled, value)
    return type(value), repr(value)


@given(values | expressions | queries | st.tuples(values, queries))
def test_what_is_decoded_is_what_was_encoded(value: Any) -> None:
    assert spelled(codec.decode(json.loads(json.dumps(codec.encode(value), allow_nan=False)))) == spelled(value)
    assert spelled(codec.loads(codec.dumps(value))) == spelled(value)


@settings(max_examples=50)
@given(queries)
def test_the_text_depends_on_the_value_alone(value: Query) -> None:
    assert codec.dumps(deepcopy(value)) == codec.dumps(value)
    assert codec.dumps(codec.loads(codec.dumps(value))) == codec.dumps(value)


@given(values, values)
def test_different_values_have_different_texts(one: Any, other: Any) -> None:
    assert (codec.dumps(one) == codec.dumps(other)) == (spelled(one) == spelled(other))


def test_values_that_are_equal_but_not_the_same_stay_apart_in_one_tree() -> None:
    value = tuple(Literal(v, INT) for v in (1, True, 1.0, Decimal(1), Decimal("1.0"), 0.0, -0.0, "1", None))
    assert spelled(codec.loads(codec.dumps(value))) == spelled(value)


def test_equal_parts_are_written_once() -> None:
    value = selection()
    assert codec.dumps((value, value, deepcopy(value))).count('"Select"') == 1


def test_defaults_at_the_end_are_left_out() -> None:
    assert codec.encode(Window(5)) == [["Window", 5]]
    assert codec.encode(Window(5, 1, 2)) == [["Window", 5, 1, 2]]
    assert codec.encode(Window(5, True)) == [["Window", 5, True]]
    assert codec.encode(Point(1.0, 0.0)) == [["Point", 1.0, 0.0]]


def test_the_text_is_as_the_module_says() -> None:
    where = selection(above=1.5).where
    assert codec.encode(where) == [
        ["Kind", "DOUBLE"],
        ["DataType", [0]],
        ["Column", "t", "price", [1]],
        ["Literal", 1.5, [1]],
        ["tuple", [2], [3]],
        ["Kind", "BOOLEAN"],
        ["DataType", [5]],
        ["Call", "gt", [4], [6]],
    ]


def test_given_parts_are_named_and_not_written() -> None:
    value = query("q")
    text = codec.dumps(value, {id(TRADES): "trades"})
    assert '["given","trades"]' in text
    assert '"Stream"' not in text
    decoded = codec.loads(text, {"trades": TRADES}.__getitem__)
    assert decoded == value
    assert decoded.relation.inputs[0].source is TRADES
    with pytest.raises(CodecError, match="given"):
        codec.loads(text)
    with pytest.raises(CodecError, match="trades"):
        codec.loads(text, {"quotes": TRADES}.__getitem__)


def test_depth_is_no_limit() -> None:
    expression: Any = Literal(1, BIGINT)
    for _ in range(10_000):
        expression = Call("neg", (expression,), BIGINT)
    text = codec.dumps(expression)
    decoded = codec.loads(text)
    assert codec.dumps(decoded) == text
    while isinstance(decoded, Call):  # freeing a deep tree all at once would itself need a deep stack
        decoded, expression = decoded.args[0], expression.args[0]


def test_shared_parts_are_visited_once() -> None:
    expression: Any = Literal(1, BIGINT)
    for _ in range(60):
        expression = Call("add", (expression, expression), BIGINT)
    assert len(codec.dumps(expression)) < 4_000


def test_registered_classes_are_read_and_written() -> None:
    value = (Point(1.0, float("nan"), "a"), Colour.RED)
    assert spelled(codec.loads(codec.dumps(value))) == spelled(value)


@pytest.mark.parametrize("value", [object(), [1], {1}, 1j, bytearray(b""), st, Select])
def test_other_values_are_not_encoded(value: object) -> None:
    with pytest.raises(TypeError, match="not registered"):
        codec.encode((1, value))


@pytest.mark.parametrize(
    "value", [{}, {"b": (1, 2), "a": {0: (3,)}}, frozenset(), frozenset({"b", "a"}), ({"a": (1,)}, {"b": (1,)})]
)
def test_mappings_and_sets_are_written_in_the_order_of_their_keys(value: object) -> None:
    assert codec.loads(codec.dumps(value)) == value
    assert codec.dumps({"b": 1, "a": 2}) == codec.dumps({"a": 2, "b": 1})


def test_a_name_is_registered_once() -> None:
    codec.register(Point)
    with pytest.raises(TypeError, match="another Call"):
        codec.register(type("Call", (), {}))
    with pytest.raises(TypeError, match="another given"):
        codec.register(type("given", (), {}))


def test_only_positional_dataclasses_are_registered() -> None:
    with pytest.raises(TypeError, match="neither"):
        codec.register(type("Plain", (), {}))
    with pytest.raises(TypeError, match="positional"):
        codec.register(dataclass(kw_only=True)(type("Keywords", (), {"__annotations__": {"x": int}})))


@pytest.mark.parametrize(
    "data",
    [
        [],
        [[]],
        ["ab"],
        [1],
        {},
        {"Kind": "INT"},
        [["Path", "/etc"]],
        [["Kind", "NO_SUCH_KIND"]],
        [["Kind"]],
        [["Field", "a", [7]]],
        [["Field", "a", [0]]],
        [["Field", "a", []]],
        [["Window", 1, 2, 3, 4]],
        [["Window"]],
        [["date", "2024-02-30"]],
        [["Decimal", "one"]],
        [["bytes", "0g"]],
        [["float", "fast"]],
        [["float", [3]]],
        [[["Kind"], "INT"]],
        [["given", "trades"]],
    ],
)
def test_data_that_spells_no_value_is_refused(data: Any) -> None:
    with pytest.raises(CodecError):
        codec.decode(data)


@pytest.mark.parametrize("text", ["", "{", "[[", "nul", "[" * 100_000])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(CodecError, match="not JSON"):
        codec.loads(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["Kind", "INT", "DataType", "tuple", "Call"]),
        lambda inner: st.lists(inner, max_size=4),
    )
)
def test_decoding_anything_gives_a_value_or_a_codec_error(data: Any) -> None:
    with suppress(CodecError):
        codec.decode(data)
