"""Hypothesis strategies for streams, rows, batches and workloads: what a property test draws from.

    @given(workloads(Grammar(joins=False)))
    def test_answers(workload): ...

A `Workload` is text and data: CREATE STREAM, CREATE TABLE and CREATE CONTINUOUS QUERY statements, and cycles with the
rows that arrive in them, heartbeats, the rows that tables have from then on, and the queries that are created and
dropped before them. Domains are small, so that
values collide: ties of clocks, equal keys, duplicates, NULL, NaN, infinities, -0.0, rows out of order and too late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.support.generator_expressions import FAMILIES, ColumnText, choose, one_in
from tests.support.generator_queries import query
from tests.support.generator_tables import Grammar, Table
from weft import algebra
from weft.algebra import DataType, Field, Kind, Query, Stream, Value, types
from weft.algebra.types import BIGINT, TIMESTAMP
from weft.sql import Code, NamesInMemory, SqlError, read, statements

SECOND = 1_000_000

#: How often a query is drawn until the binder accepts one.
_MOST_DRAWS = 20

Row = Mapping[str, Value]

#: The columns that streams are made of, besides their clock.
COLUMNS: dict[str, DataType] = {
    "flag": types.BOOLEAN,
    "tiny": types.TINYINT,
    "small": types.SMALLINT,
    "num": types.INT,
    "qty": types.BIGINT,
    "amount": types.decimal(8, 2),
    "rate": types.decimal(20, 5),
    "ratio": types.FLOAT,
    "price": types.DOUBLE,
    "sym": types.STRING,
    "venue": types.STRING,
    "blob": types.BINARY,
    "day": types.DATE,
    "seen": types.TIMESTAMP,
}

#: The columns that every stream has.
ALWAYS = ("sym", "qty", "price")

_VALUES: dict[Kind, tuple[Any, ...]] = {
    Kind.BOOLEAN: (True, False),
    Kind.TINYINT: (0, 1, 2, -1, 127, -128),
    Kind.SMALLINT: (0, 1, 2, 3, -5, 32767),
    Kind.INT: (0, 1, 2, 3, 4, -2, 2147483647),
    Kind.BIGINT: (0, 1, 2, 3, 5, -3, 9223372036854775807, -9223372036854775808),
    Kind.FLOAT: (0.0, -0.0, 0.5, 1.0, -2.25, math.nan, math.inf),
    Kind.DOUBLE: (0.0, -0.0, 0.5, 1.0, 1.5, -2.25, 3.0, 100.0, math.nan, math.inf, -math.inf),
    Kind.STRING: ("a", "b", "ab", "A", "", "a_b", " a", "1", "2.5", "é"),
    Kind.BINARY: (b"", b"a", b"\x00\xff"),
    Kind.DATE: (date(1970, 1, 1), date(2024, 2, 29), date(1969, 12, 31)),
    Kind.TIMESTAMP: (0, 5 * SECOND, 1_704_067_207_500_000, -1, 1_709_164_800_000_000),
}
_DECIMALS = ("0", "1", "1.25", "-2.5", "10.01", "999.99")


@dataclass(frozen=True)
class Cycle:
    """What happens before a cycle and what arrives in it."""

    rows: Mapping[str, Sequence[Row]]
    heartbeats: Mapping[str, int]
    create: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    #: What is in tables from this cycle on, which begins with a new start; others have what they had.
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """Streams, queries and tables as statements, by name, and the cycles of a run."""

    streams: Mapping[str, str]
    queries: Mapping[str, str]
    cycles: tuple[Cycle, ...]
    tables: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        texts = [*self.streams.values(), *self.tables.values(), *self.queries.values()]
        return "\n".join([*texts, *map(repr, self.cycles)])


# Streams


def declaration(stream: Stream) -> str:
    """The CREATE STREAM statement of a stream."""
    columns = ", ".join(f"{field.name} {field.type}" for field in stream.fields)
    ordinal = _clock_type(stream) == BIGINT
    delay = str(stream.delay) if ordinal else f"INTERVAL '{stream.delay} microseconds'"
    backfill = str(stream.backfill) if ordinal else f"'{stream.backfill} microseconds'"
    return (
        f"CREATE STREAM {stream.name} ({columns}) WATERMARK FOR {stream.clock} AS {stream.clock} - {delay} USING memory"
        + (f" BACKFILL {backfill}" if stream.backfill else "")
    )


def table_declaration(table: algebra.Table) -> str:
    """The CREATE TABLE statement of a table."""
    columns = ", ".join(f"{field.name} {field.type}" for field in table.fields)
    return f"CREATE TABLE {table.name} ({columns}) USING memory"


def _clock_type(stream: Stream) -> DataType:
    return next(field.type for field in stream.fields if field.name == stream.clock)


def step_of(stream: Stream) -> int:
    """The length that clocks and windows are multiples of, in ticks: a second, or one ordinal."""
    return SECOND if _clock_type(stream) == TIMESTAMP else 1


@st.composite
def streams(
    draw: DrawFn,
    name: str,
    clock: DataType | None = None,
    delays: Sequence[int] = (0, 2, 5),
    backfills: Sequence[int] = (0,),
) -> Stream:
    """A stream with some of the COLUMNS, the clock first. Delays and backfills are in steps."""
    clock = clock or choose(draw, (TIMESTAMP, BIGINT))
    others = draw(st.lists(st.sampled_from(sorted(set(COLUMNS) - set(ALWAYS))), min_size=1, max_size=5, unique=True))
    clock_name, step = ("ts", SECOND) if clock == TIMESTAMP else ("n", 1)
    fields = (Field(clock_name, clock), *(Field(column, COLUMNS[column]) for column in (*ALWAYS, *others)))
    return Stream(
        name=name,
        fields=fields,
        clock=clock_name,
        delay=choose(draw, delays) * step,
        format="memory",
        backfill=choose(draw, backfills) * step,
    )


@st.composite
def tables(draw: DrawFn, name: str) -> algebra.Table:
    """A table with some of the COLUMNS."""
    others = draw(st.lists(st.sampled_from(sorted(set(COLUMNS) - set(ALWAYS))), min_size=0, max_size=2, unique=True))
    return algebra.Table(name, tuple(Field(column, COLUMNS[column]) for column in (*ALWAYS, *others)), "memory")


# Rows


def values(type_: DataType, nulls: bool = True) -> SearchStrategy[Value]:
    """Values of a type from a small domain, NULL among them."""
    if type_.kind is Kind.DECIMAL:
        unit = Decimal(1).scaleb(-type_.scale)
        domain: tuple[Any, ...] = tuple(Decimal(text).quantize(unit) for text in _DECIMALS)
    else:
        domain = _VALUES[type_.kind]
    return st.sampled_from((*domain, None) if nulls else domain)


@st.composite
def rows(draw: DrawFn, stream: Stream, clocks: SearchStrategy[int | None], most: int, least: int = 0) -> list[Row]:
    """Rows of a stream with the given clocks."""
    columns = {field.name: clocks if field.name == stream.clock else values(field.type) for field in stream.fields}
    return draw(st.lists(st.fixed_dictionaries(columns), min_size=least, max_size=most))


@st.composite
def table_rows(draw: DrawFn, table: algebra.Table, most: int = 5) -> list[Row]:
    """Rows of a table, perhaps none at all."""
    columns = {field.name: values(field.type) for field in table.fields}
    return draw(st.lists(st.fixed_dictionaries(columns), max_size=most))


def clocks(stream: Stream, first: int, last: int, nulls: bool = True) -> SearchStrategy[int | None]:
    """Clock values between two numbers of steps, mostly on whole steps so that they tie, now and then NULL."""
    step = step_of(stream)
    offsets = (0,) if step == 1 else (0, 0, 0, 0, 1, step // 2, step - 1)
    domain = [n * step + offset for n in range(first, last + 1) for offset in offsets]
    return st.sampled_from([*domain, *([None] * (1 + len(domain) // 20) if nulls else [])])


@st.composite
def batches(
    draw: DrawFn, declared: Sequence[Stream], count: int = 6, most: int = 6, pace: int = 6
) -> list[tuple[dict[str, list[Row]], dict[str, int]]]:
    """Rows and heartbeats for some cycles: clocks go forward by `pace` steps a cycle, and reach far back as well."""
    start = choose(draw, (0, -20, 1_000))
    result = []
    for n in range(draw(st.integers(1, count))):
        arrived, heartbeats = {}, {}
        for stream in declared:
            now = start + n * pace
            reach = choose(draw, (0, 3, 25))
            arrived[stream.name] = draw(rows(stream, clocks(stream, now - reach, now + pace), most))
            if one_in(draw, 4):
                heartbeats[stream.name] = (now + draw(st.integers(-5, 15))) * step_of(stream)
        result.append((arrived, heartbeats))
    return result


# Queries and workloads


def table_of(stream: Stream) -> Table:
    """A stream as something to select from."""
    columns = tuple(ColumnText(field.name, FAMILIES[field.type.kind]) for field in stream.fields)
    return Table(stream.name, columns, stream.clock, _clock_type(stream))


def static_table_of(table: algebra.Table) -> Table:
    """A table as something to join with."""
    columns = tuple(ColumnText(field.name, FAMILIES[field.type.kind]) for field in table.fields)
    return Table(table.name, columns, None, BIGINT, is_static=True)


@st.composite
def queries(
    draw: DrawFn,
    declared: Sequence[Stream],
    grammar: Grammar,
    count: int,
    derived: bool = True,
    static: Sequence[algebra.Table] = (),
) -> dict[str, str]:
    """CREATE CONTINUOUS QUERY statements by name; later queries may read earlier ones."""
    sources = [*(table_of(stream) for stream in declared), *map(static_table_of, static)]
    names = NamesInMemory()
    names.add(*declared, *static)
    statements_by_name = {}
    for n in range(count):
        text, drawn, bound = draw(accepted(f"q{n}", sources, grammar, names))
        statements_by_name[f"q{n}"] = text
        names.add(bound)
        if derived and one_in(draw, 4):
            sources.append(_as_source(f"q{n}", drawn))
    return statements_by_name


@st.composite
def accepted(
    draw: DrawFn, name: str, sources: Sequence[Table], grammar: Grammar, names: NamesInMemory
) -> tuple[str, Table, Query]:
    """A query that the binder accepts: its statement, what it gives to others, and its bound form.

    Queries that would take the versions of a running aggregate for rows are drawn and refused, and others are drawn in
    their place. All else that is drawn is in the language: another refusal is a mistake of the generator or the binder.
    """
    for _ in range(_MOST_DRAWS):
        drawn = query(draw, sources, grammar)
        text = f"CREATE CONTINUOUS QUERY {name} AS {drawn.text}"
        try:
            statement = read(text, names)
        except SqlError as error:
            if all(problem.code is Code.READS_VERSIONS for problem in error.problems):
                continue
            raise AssertionError(f"the binder refuses this:\n{error.render(text)}") from error
        assert isinstance(statement, statements.Create)
        return text, drawn, statement.definition
    return reject()


def _as_source(name: str, drawn: Table) -> Table:
    """A query's answers as something to select from; approximate counts are not looked at again."""
    columns = tuple(column for column in drawn.columns if column.family != "approximate")
    return replace(drawn, text=name, columns=columns, is_named=True)


