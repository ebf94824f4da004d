"""Aggregates that never close: partials of the new rows, merged into what is known of every group.

A snapshot has one row per group: its keys (k0, k1, …), the partials of its aggregates (p0_0, p0_1, …), the largest
clock in the group, and whether this cycle changed it. Holistic aggregates have no such partials; they are recomputed
from the rows, which `[RANGE UNBOUNDED]` asked to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra import Aggregate, Expression, Kind, Select
from weft.plan.log_ids import LogId, LogKind
from weft.runtime.columnar.rows import CLOCK
from weft.runtime.columnar.spark_expressions import (
    Leaf,
    aggregate_sql,
    exact_sum,
    mean_of_parts,
    merged_parts,
    needs_parts,
    spark_sql,
    spark_type,
    sum_of_parts,
    sum_parts,
)
from weft.sql.functions import is_holistic

_VARIANCES = frozenset({"var_samp", "var_pop", "stddev_samp", "stddev_pop"})


def log(id_: str) -> LogId:
    """The name under which a running aggregate's merged groups are found."""
    return LogId(LogKind.GROUPS, id_)


def keeps_partials(select: Select) -> bool:
    """Whether the select is an aggregate that never closes, whose groups are kept as partials."""
    return _never_closes(select) and not _has_holistic(select)


def is_recomputed(select: Select) -> bool:
    """Whether the select is an aggregate that never closes, whose groups are computed from all their rows."""
    return _never_closes(select) and _has_holistic(select)


def _never_closes(select: Select) -> bool:
    return select.is_grouped and select.window is not None and select.window.is_unbounded


def _has_holistic(select: Select) -> bool:
    return any(is_holistic(each) or each.function == "approx_count_distinct" for each in select.aggregates)


@dataclass(frozen=True)
class _Partial:
    """One column that is kept of an aggregate: how it comes from rows, and how two of them merge."""

    of_rows: str
    merged: str  # with {p} for the column


def _partials_of(aggregate: Aggregate, leaf: Leaf) -> list[_Partial]:
    rows = aggregate_sql(aggregate, leaf)
    function = aggregate.function
    if function in ("sum", "avg") and needs_parts(aggregate.args[0].type):
        arg, type_ = spark_sql(aggregate.args[0], leaf), aggregate.args[0].type
        parts = _Partial(sum_parts(arg, type_), merged_parts("{p}"))
        return [parts] if function == "sum" else [parts, _Partial(f"count({arg})", "sum({p})")]
    if function == "count":
        return [_Partial(rows, "sum({p})")]
    if function == "sum":
        merged = (
            "sum({p})" if aggregate.type.is_floating else f"try_cast(try_sum({{p}}) AS {spark_type(aggregate.type)})"
        )
        return [_Partial(rows, merged)]
    if function in ("min", "max"):
        return [_Partial(rows, f"{function}({{p}})")]
    if function in ("min_by", "max_by"):
        return [_Partial(rows.removesuffix(".x"), f"{function[:3]}({{p}})")]
    arg = spark_sql(aggregate.args[0], leaf)
    if function == "avg":
        return [_total(aggregate.args[0], arg), _Partial(f"count({arg})", "sum({p})")]
    assert function in _VARIANCES, function
    moments = (
        f"named_struct('n', CAST(count({arg}) AS DOUBLE), 'mean', avg({arg}), 'm2', var_pop({arg}) * count({arg}))"
    )
    return [_Partial(moments, _MERGED_MOMENTS)]


def _total(argument: Expression, text: str) -> _Partial:
    """The sum that a mean is made of: exact where its argument is."""
    kind = argument.type.kind
    if kind is Kind.DECIMAL:
        return _Partial(f"try_sum(CAST({text} AS DECIMAL(38,{argument.type.scale})))", "try_sum({p})")
    if kind is Kind.BIGINT:
        return _Partial(exact_sum(argument, text), "try_sum({p})")
    return _Partial(f"sum(CAST({text} AS DOUBLE))", "sum({p})")


