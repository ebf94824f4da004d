"""Queries for people and for machines: expressions as SQL, relations as indented trees or as JSON documents.

In documents lengths of time are in ticks of the clock (microseconds, or ordinals); expressions are SQL, as in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, TypeAlias

import weft.algebra as algebra
from weft.algebra.secrets import shown_options, shown_sql
from weft.algebra.types import INTERVAL, STRING, TIMESTAMP, DataType, Kind
from weft.predicates.terms import quoted_text

Document: TypeAlias = dict[str, Any]

#: The most entries of a list that are shown; the others are counted. JSON has all of them.
SHOWN = 8
_EPOCH = datetime(1970, 1, 1)  # UTC, as all timestamps are
_UNITS = (
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1_000),
    ("MICROSECOND", 1),
)
_INFIX = frozenset({"=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "and", "or", "like", "div"})
_FORMS = {
    "not": "(NOT {0})",
    "neg": "(-{0})",
    "is_null": "({0} IS NULL)",
    "in": "({0} IN ({rest}))",
    "cast": "CAST({0} AS {type})",
}


def duration_text(ticks: int, clock: DataType) -> str:
    """A number of ticks the way a user writes it: in the largest unit that divides it."""
    if clock != TIMESTAMP:
        return str(ticks)
    for unit, length in _UNITS:
        if ticks % length == 0 and (ticks or unit == "SECOND"):
            count = ticks // length
            return f"{count} {unit}{'S' * (count != 1)}"
    raise AssertionError("every whole number of ticks is a number of microseconds")


def clock_text(value: int, clock: DataType) -> str:
    """A clock value: an instant in UTC, or the ordinal itself."""
    if clock != TIMESTAMP:
        return str(value)
    return (_EPOCH + timedelta(microseconds=value)).isoformat(sep=" ")


def window_text(window: algebra.Window, clock: DataType) -> str:
    if window.range is None:
        return "[RANGE UNBOUNDED]"
    origin = f" ORIGIN {duration_text(window.origin, clock)}" if window.origin else ""
    slide = f" SLIDE {duration_text(window.slide, clock)}" if window.slide != 1 else ""
    return f"[RANGE {duration_text(window.range, clock)}{slide}{origin}]"


def expression_text(expression: algebra.Expression) -> str:
    """An expression as SQL; keys and aggregates of a grouped select appear as #0 and @0."""
    if isinstance(expression, algebra.Column):
        return f"{expression.source}.{expression.name}" if expression.source else expression.name
    if isinstance(expression, algebra.Literal):
        return _literal(expression)
    if isinstance(expression, algebra.KeyRef):
        return f"#{expression.index}"
    if isinstance(expression, algebra.AggregateRef):
        return f"@{expression.index}"
    if isinstance(expression, algebra.WindowBound):
        return "window_end" if expression.end else "window_start"
    return _call(expression)


def _literal(literal: algebra.Literal) -> str:
    value = literal.value
    if value is None:
        return "NULL"
    if literal.type == STRING:
        return quoted_text(str(value))
    if literal.type == TIMESTAMP:
        return f"TIMESTAMP '{clock_text(int(str(value)), TIMESTAMP)}'"
    if literal.type == INTERVAL:
        return f"INTERVAL {duration_text(int(str(value)), TIMESTAMP)}"
    if literal.type.kind is Kind.DATE:
        return f"DATE '{value!s}'"
    if literal.type.kind is Kind.BOOLEAN:
        return str(value).upper()
    return str(value)


def _call(call: algebra.Call) -> str:
    args = [expression_text(arg) for arg in call.args]
    if call.op in _INFIX:
        return "(" + f" {call.op.upper()} ".join(args) + ")"
    if call.op in _FORMS:
        return _FORMS[call.op].format(*args, rest=", ".join(args[1:]), type=call.type)
    if call.op == "case":
        branches = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
        return f"CASE {branches} ELSE {args[-1]} END"
    return f"{call.op.upper()}({', '.join(args)})"


def aggregate_text(aggregate: algebra.Aggregate) -> str:
    args = ", ".join(expression_text(arg) for arg in aggregate.args) or "*"
    return f"{aggregate.function.upper()}({'DISTINCT ' * aggregate.distinct}{args})"


def query_text(query: algebra.Query) -> str:
    """A bound query as an indented tree, with the types of its columns."""
    columns = ", ".join(f"{field.name} {field.type}" for field in query.relation.fields)
    clock = f"clock {query.clock}" if query.clock else "clock hidden"
    sharing = "" if query.sharing else ", sharing off"
    sink = f", into {query.sink.format}" if query.sink is not None else ""
    lines = [f"query {query.name}: {columns}; {clock}{sharing}{sink}", *_indented(relation_lines(query.relation))]
    return "\n".join(lines)


