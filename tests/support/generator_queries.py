"""Random queries in weft's language, as text.

The functions here draw a SELECT over tables and return it as a `Table` again, whose `text` is the SELECT; so relations
nest by calling one another. `Grammar` says which constructs are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.generator_expressions import VISIBLE, ColumnText, choose, condition, expression, one_in
from tests.support.generator_lists import aggregates, group_by, having, keys, named_bounds, row_items, where
from tests.support.generator_tables import (
    Grammar,
    Item,
    Table,
    an_alias,
    clock_family,
    listed,
    selected,
    selected_by_window,
)
from tests.support.generator_windows import Lengths, bracket, duration, lengths, retention, spelling, window_call
from weft.algebra import DataType
from weft.algebra.types import TIMESTAMP

# Over one table


def selection(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """A selection and projection of single rows."""
    alias = an_alias(draw, table)
    columns, clock = table.visible(alias), table.clock_text(alias)
    source = f"FROM {table.item(alias)}{where(draw, columns, grammar)}"
    if one_in(draw, 6):
        return replace(table, text=f"SELECT * {source}", is_named=False)
    items = row_items(draw, columns, grammar)
    if clock is not None and draw(st.booleans()):
        items.append(Item(clock, "clk", clock_family(table.clock_type)))
    # Where several columns show the clock, the first of them counts.
    shown = next((item.name for item in items if item.text == clock), None)
    return selected(f"SELECT {listed(items)} {source}", items, shown, table.clock_type, table.fan_out)


def windowed_selection(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """Each row once per window instance that covers it, perhaps DISTINCT."""
    alias = an_alias(draw, table)
    columns = table.visible(alias)
    distinct = grammar.distinct and one_in(draw, 4)
    items = row_items(draw, columns, grammar, exact=distinct)
    window = lengths(draw, table)
    source = spelling(draw, table, alias, window, grouped=False).item
    text = f"SELECT {'DISTINCT ' * distinct}{listed(items)} FROM {source}{where(draw, columns, grammar)}"
    return selected_by_window(text, items, table.clock_type, table.fan_out * window.instances)


def now_selection(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """`[NOW]`: a window of one tick."""
    alias = an_alias(draw, table)
    columns = table.visible(alias)
    items = row_items(draw, columns, grammar)
    text = f"SELECT {listed(items)} FROM {table.item(alias)} [NOW]{where(draw, columns, grammar)}"
    return selected_by_window(text, items, table.clock_type, table.fan_out)


def windowed_aggregate(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """Aggregates per group and window instance."""
    alias = an_alias(draw, table)
    columns = table.visible(alias)
    bounds, by = named_bounds(draw), keys(draw, columns)
    items = [*by, *aggregates(draw, columns, grammar, least=0 if by else 1)]
    window = lengths(draw, table)
    source = spelling(draw, table, alias, window, grouped=True)
    text = (
        f"SELECT {listed([*bounds, *items])} FROM {source.item}{where(draw, columns, grammar)}"
        f"{group_by(draw, source.group, by, first=1 + len(bounds))}{having(draw, columns)}"
    )
    if grammar.emit_empty and not by and one_in(draw, 4):
        text += " EMIT EMPTY"
    return selected_by_window(text, items, table.clock_type, table.fan_out * window.instances, bounds)


def unbounded_aggregate(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """An ever-growing aggregate, with or without saying so."""
    alias = an_alias(draw, table)
    columns, by = table.visible(alias), keys(draw, table.visible(alias))
    says_so = draw(st.booleans())
    within = replace(grammar, holistic=grammar.holistic and says_so)
    items = [*by, *aggregates(draw, columns, within, least=0 if by else 1)]
    source = f"{table.item(alias)}{' [RANGE UNBOUNDED]' * says_so}{where(draw, columns, grammar)}"
    text = f"SELECT {listed(items)} FROM {source}{group_by(draw, None, by)}{having(draw, columns)}"
    return selected(text, items, None, table.clock_type, table.fan_out)


def distinct_over_history(draw: DrawFn, table: Table, grammar: Grammar) -> Table:
    """SELECT DISTINCT … RETAIN …"""
    alias = an_alias(draw, table)
    columns = table.visible(alias)
    items = row_items(draw, columns, replace(grammar, depth=1), exact=True)
    source = f"{table.item(alias)}{where(draw, columns, grammar)}"
    text = f"SELECT DISTINCT {listed(items)} FROM {source} RETAIN {retention(draw, table.clock_type)}"
    return selected(text, items, None, table.clock_type, table.fan_out)


# Joins


def join(draw: DrawFn, tables: Sequence[Table], grammar: Grammar) -> Table:
    """An inner join of two or three inputs, some of them perhaps tables, selected from or aggregated."""
    aliases = ("x", "y", "z")[: len(tables)]
    flowing = [(table, alias) for table, alias in zip(tables, aliases, strict=True) if not table.is_static]
    items, bounds = _items(draw, tables, aliases)
    columns = [column for table, alias in zip(tables, aliases, strict=True) for column in table.visible(alias)]
    conditions = [*bounds, *_join_conditions(draw, tables, aliases, columns)]
    source = _joined(draw, items, conditions, _shared_names(tables))
    joined = Table(source, tuple(columns), None, flowing[0][0].clock_type, fan_out=20)
    clocks = [table.clock_text(alias) for table, alias in flowing]
    choices = ["rows", "rows"]
    if len(flowing) == 1:
        return _join_of_one_stream(draw, joined, flowing[0], grammar)
    if grammar.aggregates_over_joins:
        choices += ["windowed"] if all(clocks) else []
        may_be_unbounded = grammar.unbounded_aggregates and "SLIDE" not in source and "UNBOUNDED" in source
        choices += ["unbounded"] if may_be_unbounded else []
    match choose(draw, choices):
        case "windowed":
            return _windowed_aggregate_of_join(draw, joined, f"GREATEST({', '.join(map(str, clocks))})", grammar)
        case "unbounded":
            return _unbounded_aggregate_of_join(draw, joined, grammar)
    outputs = row_items(draw, columns, replace(grammar, depth=1))
    return selected(f"SELECT {listed(outputs)} {source}", outputs, None, joined.clock_type, joined.fan_out)


def _join_of_one_stream(draw: DrawFn, joined: Table, stream: tuple[Table, str], grammar: Grammar) -> Table:
    """A join with tables: where one input flows, its clock and window are those of the join."""
    table, alias = stream
    clock = table.clock_text(alias)
    choices = ["rows", "rows"]
    if grammar.aggregates_over_joins:
        choices += ["window in FROM", "windowed rows"]
        choices += ["window in GROUP BY"] if clock is not None and table.clock != "window_end" else []
        choices += ["unbounded"] if grammar.unbounded_aggregates else []
    choice = choose(draw, choices)
    if choice == "window in GROUP BY":
        return _windowed_aggregate_of_join(draw, joined, str(clock), grammar)
    if choice == "unbounded":
        return _unbounded_aggregate_of_join(draw, joined, grammar)
    outputs = row_items(draw, joined.columns, replace(grammar, depth=1))
    if choice == "rows":
        shown = next((item.name for item in outputs if item.text == clock), None)
        return selected(f"SELECT {listed(outputs)} {joined.text}", outputs, shown, joined.clock_type, joined.fan_out)
    window = lengths(draw, joined)
    item = table.item(alias)
    # The first item of that name in FROM is the stream's: aliases differ, and conditions come after it.
    source = joined.text.replace(item, f"{item} {bracket(draw, window, joined.clock_type)}", 1)
    group = ""
    if choice == "window in FROM":
        by = keys(draw, joined.columns)
        outputs = [*by, *aggregates(draw, joined.columns, grammar, least=0 if by else 1)]
        group = group_by(draw, None, by)
    text = f"SELECT {listed(outputs)} {source}{group}"
    return selected_by_window(text, outputs, joined.clock_type, joined.fan_out * window.instances)


def _windowed_aggregate_of_join(draw: DrawFn, joined: Table, clock: str, grammar: Grammar) -> Table:
    by, window = keys(draw, joined.columns), lengths(draw, joined)
    outputs = [*by, *aggregates(draw, joined.columns, grammar, least=0 if by else 1)]
    group = group_by(draw, window_call(clock, window, joined.clock_type), by)
    return selected_by_window(
        f"SELECT {listed(outputs)} {joined.text}{group}", outputs, joined.clock_type, joined.fan_out * window.instances
    )


def _unbounded_aggregate_of_join(draw: DrawFn, joined: Table, grammar: Grammar) -> Table:
    by = keys(draw, joined.columns)
    outputs = [*by, *aggregates(draw, joined.columns, replace(grammar, holistic=False), least=0 if by else 1)]
    text = f"SELECT {listed(outputs)} {joined.text}{group_by(draw, None, by)}"
    return selected(text, outputs, None, joined.clock_type, joined.fan_out)


def _items(draw: DrawFn, tables: Sequence[Table], aliases: Sequence[str]) -> tuple[list[str], list[str]]:
    """The FROM items of a join, and conditions on clocks if it is these that say which rows meet."""
    flowing = [number for number, table in enumerate(tables) if not table.is_static]
    items = [table.item(alias) for table, alias in zip(tables, aliases, strict=True)]
    if len(flowing) == 1:
        return items, []
    meeting, bounds = _meeting(draw, [tables[number] for number in flowing], [aliases[number] for number in flowing])
    for number, item in zip(flowing, meeting, strict=True):
        items[number] = item
    return items, bounds


def _meeting(draw: DrawFn, tables: Sequence[Table], aliases: Sequence[str]) -> tuple[list[str], list[str]]:
    """The FROM items of a join, and conditions if it is these that say which rows meet."""
    clock = tables[0].clock_type
    items = [table.item(alias) for table, alias in zip(tables, aliases, strict=True)]
    ranges = [choose(draw, (1, 2, 3, 5)) for _ in tables]
    windows = [f" [RANGE {duration(draw, each, clock)}]" for each in ranges]
    choices = ["windows", "windows", "now", "slide", "half unbounded"]
    choices += ["unbounded"] if len(tables) == 2 else []
    choices += ["conditions"] if all(table.clock for table in tables) else []
    match choose(draw, choices):
        case "now":
            windows[0] = " [NOW]"
        case "slide":
            slide, origin = choose(draw, (2, 3, 5)), choose(draw, (0, 0, 1))
            windows = [" " + bracket(draw, Lengths(each, slide, origin), clock) for each in ranges]
        case "unbounded":
            windows = [" [RANGE UNBOUNDED]"] * len(tables)
        case "half unbounded":
            windows[0] = " [RANGE UNBOUNDED]"
        case "conditions":
            return items, [_band(draw, tables[n - 1 : n + 1], aliases[n - 1 : n + 1]) for n in range(1, len(tables))]
    return [f"{item}{window}" for item, window in zip(items, windows, strict=True)], []


def _band(draw: DrawFn, tables: Sequence[Table], aliases: Sequence[str]) -> str:
    """A bound on the difference between the clocks of two inputs."""
    older, newer = (table.clock_text(alias) for table, alias in zip(tables, aliases, strict=True))
    before, after = (_steps(draw(st.integers(0, 4)), tables[0].clock_type) for _ in range(2))
    ways = (
        f"{newer} BETWEEN {older} - {before} AND {older} + {after}",
        f"{newer} >= {older} - {before} AND {newer} < {older} + {after}",
        f"{newer} = {older}",
    )
    return choose(draw, ways)


def _steps(count: int, clock: DataType) -> str:
    return f"INTERVAL {count} SECONDS" if clock == TIMESTAMP else str(count)


def _join_conditions(
    draw: DrawFn, tables: Sequence[Table], aliases: Sequence[str], columns: Sequence[ColumnText]
) -> list[str]:
    """Comparisons between neighbours, and now and then any condition at all."""
    conditions = []
    for n in range(1, len(tables)):
        mine, others = tables[n].visible(aliases[n]), tables[n - 1].visible(aliases[n - 1])
        pairs = [(a, b) for a in mine for b in others if a.family == b.family in VISIBLE and a.exact and b.exact]
        if pairs and draw(st.booleans()):
            a, b = choose(draw, pairs)
            conditions.append(f"{a.text} {choose(draw, ('=', '=', '<', '<=>'))} {b.text}")
    if one_in(draw, 4):
        conditions.append(condition(draw, columns, 1))
    return conditions


def _shared_names(tables: Sequence[Table]) -> list[str]:
    """The columns that two inputs have under the same name, as USING takes them."""
    first, second = ({(c.text, c.family) for c in table.columns if c.exact} for table in tables[:2])
    return sorted(name for name, family in first & second if family in VISIBLE) if len(tables) == 2 else []


def _joined(draw: DrawFn, items: Sequence[str], conditions: Sequence[str], shared: Sequence[str]) -> str:
    """FROM with commas, CROSS JOIN, JOIN … ON or JOIN … USING."""
    where_ = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if shared and one_in(draw, 6):
        return f"FROM {items[0]} JOIN {items[1]} USING ({choose(draw, shared)}){where_}"
    if len(items) == 2 and conditions and draw(st.booleans()):
        return f"FROM {items[0]} JOIN {items[1]} ON {' AND '.join(conditions)}"
    return f"FROM {choose(draw, (', ', ' CROSS JOIN ')).join(items)}{where_}"


# Set operators


def windowed_set_operation(draw: DrawFn, tables: Sequence[Table], grammar: Grammar) -> Table:
    """UNION, INTERSECT or EXCEPT [ALL] of operands with the same window: selections or aggregates."""
    window, clock = lengths(draw, tables[0]), tables[0].clock_type
    fan_out = sum(table.fan_out for table in tables) * window.instances
    families = draw(st.lists(st.sampled_from(tuple(VISIBLE)), min_size=1, max_size=3))
    is_grouped = one_in(draw, 3)
    operands = []
    for table in tables:
        columns = table.visible(None)
        items = _cast_items(draw, columns, families)
        source = f"FROM {table.text} {bracket(draw, window, clock)}{where(draw, columns, grammar)}"
        if is_grouped:
            source += f" GROUP BY {', '.join(item.text for item in items)}"
            items.append(Item("COUNT(*)", "c", "integer"))
        operands.append(f"SELECT {listed(items)} {source}")
    operators = [f"{_operator(draw)}{' ALL' * draw(st.booleans())}" for _ in operands[1:]]
    return selected_by_window(_operated(operands, operators), items, clock, fan_out)


def set_operation_over_history(draw: DrawFn, tables: Sequence[Table], grammar: Grammar) -> Table:
    """UNION, INTERSECT or EXCEPT with RETAIN, or UNION ALL, which needs none."""
    clock = tables[0].clock_type
    families = draw(st.lists(st.sampled_from(tuple(VISIBLE)), min_size=1, max_size=2))
    operands = []
    for table in tables:
        columns = table.visible(None)
        items = _cast_items(draw, columns, families)
        operands.append(f"SELECT {listed(items)} FROM {table.text}{where(draw, columns, grammar)}")
    operators = [choose(draw, (_operator(draw), "UNION ALL")) for _ in operands[1:]]
    needs_retain = any(operator != "UNION ALL" for operator in operators)
    text = _operated(operands, operators) + f" RETAIN {retention(draw, clock)}" * needs_retain
    return selected(text, items, None, clock, sum(table.fan_out for table in tables))


def _operator(draw: DrawFn) -> str:
    return choose(draw, ("UNION", "INTERSECT", "EXCEPT"))


def _operated(operands: Sequence[str], operators: Sequence[str]) -> str:
    """The operators from the left, in parentheses."""
    text = operands[0]
    for n, (operator, operand) in enumerate(zip(operators, operands[1:], strict=True)):
        text = f"{f'({text})' if n else text} {operator} {operand}"
    return text


def _cast_items(draw: DrawFn, columns: Sequence[ColumnText], families: Sequence[str]) -> list[Item]:
    """A column, or something close to one, for each family: set operators need values that are equal now and then."""
    items = []
    for n, family in enumerate(families):
        text = expression(draw, family, columns, choose(draw, (0, 0, 1)))
        items.append(Item(f"CAST({text} AS {VISIBLE[family]})", f"o{n}", family))
    return items


# Any query


def query(draw: DrawFn, tables: Sequence[Table], grammar: Grammar) -> Table:
    """Any SELECT over some of the tables."""
    choices = {
        "selection": grammar.selections,
        "windowed selection": grammar.windowed_selections,
        "now": grammar.windowed_selections,
        "windowed aggregate": grammar.windowed_aggregates,
        "another windowed aggregate": grammar.windowed_aggregates,
        "unbounded aggregate": grammar.unbounded_aggregates,
        "join": grammar.joins,
        "another join": grammar.joins,
        "distinct": grammar.distinct and grammar.set_operators_over_history,
        "windowed set operation": grammar.windowed_set_operators,
        "set operation over history": grammar.set_operators_over_history,
    }
    static, tables = [each for each in tables if each.is_static], [each for each in tables if not each.is_static]
    match choose(draw, [choice for choice, wanted in choices.items() if wanted]):
        case "join" | "another join":
            return join(draw, _inputs(draw, tables, static, grammar), grammar)
        case "windowed set operation":
            return windowed_set_operation(draw, _operands(draw, tables), grammar)
        case "set operation over history":
            return set_operation_over_history(draw, _operands(draw, tables), grammar)
        case choice:
            return _over_one_table(draw, choice, tables, static, grammar)


def _over_one_table(
    draw: DrawFn, choice: str, tables: Sequence[Table], static: Sequence[Table], grammar: Grammar
) -> Table:
    """A SELECT over a table, a subquery, or the same subquery in a WITH clause."""
    table, with_ = choose(draw, tables), ""
    if grammar.subqueries and one_in(draw, 4):
        inner = replace(grammar, subqueries=grammar.subqueries - 1, approximate=False, emit_empty=False)
        table = query(draw, [*tables, *static], inner)
        if one_in(draw, 3):
            table, with_ = replace(table, text="w", is_named=True), f"WITH w AS ({table.text}) "
    over = {
        "selection": selection,
        "windowed selection": windowed_selection,
        "now": now_selection,
        "windowed aggregate": windowed_aggregate,
        "another windowed aggregate": windowed_aggregate,
        "unbounded aggregate": unbounded_aggregate,
        "distinct": distinct_over_history,
    }
    drawn = over[choice](draw, table, grammar)
    return replace(drawn, text=with_ + drawn.text)


def _inputs(draw: DrawFn, tables: Sequence[Table], static: Sequence[Table], grammar: Grammar) -> list[Table]:
    """Inputs of a join: tables, or selections from them, whose clocks are of one type; some of them may be static."""
    small = [table for table in tables if table.fan_out <= 3]
    first = choose(draw, small)
    fitting = [table for table in small if table.clock_type == first.clock_type]
    count = draw(st.integers(2, grammar.join_inputs))
    inputs = [first, *(choose(draw, fitting) for _ in range(count - 1))]
    if grammar.subqueries and one_in(draw, 5):
        inputs[-1] = selection(draw, inputs[-1], grammar)
    if static and grammar.joins_with_tables and one_in(draw, 2):
        for position in draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count - 1, unique=True)):
            inputs[position] = choose(draw, static)
    return inputs


def _operands(draw: DrawFn, tables: Sequence[Table]) -> list[Table]:
    """Operands of set operators: tables whose clocks are of one type."""
    plain = [table for table in tables if not table.shows_bounds]
    first = choose(draw, plain)
    fitting = [table for table in plain if table.clock_type == first.clock_type]
    return [first, *(choose(draw, fitting) for _ in range(choose(draw, (1, 1, 2))))]
