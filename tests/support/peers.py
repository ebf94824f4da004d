"""Second opinions: the batch SQL that says, over all rows at once, what a continuous query says bit by bit.

When nothing is late and every window has closed, the answers of all cycles together are what a batch engine computes
from the rows. `Translation` writes a bound relation as SQL for such an engine; what engines disagree on (functions,
casts, how a window is spelled) is in their `Dialect`: DuckDB's in `peers_duckdb.py`, Spark's in `peers_spark.py`.

Every relation becomes a SELECT with the columns c0, c1, … and `clock`, an integer, whatever its names and types are:

    stream      SELECT c0, …, <ticks of the clock column> AS clock FROM trades WHERE <it is not NULL>
    table       SELECT c0, … FROM airports, which has no clock
    join        SELECT i0.c0 AS i0_c0, …, greatest(i0.clock, i1.clock) AS clock FROM (…) i0 CROSS JOIN (…) i1 WHERE …
    window      … with w_start and w_end, one row per instance that covers the clock
    groups      SELECT k0, …, a0, …, w_start, w_end FROM … GROUP BY …

DISTINCT and the set operators over history are window functions over rows in clock order, as if they all arrived in
one cycle. A TIMESTAMP is the engine's own type, an INTERVAL is a number of microseconds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.oracle_values import row_key
from weft.algebra import (
    Aggregate,
    AggregateRef,
    Answers,
    Call,
    Column,
    DataType,
    Expression,
    Field,
    KeyRef,
    Kind,
    Literal,
    Query,
    Relation,
    Retain,
    Select,
    SetOperation,
    SetOperator,
    Source,
    Stream,
    Table,
    Value,
    Window,
    WindowBound,
)

Values = tuple[Value, ...]


class Unsupported(Exception):
    """The engine has no way to say this."""


class Dialect(ABC):
    """How one engine spells what engines disagree on."""

    @abstractmethod
    def literal(self, value: Value, type_: DataType) -> str: ...

    @abstractmethod
    def call(self, call: Call, args: Sequence[str]) -> str: ...

    @abstractmethod
    def aggregate(self, aggregate: Aggregate, args: Sequence[str]) -> str: ...

    @abstractmethod
    def instances(self, window: Window, rows: str) -> str:
        """The rows with w_start and w_end, once for every instance that covers their clock."""

    @abstractmethod
    def ticks(self, expression: str, type_: DataType) -> str:
        """A value as an integer, if it is a TIMESTAMP."""

    @abstractmethod
    def from_ticks(self, expression: str, type_: DataType) -> str:
        """The opposite of `ticks`."""


#: Operators that SQL engines agree on.
COMMON_CALLS = {
    "not": "(NOT {0})",
    "=": "({0} = {1})",
    "!=": "({0} <> {1})",
    "<": "({0} < {1})",
    "<=": "({0} <= {1})",
    ">": "({0} > {1})",
    ">=": "({0} >= {1})",
    "is_null": "({0} IS NULL)",
    "nullif": "nullif({0}, {1})",
    "upper": "upper({0})",
    "lower": "lower({0})",
    "trim": "trim({0})",
    "ltrim": "ltrim({0})",
    "rtrim": "rtrim({0})",
    "reverse": "reverse({0})",
    "exp": "exp({0})",
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "day": "day({0})",
    "hour": "hour({0})",
    "minute": "minute({0})",
    "second": "second({0})",
    "date_trunc": "date_trunc({0}, {1})",
}


def common_call(call: Call, args: Sequence[str]) -> str | None:
    """A call that every engine spells alike, or None."""
    match call.op:
        case "and" | "or":
            return f"({f' {call.op.upper()} '.join(args)})"
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "case":
            branches = zip(args[:-1:2], args[1:-1:2], strict=True)
            return f"(CASE {' '.join(f'WHEN {c} THEN {v}' for c, v in branches)} ELSE {args[-1]} END)"
        case "coalesce" | "greatest" | "least":
            return f"{call.op}({', '.join(args)})"
    template = COMMON_CALLS.get(call.op)
    return template.format(*args) if template else None


class Translation:
    """Relations as SQL text of one dialect. `queries` are those whose answers a relation may read."""

    def __init__(self, dialect: Dialect, queries: Iterable[Query] = ()) -> None:
        self._dialect = dialect
        self._relations = {query.name: query.relation for query in queries}

    def answers(self, relation: Relation) -> str:
        """The SQL of a relation, its TIMESTAMPs as integers and without the clock."""
        columns = (f"{self._dialect.ticks(f'c{n}', f.type)} AS c{n}" for n, f in enumerate(relation.fields))
        return f"SELECT {', '.join(columns)} FROM ({self.source(relation)}) AS answers"

    def source(self, source: Source) -> str:
        match source:
            case Stream():
                return self._stream(source)
            case Table():
                return f"SELECT {_names(source.fields)} FROM {source.name}"
            case Answers(query=name):
                return self.source(self._relations[name])
            case Select():
                return self._select(source)
            case SetOperation():
                return self._set_operation(source)

    def _stream(self, stream: Stream) -> str:
        clock = next(n for n, each in enumerate(stream.fields) if each.name == stream.clock)
        ticks = self._dialect.ticks(f"c{clock}", stream.fields[clock].type)
        return f"SELECT {_names(stream.fields)}, {ticks} AS clock FROM {stream.name} WHERE c{clock} IS NOT NULL"

    # SELECT

    def _select(self, select: Select) -> str:
        if select.emit_empty:
            raise Unsupported("EMIT EMPTY")
        rows = self._from_where(select)
        columns = _column_names(select)
        is_windowed = select.window is not None and not select.window.is_unbounded
        if is_windowed:
            rows = self._dialect.instances(select.window, rows)
        if select.is_grouped:
            rows = self._grouped(select, rows, columns, is_windowed)
        clock = "w_end" if is_windowed else "clock"
        outputs = (f"{self._expression(o.expression, columns)} AS c{n}" for n, o in enumerate(select.outputs))
        having = "" if select.having is None else f" WHERE {self._expression(select.having, columns)}"
        answers = f"SELECT {', '.join(outputs)}, {clock} AS clock FROM ({rows}) AS r{having}"
        if not select.distinct:
            return answers
        if select.retain is not None:
            return _distinct_over_history(answers, select.fields, select.retain)
        return f"SELECT DISTINCT * FROM ({answers}) AS d"

    def _from_where(self, select: Select) -> str:
        inputs = " CROSS JOIN ".join(f"({self.source(each.source)}) AS i{n}" for n, each in enumerate(select.inputs))
        columns = ", ".join(
            f"i{n}.c{k} AS i{n}_c{k}" for n, each in enumerate(select.inputs) for k in range(len(each.source.fields))
        )
        clock = _greatest(f"i{n}.clock" for n, each in enumerate(select.inputs) if not isinstance(each.source, Table))
        rows = f"SELECT {columns}, {clock} AS clock FROM {inputs} WHERE {_meet(select)}"
        if select.where is None:
            return rows
        return f"SELECT * FROM ({rows}) AS j WHERE {self._expression(select.where, _column_names(select))}"

    def _grouped(self, select: Select, rows: str, columns: Mapping[tuple[str, str], str], is_windowed: bool) -> str:
        keys = [f"k{n}" for n in range(len(select.keys))]
        keyed = ", ".join(
            f"{self._expression(key, columns)} AS {name}" for key, name in zip(select.keys, keys, strict=True)
        )
        if keyed:
            rows = f"SELECT *, {keyed} FROM ({rows}) AS k"
        aggregates = [f"{self._aggregate(each, columns)} AS a{n}" for n, each in enumerate(select.aggregates)]
        by = [*keys, *(("w_start", "w_end") if is_windowed else ())]
        selected = ", ".join([*by, *aggregates, "max(clock) AS clock"])
        # Without keys SQL answers for no rows at all; a continuous query does not.
        groups = f"GROUP BY {', '.join(by)}" if by else "HAVING count(*) > 0"
        return f"SELECT {selected} FROM ({rows}) AS g {groups}"

    def _aggregate(self, aggregate: Aggregate, columns: Mapping[tuple[str, str], str]) -> str:
        return self._dialect.aggregate(aggregate, [self._expression(arg, columns) for arg in aggregate.args])

    def _expression(self, expression: Expression, columns: Mapping[tuple[str, str], str]) -> str:
        match expression:
            case Literal(value, type_):
                return self._dialect.literal(value, type_)
            case Column(source, name):
                return columns[source, name]
            case KeyRef(index):
                return f"k{index}"
            case AggregateRef(index):
                return f"a{index}"
            case WindowBound(end, type_):
                return self._dialect.from_ticks("w_end" if end else "w_start", type_)
            case Call(args=args):
                return self._dialect.call(expression, [self._expression(arg, columns) for arg in args])

    # Set operators

    def _set_operation(self, operation: SetOperation) -> str:
        names = _names(operation.fields)
        left, right = (f"SELECT {names}, clock FROM ({self.source(s)}) AS s" for s in (operation.left, operation.right))
        if operation.window is None and operation.retain is not None and not operation.all:
            return self._over_history(operation, left, right)
        operator = f"{operation.operator.value}{' ALL' if operation.all else ''}"
        return f"SELECT * FROM (({left}) {operator} ({right})) AS u"

    def _over_history(self, operation: SetOperation, left: str, right: str) -> str:
        retain, names = operation.retain, _names(operation.fields)
        both = f"SELECT *, 0 AS side FROM ({left}) AS l UNION ALL SELECT *, 1 AS side FROM ({right}) AS r"
        match operation.operator:
            case SetOperator.UNION:
                passed = both
            case SetOperator.INTERSECT:
                so_far = (
                    f"OVER (PARTITION BY {names} ORDER BY clock, side ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
                )
                other = (
                    f"CASE side WHEN 0 THEN max(CASE side WHEN 1 THEN clock END) {so_far}"
                    f" ELSE max(CASE side WHEN 0 THEN clock END) {so_far} END"
                )
                passed = f"SELECT * FROM (SELECT *, {other} AS last FROM ({both}) AS b) AS m WHERE {_finds(retain)}"
            case SetOperator.EXCEPT:
                last = f"max(CASE side WHEN 1 THEN clock END) OVER (PARTITION BY {names})"
                kept = f"side = 0 AND NOT {_finds(retain)}"
                passed = f"SELECT * FROM (SELECT *, {last} AS last FROM ({both}) AS b) AS m WHERE {kept}"
        return _distinct_over_history(f"SELECT {names}, clock FROM ({passed}) AS p", operation.fields, retain)


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f"c{n}" for n in range(len(fields)))


def _column_names(select: Select) -> dict[tuple[str, str], str]:
    return {
        (each.alias, field.name): f"i{n}_c{k}"
        for n, each in enumerate(select.inputs)
        for k, field in enumerate(each.source.fields)
    }


def _greatest(clocks: Iterable[str]) -> str:
    each = list(clocks)
    return each[0] if len(each) == 1 else f"greatest({', '.join(each)})"


def _least(clocks: Iterable[str]) -> str:
    each = list(clocks)
    return each[0] if len(each) == 1 else f"least({', '.join(each)})"


def floored(expression: str, step: int) -> str:
    """The largest multiple of the step that is not above an integer expression, which may be negative."""
    return f"(({expression}) - ((({expression}) % {step} + {step}) % {step}))"


def _meet(select: Select) -> str:
    """The first instant at or after every row must come before the first of them leaves its window."""
    windowed = [(n, each.window) for n, each in enumerate(select.inputs) if each.window is not None]
    bounded = [(n, window) for n, window in windowed if window.range is not None]
    if len(select.inputs) == 1 or not bounded:
        return "1 = 1"
    _, first = bounded[0]
    latest = _greatest(f"i{n}.clock" for n, _ in windowed)
    instant = f"(-{floored(f'{first.origin} - {latest}', first.slide)} + {first.origin})"
    return f"{instant} < {_least(f'i{n}.clock + {window.range}' for n, window in bounded)}"


def _finds(retain: Retain) -> str:
    """Whether a row finds its value, given its clock and the value's last one."""
    return "(last IS NOT NULL)" if retain.ticks is None else f"(last IS NOT NULL AND clock - last < {retain.ticks})"