@st.composite
def workloads(
    draw: DrawFn,
    grammar: Grammar = Grammar(),  # noqa: B008 a frozen value
    most_queries: int = 4,
    changes: bool = True,
    backfills: Sequence[int] = (0, 0, 10),
) -> Workload:
    """Streams, queries, and cycles in which rows arrive, late and out of order, while queries come and go."""
    declared = [draw(streams(name, backfills=backfills)) for name in ("trades", "quotes")[: draw(st.integers(1, 2))]]
    static = [draw(tables(name)) for name in ("symbols", "venues")[: draw(st.integers(1, 2))]]
    texts = draw(queries(declared, grammar, draw(st.integers(1, most_queries)), static=static))
    arrivals = draw(batches(declared))
    return Workload(
        {stream.name: declaration(stream) for stream in declared},
        texts,
        tuple(_with_tables(draw, _cycles(draw, texts, arrivals, changes), static)),
        {table.name: table_declaration(table) for table in static},
    )


def _with_tables(draw: DrawFn, cycles: Sequence[Cycle], static: Sequence[algebra.Table]) -> list[Cycle]:
    """Tables have rows from the first cycle on, and now and then others."""
    return [
        replace(cycle, tables={table.name: draw(table_rows(table)) for table in static if n == 0 or one_in(draw, 5)})
        for n, cycle in enumerate(cycles)
    ]


def _cycles(
    draw: DrawFn,
    texts: Mapping[str, str],
    arrivals: Sequence[tuple[dict[str, list[Row]], dict[str, int]]],
    changes: bool,
) -> list[Cycle]:
    """Queries are created in order, since later ones may read earlier ones; only the newest may be dropped."""
    waiting, standing, cycles = list(texts), [], []
    for n, (arrived, heartbeats) in enumerate(arrivals):
        create, drop = [], []
        if changes and standing and one_in(draw, 6):
            drop.append(standing.pop())
            waiting.clear()
        count = len(waiting) if not changes or n == len(arrivals) - 1 else draw(st.integers(0, len(waiting)))
        for _ in range(count):
            create.append(waiting.pop(0))
        standing += create
        cycles.append(Cycle(arrived, heartbeats, tuple(create), tuple(drop)))
    return cycles