#: Chan's rule for two sets of (count, mean, sum of squared distances from the mean), folded over the partials.
_MERGED_MOMENTS = (
    "aggregate(filter(collect_list({p}), x -> x.n > 0D), "
    "named_struct('n', 0D, 'mean', CAST(NULL AS DOUBLE), 'm2', CAST(NULL AS DOUBLE)), "
    "(a, b) -> CASE WHEN a.n = 0D THEN b ELSE named_struct("
    "'n', a.n + b.n, "
    "'mean', a.mean + (b.mean - a.mean) * b.n / (a.n + b.n), "
    "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * b.n / (a.n + b.n)) END)"
)


def partials(select: Select, rows: str, leaf: Leaf) -> str:
    """The new rows as one partial row per group."""
    keys = [f"{spark_sql(key, leaf)} AS k{i}" for i, key in enumerate(select.keys)]
    kept = [
        f"{partial.of_rows} AS p{i}_{j}"
        for i, each in enumerate(select.aggregates)
        for j, partial in enumerate(_partials_of(each, leaf))
    ]
    where = f" WHERE {spark_sql(select.where, leaf)}" if select.where is not None else ""
    grouping = ", ".join(spark_sql(key, leaf) for key in select.keys)
    # Without keys SQL answers even when no row is left; a group without rows is none.
    group_by = f" GROUP BY {grouping}" if grouping else " HAVING count(1) > 0"
    listed = ", ".join([*keys, *kept, f"max({CLOCK}) AS {CLOCK}", "true AS _changed"])
    return f"SELECT {listed} FROM ({rows}) AS t0{where}{group_by}"


def merged(select: Select, known: str | None, new: str) -> str:
    """The snapshot after this cycle: what was known of every group, with the new partials merged in."""
    keys = [f"k{i}" for i in range(len(select.keys))]
    names = [
        (f"p{i}_{j}", partial.merged)
        for i, each in enumerate(select.aggregates)
        for j, partial in enumerate(_partials_of(each, lambda _: "NULL"))
    ]
    both = new
    if known is not None:
        listed = ", ".join([*keys, *(name for name, _ in names), CLOCK])
        both = f"SELECT {listed}, false AS _changed FROM {known} UNION ALL SELECT {listed}, _changed FROM ({new})"
    kept = [f"{rule.format(p=name)} AS {name}" for name, rule in names]
    listed = ", ".join([*keys, *kept, f"max({CLOCK}) AS {CLOCK}", "max(_changed) AS _changed"])
    group_by = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(1) > 0"
    return f"SELECT {listed} FROM ({both}){group_by}"


def finals(select: Select) -> Sequence[str]:
    """The aggregates' values from their partials."""
    return [_final(each, f"p{i}_") for i, each in enumerate(select.aggregates)]


def _mean(total: str, count: str, aggregate: Aggregate, type_: str) -> str:
    if aggregate.type.kind is not Kind.DECIMAL:
        return f"try_cast(try_divide(CAST({total} AS DOUBLE), {count}) AS {type_})"
    # Spark gives a quotient of wide DECIMALs six places. The whole part and the rest apart have room for all of them.
    divisor = f"CAST({count} AS DECIMAL(19,0))"
    rest = f"try_mod({total}, {divisor})"
    whole = f"try_cast(try_divide(try_subtract({total}, {rest}), {divisor}) AS {type_})"
    return f"try_cast(try_add({whole}, try_cast(try_divide({rest}, {divisor}) AS {type_})) AS {type_})"


def _final(aggregate: Aggregate, prefix: str) -> str:
    first, type_ = f"{prefix}0", spark_type(aggregate.type)
    if aggregate.function in ("min_by", "max_by"):
        return f"{first}.x"
    if aggregate.function in ("sum", "avg") and needs_parts(aggregate.args[0].type):
        source = aggregate.args[0].type
        if aggregate.function == "sum":
            return sum_of_parts(first, source, type_)
        return mean_of_parts(first, f"{prefix}1", source, aggregate.type, type_)
    if aggregate.function == "avg":
        return _mean(first, f"{prefix}1", aggregate, type_)
    if aggregate.function in _VARIANCES:
        least, divisor = (1, f"({first}.n - 1D)") if aggregate.function.endswith("samp") else (0, f"{first}.n")
        variance = f"CASE WHEN {first}.n > {least}D THEN {first}.m2 / {divisor} END"
        return f"sqrt({variance})" if aggregate.function.startswith("stddev") else variance
    if aggregate.function == "count":
        return f"CAST({first} AS BIGINT)"
    return first
