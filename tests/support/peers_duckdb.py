"""DuckDB as a second opinion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import duckdb

from tests.support.peers import Dialect, Translation, Unsupported, Values, arrow_table, as_values, common_call, floored
from weft.algebra import Aggregate, Call, DataType, Kind, Literal, Query, Stream, Table, Value, Window

_CALLS = {
    "<=>": "({0} IS NOT DISTINCT FROM {1})",
    "like": r"({0} LIKE {1} ESCAPE '\')",
    "length": "CAST(length({0}) AS INTEGER)",
    "concat": "(CASE WHEN {nulls} THEN NULL ELSE concat({all}) END)",
    "startswith": "starts_with({0}, {1})",
    "endswith": "ends_with({0}, {1})",
    "contains": "contains({0}, {1})",
    "sign": "(CASE WHEN isnan({0}) THEN {0} ELSE CAST(sign({0}) AS DOUBLE) END)",
    "sqrt": "(CASE WHEN {0} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(abs({0})) END)",
    "ln": "(CASE WHEN {0} > 0 THEN ln({0}) END)",
    "log10": "(CASE WHEN {0} > 0 THEN log10({0}) END)",
    "power": (
        "(CASE WHEN {1} <> 0 AND (isnan({1}) OR (abs({0}) = 1 AND isinf({1}))) THEN CAST('NaN' AS DOUBLE)"
        " ELSE power({0}, {1}) END)"
    ),
    "dayofweek": "(dayofweek({0}) + 1)",
    "unix_micros": "epoch_us({0})",
    "timestamp_micros": "make_timestamp({0})",
    "neg": "TRY(-{0})",
    "abs": "TRY(abs({0}))",
}


class DuckDialect(Dialect):
    def literal(self, value: Value, type_: DataType) -> str:
        if value is None:
            return f"CAST(NULL AS {type_name(type_)})"
        match type_.kind:
            case Kind.STRING:
                return "'" + str(value).replace("'", "''") + "'"
            case Kind.TIMESTAMP:
                return f"make_timestamp({value})"
            case Kind.BINARY:
                return "'" + "".join(f"\\x{byte:02x}" for byte in bytes(value)) + "'::BLOB"  # type: ignore[arg-type]
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
            case "floor" | "ceil":
                return f"TRY_CAST({call.op}({args[0]}) AS {type_name(call.type)})"
            case "round":
                return f"TRY_CAST(TRY(round({', '.join(args)})) AS {type_name(call.type)})"
            case "replace":
                new = args[2] if len(args) > 2 else "''"
                return f"replace({args[0]}, {args[1]}, {new})"
            case "substring":
                return _substring(call, args)
        nulls = " OR ".join(f"{arg} IS NULL" for arg in args)
        return _CALLS[call.op].format(*args, all=", ".join(args), nulls=nulls)

    def aggregate(self, aggregate: Aggregate, args: Sequence[str]) -> str:
        match aggregate.function:
            case "count" if not args:
                return "count(*)"
            case "count":
                return f"count({'DISTINCT ' * aggregate.distinct}{args[0]})"
            case "sum":
                return f"TRY_CAST(sum({args[0]}) AS {type_name(aggregate.type)})"
            case "avg" if aggregate.type.kind is Kind.DECIMAL:
                raise Unsupported("AVG of DECIMAL is a DOUBLE in DuckDB")
            case "min_by":
                return (
                    f"first({args[0]} ORDER BY {args[1]}, {args[0]} NULLS FIRST) FILTER (WHERE {args[1]} IS NOT NULL)"
                )
            case "max_by":
                order = f"ORDER BY {args[1]} DESC, {args[0]} DESC NULLS LAST"
                return f"first({args[0]} {order}) FILTER (WHERE {args[1]} IS NOT NULL)"
            case "var_samp" | "var_pop" | "stddev_samp" | "stddev_pop":
                return _deviation(aggregate.function, args[0])
            case "median":
                return f"percentile_of(list({args[0]}) FILTER (WHERE {args[0]} IS NOT NULL), 0.5)"
            case "percentile":
                return f"percentile_of(list({args[0]}) FILTER (WHERE {args[0]} IS NOT NULL), {args[1]})"
            case function:
                return f"{function}({args[0]})"

    def instances(self, window: Window, rows: str) -> str:
        first = (
            f"{window.origin} + {floored(f'clock - {window.origin} - {window.range}', window.slide)} + {window.slide}"
        )
        last = f"{window.origin} + {floored(f'clock - {window.origin}', window.slide)}"
        starts = f"SELECT *, unnest(range({first}, {last} + 1, {window.slide})) AS w_start FROM ({rows}) AS w"
        return f"SELECT *, w_start + {window.range} AS w_end FROM ({starts}) AS w"

    def ticks(self, expression: str, type_: DataType) -> str:
        return f"epoch_us({expression})" if type_.kind is Kind.TIMESTAMP else expression

    def from_ticks(self, expression: str, type_: DataType) -> str:
        return f"make_timestamp({expression})" if type_.kind is Kind.TIMESTAMP else expression


def type_name(type_: DataType) -> str:
    names = {Kind.NULL: "INTEGER", Kind.INTERVAL: "BIGINT", Kind.STRING: "VARCHAR", Kind.BINARY: "BLOB"}
    return names.get(type_.kind, str(type_))


def _arithmetic(call: Call, left: str, right: str) -> str:
    """Each operation by itself in TRY: what cannot be computed is NULL, and only that."""
    kinds = [arg.type.kind for arg in call.args]
    if Kind.TIMESTAMP in kinds:
        ticks = [f"epoch_us({a})" if k is Kind.TIMESTAMP else a for a, k in zip((left, right), kinds, strict=True)]
        result = f"TRY({ticks[0]} {call.op} {ticks[1]})"
        return f"make_timestamp({result})" if call.type.kind is Kind.TIMESTAMP else result
    if call.type.kind is Kind.DECIMAL:
        return _decimal_arithmetic(call, left, right)
    if call.op == "div":
        return f"TRY_CAST(TRY({left} // nullif({right}, 0)) AS {type_name(call.type)})"
    if call.op in ("/", "%"):
        right = f"nullif({right}, 0)"
    return f"TRY({left} {call.op} {right})"


def _decimal_arithmetic(call: Call, left: str, right: str) -> str:
    if call.op == "/":
        raise Unsupported("DECIMAL division is on DOUBLEs in DuckDB")
    if call.op == "*" and sum(arg.type.precision for arg in call.args) > 38:
        raise Unsupported("DuckDB has no room for this product")
    if call.op == "*" and all(arg.type.precision <= 18 for arg in call.args):
        # It would look for room in 64 bits, since each of the two fits into them.
        left = f"CAST({left} AS DECIMAL(19, {call.args[0].type.scale}))"
    if call.op == "%":
        right = f"nullif({right}, 0)"
    return f"TRY_CAST(TRY({left} {call.op} {right}) AS {type_name(call.type)})"


def _cast(value: str, source: DataType, target: DataType) -> str:
    to = type_name(target)
    if source.kind is Kind.STRING and target.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.BINARY, Kind.BOOLEAN):
        raise Unsupported(f"DuckDB reads a {target} from text in its own way")
    if source.kind is Kind.STRING and target.is_numeric:
        pattern = r"[+-]?\d+" if target.is_integer else r"(?i)[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|[+-]?inf(inity)?"
        return f"(CASE WHEN regexp_full_match(trim({value}), '{pattern}') THEN TRY_CAST(trim({value}) AS {to}) END)"
    has_no_whole_digits = source.kind is Kind.DECIMAL and source.precision == source.scale
    if target.kind is Kind.STRING and (source.is_floating or source.kind is Kind.BINARY or has_no_whole_digits):
        raise Unsupported(f"DuckDB spells {source} in its own way")
    if target.kind is Kind.BOOLEAN and source.is_numeric:
        return f"({value} <> 0)"
    if source.kind is Kind.BOOLEAN and target.is_numeric:
        return f"CAST(CAST({value} AS INTEGER) AS {to})"
    if target.is_integer and (source.is_floating or source.kind is Kind.DECIMAL):
        return f"TRY_CAST(trunc({value}) AS {to})"
    return f"TRY_CAST({value} AS {to})"


def _substring(call: Call, args: Sequence[str]) -> str:
    position, *length = call.args[1:]
    if not isinstance(position, Literal) or position.value is None or int(str(position.value)) < 1:
        raise Unsupported("SUBSTRING counts from before the text as the SQL standard has it in DuckDB")
    if length and not (
        isinstance(length[0], Literal) and length[0].value is not None and int(str(length[0].value)) >= 0
    ):
        raise Unsupported("SUBSTRING with a length that may be negative")
    return f"substring({', '.join(args)})"


def _deviation(function: str, value: str) -> str:
    """DuckDB refuses NaN and infinity here, which every other engine takes."""
    finite = f"{function}(CASE WHEN isfinite({value}) THEN {value} END)"
    enough = 1 if function.endswith("_samp") else 0
    return (
        f"(CASE WHEN count({value}) <= {enough} THEN NULL WHEN bool_and(isfinite({value})) THEN {finite}"
        " ELSE CAST('NaN' AS DOUBLE) END)"
    )


_PERCENTILE = """
CREATE MACRO percentile_between(below, above, weight) AS
    CASE WHEN below = above THEN below ELSE below + (above - below) * weight END;