def relation_lines(relation: algebra.Relation) -> Iterator[str]:
    if isinstance(relation, algebra.SetOperation):
        all_ = " all" if relation.all else ""
        window = f" {window_text(relation.window, relation.clock_type)}" if relation.window else ""
        yield f"{relation.operator.value.lower()}{all_}{window}{_retain(relation.retain, relation.clock_type)}"
        yield from _indented(relation_lines(relation.left))
        yield from _indented(relation_lines(relation.right))
        return
    yield from _select_lines(relation)


def _select_lines(select: algebra.Select) -> Iterator[str]:
    clock = select.clock_type
    words = ["select"]
    if select.distinct:
        words.append("distinct")
    if select.window is not None:
        words.append(window_text(select.window, clock))
    if select.emit_empty:
        words.append("emit empty")
    yield " ".join(words) + _retain(select.retain, clock)
    yield "  outputs: " + ", ".join(
        f"{output.name} = {expression_text(output.expression)}" for output in select.outputs
    )
    if select.having is not None:
        yield f"  having: {expression_text(select.having)}"
    if select.aggregates:
        listed = (f"@{i} = {aggregate_text(each)}" for i, each in enumerate(select.aggregates))
        yield "  aggregates: " + ", ".join(listed)
    if select.keys:
        yield "  keys: " + ", ".join(f"#{i} = {expression_text(key)}" for i, key in enumerate(select.keys))
    if select.where is not None:
        yield f"  where: {expression_text(select.where)}"
    for each in select.inputs:
        yield from _indented(_input_lines(each, clock))


def _input_lines(input_: algebra.Input, clock: DataType) -> Iterator[str]:
    window = f" {window_text(input_.window, clock)}" if input_.window else ""
    kind, name = _source(input_.source)
    yield f"from {kind}{f' {name}' if name else ''}{window} as {input_.alias}"
    if isinstance(input_.source, (algebra.Select, algebra.SetOperation)):
        yield from _indented(relation_lines(input_.source))


def _source(source: algebra.Source) -> tuple[str, str | None]:
    """What an input reads, and its name if it has one."""
    if isinstance(source, algebra.Answers):
        return "query", source.query
    if isinstance(source, (algebra.Stream, algebra.Table)):
        return type(source).__name__.lower(), source.name
    return "subquery", None


def _retain(retain: algebra.Retain | None, clock: DataType) -> str:
    if retain is None:
        return ""
    return " retain unbounded" if retain.ticks is None else f" retain {duration_text(retain.ticks, clock)}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


# -- numbers and lists ------------------------------------------------------------------------------------------------


def number_text(value: Fraction) -> str:
    return f"{float(value):,.0f}" if abs(value) >= 1_000 else f"{float(value):.4g}"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def some(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


# -- documents --------------------------------------------------------------------------------------------------------


def query_document(query: algebra.Query) -> Document:
    """A bound query: its columns, and the tree of relations that computes them."""
    sink = query.sink
    return {
        "query": query.name,
        "columns": [{"name": field.name, "type": str(field.type)} for field in query.relation.fields],
        "clock": query.clock,
        "sharing": query.sharing,
        "sink": None if sink is None else {"format": sink.format, "options": shown_options(dict(sink.options))},
        "relation": relation_document(query.relation),
        "text": shown_sql(query.text),
    }


def relation_document(relation: algebra.Relation) -> Document:
    """A select, or a set operator with its two operands."""
    clock = relation.clock_type
    if isinstance(relation, algebra.SetOperation):
        return {
            "kind": relation.operator.value.lower(),
            "all": relation.all,
            "window": relation.window and window_document(relation.window, clock),
            "retain": _retain_document(relation.retain),
            "left": relation_document(relation.left),
            "right": relation_document(relation.right),
        }
    return {
        "kind": "select",
        "distinct": relation.distinct,
        "window": relation.window and window_document(relation.window, clock),
        "retain": _retain_document(relation.retain),
        "emit_empty": relation.emit_empty,
        "outputs": [{"name": each.name, "expression": expression_text(each.expression)} for each in relation.outputs],
        "having": None if relation.having is None else expression_text(relation.having),
        "aggregates": [aggregate_text(each) for each in relation.aggregates],
        "keys": [expression_text(each) for each in relation.keys],
        "where": None if relation.where is None else expression_text(relation.where),
        "inputs": [_input_document(each, clock) for each in relation.inputs],
    }


def window_document(window: algebra.Window, clock: DataType) -> Document:
    """A window in ticks and as a user writes it; its range is null if it never closes."""
    return {**asdict(window), "text": window_text(window, clock)}


def _input_document(input_: algebra.Input, clock: DataType) -> Document:
    kind, name = _source(input_.source)
    own: Document = {"alias": input_.alias, "window": input_.window and window_document(input_.window, clock)}
    if isinstance(input_.source, (algebra.Select, algebra.SetOperation)):
        return {"kind": kind, **own, "relation": relation_document(input_.source)}
    return {"kind": kind, "name": name, **own}


def _retain_document(retain: algebra.Retain | None) -> Document | None:
    """How long rows are remembered; null ticks are for ever."""
    return None if retain is None else {"ticks": retain.ticks}
