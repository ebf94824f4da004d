"""Streams, views and queries for these tests, and a strategy that draws any value of the algebra."""

from __future__ import annotations

from hypothesis import strategies as st

from weft.algebra import (
    Aggregate,
    AggregateRef,
    Answers,
    Call,
    Column,
    DataType,
    Field,
    Input,
    KeyRef,
    Kind,
    Literal,
    Output,
    Query,
    Retain,
    Select,
    SetOperation,
    SetOperator,
    Sink,
    Stream,
    Table,
    View,
    Window,
    WindowBound,
)
from weft.algebra.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP

FIELDS = (Field("ts", TIMESTAMP), Field("price", DOUBLE), Field("qty", BIGINT))
SYMBOLS = Table("symbols", (Field("price", DOUBLE), Field("sector", STRING)), "csv", (("path", "data/symbols"),))
TRADES = Stream("trades", FIELDS, "ts", 5_000_000, "parquet", (("path", "data/trades"),))


def selection(source: Stream | Answers | Select = TRADES, above: float = 100.0) -> Select:
    """SELECT price FROM source WHERE price > above"""
    price = Column("t", "price", DOUBLE)
    where = Call("gt", (price, Literal(above, DOUBLE)), BOOLEAN)
    return Select((Input(source, "t"),), where, (Output("price", price),), TIMESTAMP)


def query(name: str, source: Stream | Answers | Select = TRADES, above: float = 100.0) -> Query:
    return Query(name, selection(source, above), None, f"CREATE CONTINUOUS QUERY {name} AS …")


def join_with_table(name: str) -> Query:
    """SELECT sector FROM trades t, symbols s WHERE t.price = s.price"""
    prices = Column("t", "price", DOUBLE), Column("s", "price", DOUBLE)
    inputs = Input(TRADES, "t"), Input(SYMBOLS, "s")
    outputs = (Output("sector", Column("s", "sector", STRING)),)
    return Query(name, Select(inputs, Call("=", prices, BOOLEAN), outputs, TIMESTAMP), None, "…")


def answers(name: str) -> Answers:
    """What a query reads if it reads the query `name`."""
    return Answers(name, (Field("price", DOUBLE),), None, TIMESTAMP)


def view(name: str, source: Stream | Answers | Select = TRADES) -> View:
    return View(name, f"CREATE VIEW {name} AS …", selection(source))


_names = st.text(max_size=5)
_ticks = st.integers(-(2**70), 2**70)
_types = st.builds(DataType, st.sampled_from(Kind), st.integers(0, 38), st.integers(0, 38))
_fields = st.builds(Field, _names, _types)
_columns = st.lists(_fields, max_size=3).map(tuple)
_options = st.lists(st.tuples(_names, _names), max_size=2).map(tuple)
_windows = st.builds(Window, st.none() | _ticks, _ticks, _ticks)
_retains = st.builds(Retain, st.none() | _ticks)

values = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 0.0, -0.0, 1.0])  # equal to each other, or to a BOOLEAN, and yet not the same
    | _ticks
    | st.floats()
    | st.decimals()
    | st.text()
    | st.binary()
    | st.dates()
)

_leaves = (
    st.builds(Column, _names, _names, _types)
    | st.builds(Literal, values, _types)
    | st.builds(KeyRef, st.integers(0, 3), _types)
    | st.builds(AggregateRef, st.integers(0, 3), _types)
    | st.builds(WindowBound, st.booleans(), _types)
)
expressions = st.recursive(
    _leaves, lambda inner: st.builds(Call, _names, st.lists(inner, max_size=3).map(tuple), _types), max_leaves=6
)

_aggregates = st.builds(Aggregate, _names, st.lists(expressions, max_size=2).map(tuple), _types, st.booleans())
_outputs = st.builds(Output, _names, expressions)
streams = st.builds(Stream, _names, _columns, _names, _ticks, _names, _options, _ticks)
_answers = st.builds(Answers, _names, _columns, st.none() | _names, _types)


def _selects(sources: st.SearchStrategy[object]) -> st.SearchStrategy[Select]:
    inputs = st.builds(Input, sources, _names, st.none() | _windows)
    return st.builds(
        Select,
        inputs=st.lists(inputs, max_size=2).map(tuple),
        where=st.none() | expressions,
        outputs=st.lists(_outputs, max_size=2).map(tuple),
        clock_type=_types,
        window=st.none() | _windows,
        keys=st.lists(expressions, max_size=2).map(tuple),
        aggregates=st.lists(_aggregates, max_size=2).map(tuple),
        having=st.none() | expressions,
        distinct=st.booleans(),
        retain=st.none() | _retains,
        emit_empty=st.booleans(),
    )


def _set_operations(relations: st.SearchStrategy[object]) -> st.SearchStrategy[SetOperation]:
    return st.builds(
        SetOperation,
        operator=st.sampled_from(SetOperator),
        all=st.booleans(),
        left=relations,
        right=relations,
        fields=_columns,
        clock_type=_types,
        window=st.none() | _windows,
        retain=st.none() | _retains,
    )


tables = st.builds(Table, _names, _columns, _names, _options)
_sources = streams | tables | _answers
relations = st.recursive(
    _selects(_sources), lambda inner: _selects(inner | _sources) | _set_operations(inner), max_leaves=3
)
queries = st.builds(
    Query, _names, relations, st.none() | _names, _names, st.booleans(), st.none() | st.builds(Sink, _names, _options)
)
