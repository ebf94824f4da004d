"""Queries as JSON documents: what `weft.plan.text` says, for machines.

Lengths of time are in ticks of the clock (microseconds, or ordinals); expressions are SQL, as in the text.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from weft.algebra import Answers, Input, Query, Relation, Retain, SetOperation, Stream, Table, Window
from weft.algebra.secrets import shown_options, shown_sql
from weft.algebra.types import DataType
from weft.plan.text import aggregate_text, expression_text, window_text

Document: TypeAlias = dict[str, Any]


def query_document(query: Query) -> Document:
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


def relation_document(relation: Relation) -> Document:
    """A select, or a set operator with its two operands."""
    clock = relation.clock_type
    if isinstance(relation, SetOperation):
        return {
            "kind": relation.operator.value.lower(),
            "all": relation.all,
            "window": window_document(relation.window, clock),
            "retain": _retain(relation.retain),
            "left": relation_document(relation.left),
            "right": relation_document(relation.right),
        }
    return {
        "kind": "select",
        "distinct": relation.distinct,
        "window": window_document(relation.window, clock),
        "retain": _retain(relation.retain),
        "emit_empty": relation.emit_empty,
        "outputs": [{"name": each.name, "expression": expression_text(each.expression)} for each in relation.outputs],
        "having": None if relation.having is None else expression_text(relation.having),
        "aggregates": [aggregate_text(each) for each in relation.aggregates],
        "keys": [expression_text(each) for each in relation.keys],
        "where": None if relation.where is None else expression_text(relation.where),
        "inputs": [_input(each, clock) for each in relation.inputs],
    }


def window_document(window: Window | None, clock: DataType) -> Document | None:
    """A window in ticks and as a user writes it; its range is null if it never closes."""
    if window is None:
        return None
    return {
        "range": window.range,
        "slide": window.slide,
        "origin": window.origin,
        "text": window_text(window, clock),
    }


def _input(input_: Input, clock: DataType) -> Document:
    source = input_.source
    document: Document = {"alias": input_.alias, "window": window_document(input_.window, clock)}
    if isinstance(source, Stream):
        return {"kind": "stream", "name": source.name, **document}
    if isinstance(source, Table):
        return {"kind": "table", "name": source.name, **document}
    if isinstance(source, Answers):
        return {"kind": "query", "name": source.query, **document}
    return {"kind": "subquery", **document, "relation": relation_document(source)}


def _retain(retain: Retain | None) -> Document | None:
    """How long rows are remembered; null ticks are for ever."""
    return None if retain is None else {"ticks": retain.ticks}
