"""Spark as a second opinion: its batch SQL, with `window()` for windows.

Without ANSI mode most of Spark's operators give NULL where they cannot compute; the rest is written with `try_`
functions, or with a condition where there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support.peers import Dialect, Translation, Values, arrow_table, arrow_type, as_values, common_call, floored
from weft.algebra import Aggregate, Call, DataType, Kind, Query, Stream, Table, Value, Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CALLS = {
    "<=>": "({0} <=> {1})",
    "like": "({0} LIKE {1})",
    "length": "length({0})",
    "startswith": "startswith({0}, {1})",
    "endswith": "endswith({0}, {1})",
    "contains": "contains({0}, {1})",
    "sign": "sign({0})",
    "sqrt": "sqrt({0})",
    "ln": "ln({0})",
    "log10": "log10({0})",
    "power": "power({0}, {1})",
    "dayofweek": "dayofweek({0})",
    "unix_micros": "unix_micros({0})",
    "timestamp_micros": "timestamp_micros({0})",
}

_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


class SparkDialect(Dialect):
    def literal(self, value: Value, type_: DataType) -> str:
        if value is None:
            return f"CAST(NULL AS {type_name(type_)})"
        match type_.kind:
            case Kind.STRING:
                return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
            case Kind.TIMESTAMP:
                return f"timestamp_micros({value}L)"
            case Kind.BINARY:
                return f"X'{bytes(value).hex()}'"  # type: ignore[arg-type]
            case _:
                return f"CAST('{value}' AS {type_name(type_)})"

    def call(self, call: Call, args: Sequence[str]) -> str:
        common = common_call(call, args)
        if common is not None:
            return common
        match call.op:
            case "cast":
                return _cast(args[0], call.args[0].type, call.type)
            case "+" | "-" | "*" | "/" | "%" | "div":
                return _arithmetic(call, *args)
            case "neg":
                return _negative(args[0], call.type)
            case "abs" if _is_machine_integer(call.type):
                return f"(CASE WHEN {args[0]} < 0 THEN {_negative(args[0], call.type)} ELSE {args[0]} END)"
            case "floor" | "ceil" if call.args[0].type.is_floating:
                # Spark's own stops at the ends of BIGINT.
                in_range = f"{args[0]} >= -9.223372036854775808E18 AND {args[0]} < 9.223372036854775808E18"
                return f"(CASE WHEN {in_range} THEN {call.op}({args[0]}) END)"
            case "round" if _is_machine_integer(call.type):
                # Spark's own wraps around where 127 becomes 130.
                places = f", {args[1]}" if len(args) > 1 else ""
                return f"try_cast(round(CAST({args[0]} AS DECIMAL(38, 0)){places}) AS {type_name(call.type)})"
            case "concat" | "replace" | "substring" | "round" | "floor" | "ceil" | "abs":
                return f"{call.op}({', '.join(args)})"
        return _CALLS[call.op].format(*args)

    def aggregate(self, aggregate: Aggregate, args: Sequence[str]) -> str:
        match aggregate.function:
            case "count" if not args:
                return "count(*)"
            case "count":
                return f"count({'DISTINCT ' * aggregate.distinct}{args[0]})"
            case "sum" if aggregate.type.kind is Kind.HUGEINT:
                return f"sum(CAST({args[0]} AS DECIMAL(38, 0)))"
            case "avg" if aggregate.args[0].type.kind in (Kind.BIGINT, Kind.HUGEINT):
                # Spark's own adds DOUBLEs in any order: large numbers of opposite signs leave nothing of small ones.
                return f"try_divide(CAST(sum(CAST({args[0]} AS DECIMAL(38, 0))) AS DOUBLE), count({args[0]}))"
            case "min_by" | "max_by":
                order = f"struct({args[1]}, {args[0]})"
                return f"{aggregate.function}({args[0]}, {order}) FILTER (WHERE {args[1]} IS NOT NULL)"
            case function:
                return f"{function}({', '.join(args)})"

    def instances(self, window: Window, rows: str) -> str:
        if window.slide > window.range:
            return _instances_with_gaps(window, rows)
        ticks = (window.range, window.slide, window.origin % window.slide)
        lengths = ", ".join(f"'{length} microseconds'" for length in ticks)
        windowed = f"SELECT *, window(timestamp_micros(clock), {lengths}) AS w FROM ({rows}) AS u"
        bounds = "unix_micros(w.start) AS w_start, unix_micros(w.end) AS w_end"
        return f"SELECT *, {bounds} FROM ({windowed}) AS w"

    def ticks(self, expression: str, type_: DataType) -> str:
        return f"unix_micros({expression})" if type_.kind is Kind.TIMESTAMP else expression

    def from_ticks(self, expression: str, type_: DataType) -> str:
        return f"timestamp_micros({expression})" if type_.kind is Kind.TIMESTAMP else expression


def type_name(type_: DataType) -> str:
    names = {Kind.NULL: "VOID", Kind.INTERVAL: "BIGINT", Kind.HUGEINT: "DECIMAL(38, 0)"}
    return names.get(type_.kind, str(type_))


def _instances_with_gaps(window: Window, rows: str) -> str:
    """`window()` knows no slide above the range; then at most one instance covers a clock."""
    start = f"{window.origin} + {floored(f'clock - {window.origin}', window.slide)}"
    started = f"SELECT *, {start} AS w_start FROM ({rows}) AS u"
    return f"SELECT *, w_start + {window.range} AS w_end FROM ({started}) AS w WHERE clock < w_start + {window.range}"


def _arithmetic(call: Call, left: str, right: str) -> str:
    kinds = [arg.type.kind for arg in call.args]
    if Kind.TIMESTAMP in kinds:
        ticks = [f"unix_micros({a})" if k is Kind.TIMESTAMP else a for a, k in zip((left, right), kinds, strict=True)]
        result = f"{_TRY[call.op]}({', '.join(ticks)})"
        return f"timestamp_micros({result})" if call.type.kind is Kind.TIMESTAMP else result
    if call.op == "div":
        return _whole_quotient(call, left, right)
    if call.op in _TRY and _is_machine_integer(call.type):
        return f"{_TRY[call.op]}({left}, {right})"
    return f"({left} {call.op} {right})"


def _is_machine_integer(type_: DataType) -> bool:
    """Whether Spark's arithmetic would wrap around in this type."""
    return type_.kind is Kind.INTERVAL or (type_.is_integer and type_.kind is not Kind.HUGEINT)


