"""Aggregates that never close: partials of the new rows, merged into what is known of every group.

A snapshot has one row per group: its keys (k0, k1, …), the partials of its aggregates (p0_0, p0_1, …), the largest
clock in the group, and whether this cycle changed it. Holistic aggregates have no such partials; they are recomputed
from the rows, which `[RANGE UNBOUNDED]` asked to be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.algebra import Aggregate, Kind, Select
from weft.expressions.spark_expressions import (
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
from weft.plan.log_ids import LogId, LogKind
from weft.runtime.spark.rows import CLOCK
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
class _KeptAggregate:
    """The columns that are kept of an aggregate, and its value: texts over the columns' names.

    Of each column: its name, how it comes from rows, and how several of it merge.
    """

    columns: tuple[tuple[str, str, str], ...]
    value: str


def _kept(select: Select, leaf: Leaf = lambda _: "NULL") -> list[_KeptAggregate]:
    return [_kept_aggregate(each, f"p{i}_0", f"p{i}_1", leaf) for i, each in enumerate(select.aggregates)]


def _kept_aggregate(aggregate: Aggregate, first: str, second: str, leaf: Leaf) -> _KeptAggregate:
    def kept(value: str, of_rows: str, merged: str, *, is_mean: bool = False) -> _KeptAggregate:
        count = [(second, f"count({arg})", f"sum({second})")] if is_mean else []
        return _KeptAggregate(((first, of_rows, merged), *count), value)

    rows, function, type_ = aggregate_sql(aggregate, leaf), aggregate.function, spark_type(aggregate.type)
    if function == "count":
        return kept(f"CAST({first} AS BIGINT)", rows, f"sum({first})")
    arg, source = spark_sql(aggregate.args[0], leaf), aggregate.args[0].type
    if function in ("min", "max"):
        return kept(first, rows, f"{function}({first})")
    if function in ("min_by", "max_by"):
        return kept(f"{first}.x", rows.removesuffix(".x"), f"{function[:3]}({first})")
    if function in ("sum", "avg") and needs_parts(source):
        is_mean = function == "avg"
        value = (
            mean_of_parts(first, second, source, aggregate.type, type_)
            if is_mean
            else sum_of_parts(first, source, type_)
        )
        return kept(value, sum_parts(arg, source), merged_parts(first), is_mean=is_mean)
    if function == "sum":
        is_exact = not aggregate.type.is_floating
        return kept(first, rows, f"try_cast(try_sum({first}) AS {type_})" if is_exact else f"sum({first})")
    if function == "avg":
        value = _mean(first, second, aggregate, type_)
        # The sum that a mean is made of is exact where its argument is.
        if source.kind is Kind.DECIMAL:
            total = f"try_sum(CAST({arg} AS DECIMAL(38,{source.scale})))"
        elif source.kind is Kind.BIGINT:
            total = exact_sum(aggregate.args[0], arg)
        else:
            return kept(value, f"sum(CAST({arg} AS DOUBLE))", f"sum({first})", is_mean=True)
        return kept(value, total, f"try_sum({first})", is_mean=True)
    assert function in _VARIANCES, function
    moments = (
        f"named_struct('n', CAST(count({arg}) AS DOUBLE), 'mean', avg({arg}), 'm2', var_pop({arg}) * count({arg}))"
    )
    least, divisor = (1, f"({first}.n - 1D)") if function.endswith("samp") else (0, f"{first}.n")
    variance = f"CASE WHEN {first}.n > {least}D THEN {first}.m2 / {divisor} END"
    value = f"sqrt({variance})" if function.startswith("stddev") else variance
    return kept(value, moments, _MERGED_MOMENTS.format(p=first))


def _mean(total: str, count: str, aggregate: Aggregate, type_: str) -> str:
    if aggregate.type.kind is not Kind.DECIMAL:
        return f"try_cast(try_divide(CAST({total} AS DOUBLE), {count}) AS {type_})"
    # Spark gives a quotient of wide DECIMALs six places. The whole part and the rest apart have room for all of them.
    divisor = f"CAST({count} AS DECIMAL(19,0))"
    rest = f"try_mod({total}, {divisor})"
    whole = f"try_cast(try_divide(try_subtract({total}, {rest}), {divisor}) AS {type_})"
    return f"try_cast(try_add({whole}, try_cast(try_divide({rest}, {divisor}) AS {type_})) AS {type_})"


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
    kept = [f"{of_rows} AS {name}" for each in _kept(select, leaf) for name, of_rows, _ in each.columns]
    where = f" WHERE {spark_sql(select.where, leaf)}" if select.where is not None else ""
    grouping = ", ".join(spark_sql(key, leaf) for key in select.keys)
    # Without keys SQL answers even when no row is left; a group without rows is none.
    group_by = f" GROUP BY {grouping}" if grouping else " HAVING count(1) > 0"
    listed = ", ".join([*keys, *kept, f"max({CLOCK}) AS {CLOCK}", "true AS _changed"])
    return f"SELECT {listed} FROM ({rows}) AS t0{where}{group_by}"


def merged(select: Select, known: str | None, new: str) -> str:
    """The snapshot after this cycle: what was known of every group, with the new partials merged in."""
    keys = [f"k{i}" for i in range(len(select.keys))]
    columns = [column for each in _kept(select) for column in each.columns]
    both = new
    if known is not None:
        listed = ", ".join([*keys, *(name for name, _, _ in columns), CLOCK])
        both = f"SELECT {listed}, false AS _changed FROM {known} UNION ALL SELECT {listed}, _changed FROM ({new})"
    kept = [f"{merged} AS {name}" for name, _, merged in columns]
    listed = ", ".join([*keys, *kept, f"max({CLOCK}) AS {CLOCK}", "max(_changed) AS _changed"])
    group_by = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(1) > 0"
    return f"SELECT {listed} FROM ({both}){group_by}"


def finals(select: Select) -> Sequence[str]:
    """The aggregates' values from their partials."""
    return [each.value for each in _kept(select)]