def _distinct_over_history(rows: str, fields: Sequence[Field], retain: Retain) -> str:
    names = _names(fields)
    previous = f"lag(clock) OVER (PARTITION BY {names} ORDER BY clock)"
    looked_up = f"SELECT {names}, clock, {previous} AS last FROM ({rows}) AS h"
    return f"SELECT {names}, clock FROM ({looked_up}) AS f WHERE NOT {_finds(retain)}"


# Rows in, rows out


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a column of answers: TIMESTAMP and INTERVAL as integers, HUGEINT as a DECIMAL."""
    match type_.kind:
        case Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        case Kind.HUGEINT:
            return pa.decimal128(38, 0)
        case Kind.TIMESTAMP | Kind.INTERVAL:
            return pa.int64()
        case kind:
            return _ARROW[kind]


def arrow_table(stream: Stream | Table, rows: Sequence[Mapping[str, Value]], time_zone: str | None) -> pa.Table:
    """The rows of a stream or table with columns c0, c1, …"""
    columns = {}
    for n, each in enumerate(stream.fields):
        is_timestamp = each.type.kind is Kind.TIMESTAMP
        type_ = pa.timestamp("us", time_zone) if is_timestamp else arrow_type(each.type)
        columns[f"c{n}"] = pa.array([row[each.name] for row in rows], type_)
    return pa.table(columns)


def as_values(row: Sequence[Value], fields: Sequence[Field]) -> Values:
    """A row from an engine in the oracle's values: a HUGEINT may come as a DECIMAL without decimals."""
    return tuple(
        int(value) if each.type.kind is Kind.HUGEINT and value is not None else value  # type: ignore[arg-type]
        for value, each in zip(row, fields, strict=True)
    )