def _whole_quotient(call: Call, left: str, right: str) -> str:
    if call.type.kind is Kind.HUGEINT:
        return f"CAST(({left} - {left} % {right}) / {right} AS DECIMAL(38, 0))"
    # The smallest integer has no opposite: the one quotient that does not fit.
    overflows = f"{right} = -1 AND {left} = CAST('-9223372036854775808' AS BIGINT)"
    return f"(CASE WHEN {overflows} THEN NULL ELSE {left} DIV {right} END)"


def _negative(value: str, type_: DataType) -> str:
    if _is_machine_integer(type_):
        return f"try_subtract(CAST(0 AS {type_name(type_)}), {value})"
    return f"(-{value})"


def _cast(value: str, source: DataType, target: DataType) -> str:
    if target.kind is Kind.HUGEINT and (source.is_floating or source.kind is Kind.DECIMAL):
        # A DECIMAL(38, 0) to Spark, which rounds; an integer to us, which does not.
        value = f"(CASE WHEN {value} < 0 THEN ceil({value}) ELSE floor({value}) END)"
    return f"try_cast({value} AS {type_name(target)})"


class SparkPeer:
    """A Spark session that answers for single queries."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def load(self, streams: Iterable[Stream | Table], rows: Mapping[str, Sequence[Mapping[str, Value]]]) -> None:
        """Takes all rows of streams and tables, in place of those it had."""
        for stream in streams:
            table = arrow_table(stream, rows.get(stream.name, ()), time_zone="UTC")
            self._spark.createDataFrame(table).createOrReplaceTempView(stream.name)

    def answers(self, query: Query, others: Iterable[Query] = ()) -> list[Values]:
        """The query's answers over all rows. Raises Unsupported."""
        table = self._spark.sql(Translation(SparkDialect(), others).answers(query.relation)).toArrow()
        _check_types(query, table)
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        return [as_values(row, query.relation.fields) for row in rows]


def _check_types(query: Query, table: pa.Table) -> None:
    """The binder types expressions by Spark's rules, so Spark must find the same types."""
    for field, found in zip(query.relation.fields, table.schema, strict=True):
        expected = arrow_type(field.type)
        assert found.type == expected, f"{field.name} is {field.type} to the binder, but {found.type} to Spark"


@contextmanager
def batch_settings(spark: SparkSession) -> Iterator[None]:
    """Without ANSI mode, and so that hundreds of queries over a handful of rows cost little: no code is generated."""
    settings = {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.leafNodeDefaultParallelism": "1",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, value in before.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
