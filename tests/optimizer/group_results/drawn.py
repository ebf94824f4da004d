"""Queries to draw that are alike: of one family more often than not, with conditions that overlap."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.generator import declaration, table_declaration
from tests.support.generator_expressions import FAMILIES, ColumnText, choose, condition, expression, family_of, one_in
from weft.algebra import Field, Query, Stream, Table
from weft.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, decimal
from weft.sql import NamesInMemory, read, statements

_FIELDS = (
    Field("n", BIGINT),
    Field("sym", STRING),
    Field("qty", BIGINT),
    Field("price", DOUBLE),
    Field("num", INT),
    Field("flag", BOOLEAN),
    Field("day", DATE),
    Field("amount", decimal(8, 2)),
)

TRADES = Stream("trades", _FIELDS, "n", 2, "memory", backfill=4)
QUOTES = Stream("quotes", _FIELDS, "n", 0, "memory")
VENUES = Table("venues", (Field("sym", STRING), Field("lot", INT)), "memory")

DECLARED = ";\n".join([declaration(TRADES), declaration(QUOTES), table_declaration(VENUES)])

_SIMPLE = (
    "{a}qty BETWEEN {i} AND {j}",
    "{a}qty BETWEEN {i} AND {j} AND {a}num >= {j}",
    "{a}sym = '{s}' AND {a}qty <> {i}",
    "{a}qty > {i}",
    "{a}qty <= {i}",
    "{a}num BETWEEN {i} AND {j}",
    "{a}num IN ({i}, {j}, 4)",
    "{a}num <> {i}",
    "{a}price > {i}.5e0",
    "{a}price < {j}e0",
    "{a}sym = '{s}'",
    "{a}sym IN ('a', '{s}', 'é')",
    "{a}sym >= '{s}'",
    "{a}flag",
    "NOT {a}flag",
    "{a}num IS NULL",
    "{a}sym IS NOT NULL",
    "UPPER({a}sym) = 'A'",
    "{a}qty < {a}num",
    "{a}qty + {a}num > {i}",
    "{a}amount >= {i}.25",
    "{a}day = DATE '1970-01-01'",
)


def names() -> NamesInMemory:
    """The names that drawn queries use."""
    found = NamesInMemory()
    found.add(TRADES, QUOTES, VENUES)
    return found


def bound(name: str, text: str) -> Query:
    """A query of a SELECT."""
    statement = read(f"CREATE CONTINUOUS QUERY {name} AS {text}", names())
    assert isinstance(statement, statements.Create)
    return statement.definition


def _columns(alias: str, fields: Sequence[Field]) -> list[ColumnText]:
    return [ColumnText(f"{alias}.{each.name}", FAMILIES[each.type.kind]) for each in fields]


def _simple(draw: DrawFn, alias: str, templates: Sequence[str]) -> str:
    template = choose(draw, templates)
    first = draw(st.integers(-1, 4))
    return template.format(a=f"{alias}.", i=first, j=first + draw(st.integers(0, 3)), s=choose(draw, "abA"))


def _condition(draw: DrawFn, alias: str, columns: Sequence[ColumnText], templates: Sequence[str]) -> str:
    if one_in(draw, 6):
        return condition(draw, columns, 1)
    parts = [_simple(draw, alias, templates) for _ in range(draw(st.integers(1, 2)))]
    joined = " AND ".join(parts)
    return f"({joined} OR {_simple(draw, alias, templates)})" if one_in(draw, 3) else joined


def _outputs(draw: DrawFn, columns: Sequence[ColumnText]) -> str:
    listed = [expression(draw, family_of(draw, columns), columns, 1) for _ in range(draw(st.integers(1, 3)))]
    return ", ".join(f"{each} AS c{number}" for number, each in enumerate(listed))


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def selection(draw: DrawFn, templates: Sequence[str]) -> str:
    columns = _columns("x", _FIELDS)
    conditions = [] if one_in(draw, 5) else [_condition(draw, "x", columns, templates)]
    return f"SELECT {_outputs(draw, columns)} FROM trades x{_where(conditions)}"


def selection_with_table(draw: DrawFn, templates: Sequence[str]) -> str:
    alias, other = choose(draw, (("x", "v"), ("v", "x")))
    columns = [*_columns(alias, _FIELDS), *_columns(other, VENUES.fields)]
    conditions = [f"{alias}.sym = {other}.sym", _condition(draw, alias, columns, templates)]
    return f"SELECT {_outputs(draw, columns)} FROM trades {alias}, venues {other}{_where(conditions)}"


def join(draw: DrawFn, templates: Sequence[str]) -> str:
    """Two streams, or one with itself."""
    second = choose(draw, ("quotes", "quotes", "quotes", "trades"))
    alias, other = choose(draw, (("x", "y"), ("y", "x")))
    slide, origin = choose(draw, ((1, 0), (2, 0), (2, 1), (4, 0), (3, 0)))
    windows = [f"[ROWS {draw(st.integers(1, 9))} SLIDE {slide} ORIGIN {origin}]" for _ in range(2)]
    columns = [*_columns(alias, _FIELDS), *_columns(other, _FIELDS)]
    conditions = [f"{alias}.sym = {other}.sym"]
    if draw(st.booleans()):
        conditions.append(_condition(draw, choose(draw, (alias, other)), columns, templates))
    if one_in(draw, 3):
        conditions.append(f"{alias}.num < {other}.num")
    return (
        f"SELECT {_outputs(draw, columns)} FROM trades {alias} {windows[0]}, {second} {other} {windows[1]}"
        f"{_where(conditions)}"
    )


_AGGREGATES = ("COUNT(*)", "SUM(x.qty)", "AVG(x.price)", "MIN(x.num)", "MAX(x.num)", "COUNT(DISTINCT x.num)")
_HAVING = ("COUNT(*) > {i}", "MAX(x.num) <= {j}", "MIN(x.num) < MAX(x.num)", "AVG(x.price) > {i}")


def aggregate(draw: DrawFn, templates: Sequence[str]) -> str:
    """Two groupings, one range; the slide and the rest are anything."""
    keys = choose(draw, (("x.sym",), ("x.sym", "x.price"), (), ("x.num % 2",)))
    shown = [choose(draw, _AGGREGATES) for _ in range(draw(st.integers(1, 2)))]
    shown.append(f"{choose(draw, _AGGREGATES)} + 1")
    conditions = [] if draw(st.booleans()) else ["x.flag"]
    if "x.sym" in keys and draw(st.booleans()):
        conditions.append(_simple(draw, "x", ("{a}sym = '{s}'", "{a}sym IN ('a', '{s}')", "{a}sym >= '{s}'")))
    if "x.price" in keys and one_in(draw, 3):
        conditions.append(choose(draw, ("x.price >= 0e0", "CAST(x.price AS STRING) = '0.0'")))
    slide, origin = choose(draw, ((2, 0), (3, 0), (4, 0), (4, 1), (6, 3), (6, 0), (1, 0)))
    tests = (*_HAVING, "x.sym > 'a'") if "x.sym" in keys else _HAVING
    having = f" HAVING {_simple(draw, 'x', tests)}" if draw(st.booleans()) else ""
    listed = ", ".join(f"{each} AS c{number}" for number, each in enumerate([*keys, *shown]))
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {listed} FROM trades x [ROWS 6 SLIDE {slide} ORIGIN {origin}]{_where(conditions)}{by}{having}"


def alone(draw: DrawFn, templates: Sequence[str]) -> str:
    return choose(
        draw,
        (
            "SELECT DISTINCT sym FROM trades RETAIN 5",
            "SELECT sym, COUNT(*) AS k FROM trades GROUP BY sym",
            "SELECT COUNT(*) AS k FROM trades [ROWS 4 SLIDE 4] EMIT EMPTY",
            "SELECT qty FROM trades [ROWS 4 SLIDE 2]",
            "SELECT x.sym AS s FROM trades x [RANGE UNBOUNDED], quotes y [RANGE UNBOUNDED] WHERE x.sym = y.sym",
            "SELECT sym FROM trades UNION ALL SELECT sym FROM quotes",
        ),
    )


KINDS = (selection, selection_with_table, join, aggregate)


@st.composite
def alike(draw: DrawFn, most: int = 6) -> dict[str, Query]:
    """Queries of mostly one kind, by name, whose conditions are about the same few things."""
    kind = choose(draw, KINDS)
    templates = [choose(draw, _SIMPLE) for _ in range(draw(st.integers(1, 3)))]
    count = draw(st.integers(2, most))
    kinds = [choose(draw, (*KINDS, alone)) if one_in(draw, 8) else kind for _ in range(count)]
    return {f"q{number}": bound(f"q{number}", each(draw, templates)) for number, each in enumerate(kinds)}