# Comparison


def difference(relation: Relation, expected: Sequence[Values], actual: Sequence[Values]) -> str:
    """How two multisets of answers differ, in words; empty if they do not."""
    close = [_closeness(relation, n) for n in range(len(relation.fields))]
    missing, extra = _without_equal(expected, actual)
    for row in list(missing):
        match = next(
            (other for other in extra if all(c(a, b) for c, a, b in zip(close, row, other, strict=True))), None
        )
        if match is not None:
            missing.remove(row)
            extra.remove(match)
    return "".join(f"\n  - {row}" for row in missing) + "".join(f"\n  + {row}" for row in extra)


def _without_equal(expected: Sequence[Values], actual: Sequence[Values]) -> tuple[list[Values], list[Values]]:
    ours, theirs = Counter(map(row_key, expected)), Counter(map(row_key, actual))
    rows = {row_key(row): row for row in [*expected, *actual]}
    return [rows[key] for key in (ours - theirs).elements()], [rows[key] for key in (theirs - ours).elements()]


def _closeness(relation: Relation, column: int) -> Callable[[Any, Any], bool]:
    """When two values of a column are equal enough: floating point in some order, an approximate count nearly."""
    type_ = relation.fields[column].type
    if _is_approximate(relation, column):
        return lambda a, b: abs(a - b) <= max(2, 0.05 * a)
    if not type_.is_floating:
        return lambda a, b: row_key((a,)) == row_key((b,))
    tolerance = 1e-9 if type_.kind is Kind.DOUBLE else 1e-6

    def close(a: Any, b: Any) -> bool:
        if a is None or b is None or math.isnan(a) or math.isnan(b):
            return row_key((a,)) == row_key((b,))
        return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)

    return close


def _is_approximate(relation: Relation, column: int) -> bool:
    if isinstance(relation, SetOperation):
        return False
    expression = relation.outputs[column].expression
    return (
        isinstance(expression, AggregateRef)
        and relation.aggregates[expression.index].function == "approx_count_distinct"
    )