CREATE MACRO percentile_of(xs, p) AS percentile_between(
    list_sort(xs)[CAST(floor(p * (len(xs) - 1)) AS BIGINT) + 1],
    list_sort(xs)[CAST(ceil(p * (len(xs) - 1)) AS BIGINT) + 1],
    p * (len(xs) - 1) - floor(p * (len(xs) - 1)))
"""


class DuckPeer:
    """A DuckDB of its own."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1, "order_by_non_integer_literal": True})
        self._connection.execute(_PERCENTILE)

    def load(self, streams: Iterable[Stream | Table], rows: Mapping[str, Sequence[Mapping[str, Value]]]) -> None:
        """Takes all rows of streams and tables, in place of those it had."""
        for stream in streams:
            table = arrow_table(stream, rows.get(stream.name, ()), time_zone=None)
            self._connection.register("arrived", table)
            self._connection.execute(f"CREATE OR REPLACE TABLE {stream.name} AS SELECT * FROM arrived")
            self._connection.unregister("arrived")

    def answers(self, query: Query, others: Iterable[Query] = ()) -> list[Values]:
        """The query's answers over all rows. Raises Unsupported."""
        sql = Translation(DuckDialect(), others).answers(query.relation)
        fields = query.relation.fields
        return [as_values(row, fields) for row in self._connection.execute(sql).fetchall()]
