"""Which rows a query loses because they come too late (docs/semantics.md, "Late rows"), as slow and obvious Python.

A row of a stream goes up through a query's relation until an operator does more than pass rows. On the way it has to
satisfy all conditions that can be told from the row alone. Values that tables have a part in are not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.oracle_expressions import Scope, evaluate, holds
from weft.algebra import Call, Column, Expression, Select, SetOperation, Source, Stream, Value

if TYPE_CHECKING:
    from tests.oracle import Row, StandingQuery


@dataclass(frozen=True)
class _Arrival:
    """A row where it has come to: the values that are known, and whether it came too late there, once that is known."""

    values: Mapping[str, Value]
    satisfies: bool = True
    is_late: bool | None = None


def losses(query: StandingQuery, stream: Stream, row: Row) -> int:
    """In how many places a query loses a row of a stream."""
    return sum(
        arrival.satisfies and arrival.is_late is True for arrival in _arrivals(query, query.relation, stream, row)
    )


def _arrivals(query: StandingQuery, source: Source, stream: Stream, row: Row) -> Iterator[_Arrival]:
    match source:
        case Stream(name=name) if name == stream.name:
            yield _Arrival({field.name: value for field, value in zip(stream.fields, row.values, strict=True)})
        case Select():
            for item in source.inputs:
                for arrival in _arrivals(query, item.source, stream, row):
                    decided = arrival.is_late is not None
                    yield arrival if decided else _selected(query, source, item.alias, item.source, row, arrival)
        case SetOperation():
            for operand in (source.left, source.right):
                for arrival in _arrivals(query, operand, stream, row):
                    if arrival.is_late is not None:
                        yield arrival
                    elif query.passes(source):
                        names = zip(source.fields, operand.fields, strict=True)
                        known = {new.name: arrival.values[old.name] for new, old in names if old.name in arrival.values}
                        yield _Arrival(known, arrival.satisfies)
                    else:
                        yield _Arrival({}, arrival.satisfies, query.is_late(source, operand, row))


def _selected(query: StandingQuery, select: Select, alias: str, below: Source, row: Row, arrival: _Arrival) -> _Arrival:
    scope = Scope({(alias, name): value for name, value in arrival.values.items()})
    known = [each for each in _conjuncts(select.where) if _is_known(each, scope)]
    satisfies = arrival.satisfies and all(holds(each, scope) for each in known)
    if not query.passes(select):
        return _Arrival({}, satisfies, query.is_late(select, below, row))
    outputs = {each.name: each.expression for each in select.outputs if _is_known(each.expression, scope)}
    return _Arrival({name: evaluate(each, scope) for name, each in outputs.items()}, satisfies)


def _conjuncts(where: Expression | None) -> Iterator[Expression]:
    if isinstance(where, Call) and where.op == "and":
        for arg in where.args:
            yield from _conjuncts(arg)
    elif where is not None:
        yield where


def _is_known(expression: Expression, scope: Scope) -> bool:
    if isinstance(expression, Column):
        return (expression.source, expression.name) in scope.columns
    return not isinstance(expression, Call) or all(_is_known(arg, scope) for arg in expression.args)
