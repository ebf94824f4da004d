"""Random select lists, and the clauses that go with them: WHERE, GROUP BY, HAVING."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.generator_expressions import (
    INEXACT,
    ColumnText,
    choose,
    condition,
    expression,
    family_of,
    fill,
    leaf,
    one_in,
)
from tests.support.generator_tables import Grammar, Item

#: Aggregates whose value is the same in every engine, with the family of that value.
EXACT_AGGREGATES = (
    ("COUNT(*)", "integer"),
    ("COUNT({any})", "integer"),
    ("SUM({integer})", "integer"),
    ("SUM({decimal})", "decimal"),
    ("AVG({decimal})", "decimal"),
    ("MIN({integer})", "integer"),
    ("MAX({integer})", "integer"),
    ("MIN({double})", "double"),
    ("MAX({double})", "double"),
    ("MIN({string})", "string"),
    ("MAX({string})", "string"),
    ("MIN({timestamp})", "timestamp"),
    ("MAX({timestamp})", "timestamp"),
    ("MAX({decimal})", "decimal"),
    ("MIN({date})", "date"),
    ("MAX({boolean})", "boolean"),
    ("MIN_BY({string}, {integer})", "string"),
    ("MAX_BY({integer}, {double})", "integer"),
    ("MIN_BY({double}, {string})", "double"),
    ("MAX_BY({string}, {timestamp})", "string"),
    ("(SUM({integer}) + COUNT(*))", "integer"),
    ("(MAX({integer}) - MIN({integer}))", "integer"),
    ("CASE WHEN COUNT(*) > 2 THEN MIN({string}) ELSE MAX({string}) END", "string"),
)

#: Aggregates of doubles that depend, in the last bits, on the order of the rows.
INEXACT_AGGREGATES = (
    ("SUM({double})", "double"),
    ("AVG({double})", "double"),
    ("AVG({integer})", "double"),
    ("VAR_SAMP({double})", "double"),
    ("VAR_POP({integer})", "double"),
    ("STDDEV_SAMP({integer})", "double"),
    ("STDDEV_POP({double})", "double"),
    ("(SUM({double}) / COUNT(*))", "double"),
)

EXACT_HOLISTIC = (("COUNT(DISTINCT {any})", "integer"),)
INEXACT_HOLISTIC = (
    ("MEDIAN({double})", "double"),
    ("PERCENTILE({integer}, 0.25)", "double"),
    ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY {double})", "double"),
)

HAVING = (
    "COUNT(*) > 1",
    "COUNT(*) <= 3",
    "SUM({integer}) >= 2",
    "MIN({string}) IS NOT NULL",
    "MAX({integer}) <> 3 OR COUNT({double}) = 1",
    "NOT (MAX({double}) < 1e0)",
)


def row_items(draw: DrawFn, columns: Sequence[ColumnText], grammar: Grammar, exact: bool = False) -> list[Item]:
    """Columns and expressions over one row; only what is exact, if so wanted."""
    items = []
    for n in range(draw(st.integers(1, 4))):
        if grammar.inexact and not exact and one_in(draw, 10):
            text = fill(draw, choose(draw, INEXACT), columns, grammar.depth - 1)
            items.append(Item(text, f"o{n}", "double", exact=False))
        elif not exact and one_in(draw, 3) and columns:
            column = choose(draw, columns)
            items.append(Item(column.text, f"o{n}", column.family, column.exact))
        else:
            family = family_of(draw, columns)
            items.append(Item(expression(draw, family, columns, grammar.depth), f"o{n}", family))
    return items


def aggregates(draw: DrawFn, columns: Sequence[ColumnText], grammar: Grammar, least: int) -> list[Item]:
    """Aggregates, and expressions over them."""
    return [_aggregate(draw, n, columns, grammar) for n in range(draw(st.integers(least, 3)))]


def _aggregate(draw: DrawFn, n: int, columns: Sequence[ColumnText], grammar: Grammar) -> Item:
    if grammar.approximate and one_in(draw, 16):
        # Of a family of its own, so that nothing looks at it again: what it says depends on the engine.
        return Item(f"APPROX_COUNT_DISTINCT({_any(draw, columns)})", f"o{n}", "approximate", exact=False)
    exact = not one_in(draw, 3)
    choices = EXACT_AGGREGATES if exact else INEXACT_AGGREGATES
    if grammar.holistic and one_in(draw, 4):
        choices = EXACT_HOLISTIC if exact else INEXACT_HOLISTIC
    template, family = choose(draw, choices)
    text = fill(draw, template.replace("{any}", _any(draw, columns)), columns, choose(draw, (0, 0, 1)))
    return Item(text, f"o{n}", family, exact)


def _any(draw: DrawFn, columns: Sequence[ColumnText]) -> str:
    return leaf(draw, family_of(draw, columns), columns)


def keys(draw: DrawFn, columns: Sequence[ColumnText]) -> list[Item]:
    """Grouping keys, as items of the select list."""
    found = []
    for n in range(choose(draw, (0, 1, 1, 1, 2))):
        family = family_of(draw, columns)
        text = expression(draw, family, columns, choose(draw, (0, 0, 1)))
        # A constant is no key: GROUP BY 1 means the first item of the select list.
        if any(column.text in text for column in columns):
            found.append(Item(text, _new_name(f"k{n}", columns), family))
    return found


def _new_name(name: str, columns: Sequence[ColumnText]) -> str:
    """A name that no column has: GROUP BY would take it for the column."""
    while any(column.text.rpartition(".")[2] == name for column in columns):
        name += "_"
    return name


def group_by(draw: DrawFn, window: str | None, by: Sequence[Item], first: int = 1) -> str:
    """GROUP BY with keys by their expression, their alias, or their place in the select list."""
    named = [choose(draw, (key.text, key.name, str(first + n))) for n, key in enumerate(by)]
    group = [*([window] if window else []), *named]
    return f" GROUP BY {', '.join(group)}" if group else ""


def having(draw: DrawFn, columns: Sequence[ColumnText]) -> str:
    """HAVING, now and then."""
    if not one_in(draw, 4):
        return ""
    return f" HAVING {fill(draw, choose(draw, HAVING), columns, 0)}"


def where(draw: DrawFn, columns: Sequence[ColumnText], grammar: Grammar) -> str:
    """WHERE, now and then."""
    return f" WHERE {condition(draw, columns, grammar.depth)}" if one_in(draw, 3) else ""


def named_bounds(draw: DrawFn) -> list[Item]:
    """The bounds of the window, where the select list names them itself."""
    if not one_in(draw, 4):
        return []
    start, end = choose(draw, (("window_start", "window_end"), ("window.start", "window.end")))
    return [Item(start, "ws", "bound"), Item(end, "we", "bound")]
