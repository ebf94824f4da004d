"""Spark jobs of joins: rows of logs with the columns that a group needs, and kept rows whose keys are probed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.algebra import DataType, Field
from weft.algebra.types import BIGINT, BOOLEAN
from weft.expressions.spark_expressions import column
from weft.plan.event_time import Clock
from weft.runtime.spark.rows import ARRIVAL, BEFORE, CLOCK, Packed, bucket_sql, pack, unpacked
from weft.runtime.spark.session import compile_plans, in_few_tasks
from weft.runtime.stages.joins.join_groups import LATE, NODES, JoinGroup, hash_of
from weft.runtime.stages.joins.row_checks import Columns, clock_of, column_of

#: The number of a row's keys; the number of a new row among those that are probed with, and its clock; whether a row is
#: in the sample of its log.
HASH, ROW, PROBED_CLOCK, SAMPLED = "h", "_row", "_probed", "_sampled"


def rows_of_log(group: JoinGroup, view: str) -> str:
    """The rows of a log with the columns of a group of level 0, and what is computed of them."""
    return _rows(group, view, [ARRIVAL, f"coalesce({CLOCK} < {BEFORE}, false) AS {LATE}"])


def _values(group: JoinGroup) -> list[str]:
    """What Spark computes of the rows of a log."""
    return sorted(local for _, local in group.columns.wanted if local in group.columns.values)


def _read(group: JoinGroup, also: Collection[str] = ()) -> list[str]:
    """The columns of a log that are passed on, or that something is computed from."""
    read = {local for _, local in group.columns.wanted} - {*_values(group)}
    read |= {local for value in _values(group) for local in group.columns.values[value].read}
    return sorted((read | group.read_by_condition | set(also)) - {"clock"})


def _rows(group: JoinGroup, view: str, more: Sequence[str], also: Collection[str] = ()) -> str:
    columns, values = group.columns, _values(group)
    plain = [f"{local} AS {column_of(0, local)}" for local in _read(group, also)]
    rows = f"SELECT {', '.join([*plain, f'{CLOCK} AS {clock_of(0)}', *more])} FROM {view}"
    if not values:
        return rows
    return f"SELECT *, {', '.join(f'{columns.values[v].text} AS {column_of(0, v)}' for v in values)} FROM ({rows})"


def straight_rows(group: JoinGroup, rows: str, every: int | None, *, kept: bool) -> Packed:
    """New rows that are in no log and yet to be `judged`; with all that joins refer to if they will be `kept`.

    What they are judged by changes from cycle to cycle, and Spark would compile its plan again for every other
    constant.
    """
    listed = {name: type_ for name, type_ in group.stored if name not in (ARRIVAL, LATE)}
    also = sorted(group.joined_by - {"clock"}) if kept else ()
    listed |= {column_of(0, local): group.columns.type_of(column_of(0, local)) for local in also}
    return new_rows(group, _rows(group, rows, (), also), list(listed.items()), every)


def judged(group: JoinGroup, rows: pa.Table, watermark: Clock, cycle: int) -> pa.Table:
    """Rows of a log as if they had come from it: they arrived in this cycle, and are late if the watermark says so."""
    clocks = np.asarray(rows[clock_of(0)])
    late = np.zeros(len(clocks), dtype=bool) if watermark is None else clocks < watermark
    found = {ARRIVAL: pa.array(np.full(len(clocks), cycle)), LATE: pa.array(late)}
    names = [*(name for name, _ in group.stored), SAMPLED]
    return pa.table({name: found[name] if name in found else rows[name] for name in names})


def rows_for_log(group: JoinGroup, rows: pa.Table, watermark: Clock, cycle: int) -> pa.Table:
    """Rows of a log as they are kept in it, with the columns that joins refer to."""
    number = rows.num_rows
    judged_by = pa.nulls(number, pa.int64()) if watermark is None else pa.array(np.full(number, watermark))
    values = {local: rows[column_of(0, local)] for local in sorted(group.joined_by - {"clock"})}
    return pa.table({**values, CLOCK: rows[clock_of(0)], ARRIVAL: pa.array(np.full(number, cycle)), BEFORE: judged_by})


def new_rows(group: JoinGroup, rows: str, stored: Sequence[tuple[str, DataType]], every: int | None) -> Packed:
    """The new rows of a log that some node may want, and one in `every` of all rows, which are marked; None for none.

    Rows that no node wants say how many rows satisfy a condition. The numbers of their values decide, so that there is
    one pass over the rows, and the condition of the others is still Spark's to check.
    """
    # What is computed of a row is left out: it would be computed of every row for this, and follows from the others.
    plain = [clock_of(0), *(column_of(0, local) for local in _read(group))]
    # Without a condition all rows come anyway.
    sampled = "false" if every is None or not group.condition else f"pmod(xxhash64({', '.join(plain)}), {every}L) = 0"
    conditions = [each for each in (group.condition, sampled) if each != "false"]
    where = f" WHERE {' OR '.join(f'({each})' for each in conditions)}" if group.condition else ""
    listed = [*stored, (SAMPLED, BOOLEAN)]
    return _packed(group.name, listed, {SAMPLED: sampled}, f"({rows}){where}")


def all_rows(group: JoinGroup, rows: str) -> Packed:
    """The kept rows of a group that joins may look for."""
    conditions = [f"{ARRIVAL} >= {group.first}"]
    if not group.sides and group.condition:
        conditions.append(group.condition)
    return _packed(group.name, group.stored, {}, f"({rows}) WHERE {' AND '.join(conditions)}")


def side_columns(group: JoinGroup, side: int) -> list[tuple[str, DataType]]:
    """The columns that a join needs of the rows of a side, as the side calls them."""
    first = group.first_legs[side]
    legs = len(group.sides[side].legs)
    columns: Columns = group.sides[side].columns
    wanted = [(leg - first, at) for leg, at in sorted(group.columns.wanted) if first <= leg < first + legs]
    values = [(column_of(*each), columns.type_of(column_of(*each))) for each in wanted]
    always = {*(clock_of(leg) for leg in range(legs)), ARRIVAL, LATE, NODES}
    return [*values, *(each for each in group.sides[side].stored if each[0] in always)]


def kept_rows(group: JoinGroup, side: int, rows: str) -> str:
    """The kept rows of a join's side that may be of use, with the number of their keys. `rows` has all that are kept.

    Rows without keys are told apart by time, if a band says how far apart those that meet can be.
    """
    conditions = [group.side_conditions[side]] if group.side_conditions[side] else []
    if group.is_timely:
        conditions.append(f"NOT {LATE}")
    if group.first > 0:
        conditions.append(f"{ARRIVAL} >= {group.first}")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT *, {_number(group, side)} AS {HASH} FROM ({rows}){where}"


def _number(group: JoinGroup, side: int) -> str:
    if group.keys:
        computed = {name: text for text, (name, _) in group.sides[side].columns.computed.items()}
        keys = [computed.get(name, name) for name in group.key_columns[side]]
        return keys[0] if group.on_executors else hash_of(keys)
    if group.band is None:
        return "0L"
    return bucket_sql(group.band_clock(side), group.band.width)


def probed(group: JoinGroup, side: int, rows: str, probes: str, salt: int, name: str) -> Packed:
    """The kept rows of a side whose keys are among the probes, with the numbers of the new rows they may meet.

    Probes for different joins have different salts, so that Spark broadcasts one table of them.
    """
    listed = [(ROW, BIGINT), (PROBED_CLOCK, BIGINT), *side_columns(group, side)]
    meeting = [f"d.{HASH} = (k.{HASH} ^ {salt}L)"]
    if group.band is not None:
        clock, (low, high) = f"k.{group.band_clock(side)}", group.ahead(side)
        meeting += [f"{clock} >= d.{PROBED_CLOCK} + {low}L", f"{clock} <= d.{PROBED_CLOCK} + {high}L"]
    kept = f"({kept_rows(group, side, rows)}) AS k"
    return _packed(name, listed, {}, f"{kept} JOIN {probes} AS d ON {' AND '.join(meeting)}", hint="BROADCAST(d)")


def met_before(group: JoinGroup, left: str, right: str) -> Packed:
    """All pairs of kept rows that may meet, with the columns of the left ones before those of the right ones."""
    tables = [f"({kept_rows(group, side, rows)})" for side, rows in enumerate((left, right))]
    number, band = HASH, group.band
    if not group.keys and band is not None:
        clock, number = group.band_clock(1), "_bucket"
        ends = [bucket_sql(f"({clock} - {distance}L)", band.width) for distance in (band.high, band.low)]
        tables[1] = f"(SELECT *, explode(array_distinct(array({', '.join(ends)}))) AS {number} FROM {tables[1]})"
    listed, texts = [], {}
    for side, alias in enumerate("lr"):
        for name, type_ in side_columns(group, side):
            listed.append((f"{alias}_{name}", type_))
            texts[f"{alias}_{name}"] = f"{alias}.{name}"
    return _packed(group.name, listed, texts, f"{tables[0]} AS l JOIN {tables[1]} AS r ON l.{HASH} = r.{number}")


def _packed(
    name: str, listed: Sequence[tuple[str, DataType]], texts: dict[str, str], source: str, hint: str = ""
) -> Packed:
    chosen = [f"{texts.get(each, each)} AS {column(position)}" for position, (each, _) in enumerate(listed)]
    hinted = f"/*+ {hint} */ " if hint else ""
    fields = tuple(Field(each, type_) for each, type_ in listed)
    return Packed(name, fields, f"SELECT {hinted}{', '.join(chosen)} FROM {source}")


class SparkJobs:
    """The Spark jobs of one cycle, and views of tables that the driver has."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._views: list[str] = []

    def collected(self, texts: Sequence[Packed], *, compiled: bool = False) -> dict[str, pa.Table]:
        """The rows of several selects by their names, in one job; nothing for those that have none."""
        if not texts:
            return {}
        compile_plans(self.spark, compiled)
        return unpacked(texts, in_few_tasks(self.spark.sql(pack(texts)), len(texts)).toArrow())

    def view(self, table: pa.Table) -> str:
        """A table of the driver as something to select from."""
        return self.registered(self.spark.createDataFrame(table))

    def registered(self, frame: DataFrame) -> str:
        name = f"weft_network_{len(self._views)}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    def drop_views(self) -> None:
        for name in self._views:
            self.spark.catalog.dropTempView(name)

    def with_computed(self, tables: Mapping[JoinGroup, pa.Table]) -> dict[JoinGroup, pa.Table]:
        """Rows of groups with what only Spark can compute of them, in one job for all; only tables with rows."""
        result = {group: table for group, table in tables.items() if table.num_rows}
        named: dict[str, JoinGroup] = {group.name: group for group in result if group.columns.computed}
        packed = []
        for name, group in named.items():
            numbered = result[group].append_column(ROW, pa.array(np.arange(result[group].num_rows)))
            texts = {computed: text for text, (computed, _) in group.columns.computed.items()}
            listed = [(ROW, BIGINT), *group.columns.computed.values()]
            packed.append(_packed(name, listed, texts, self.view(numbered)))
        for name, values in self.collected(packed).items():
            ordered = values.take(pa.array(np.argsort(np.asarray(values[ROW]), kind="stable"))).drop_columns([ROW])
            for computed, found in zip(ordered.column_names, ordered.columns, strict=True):
                result[named[name]] = result[named[name]].append_column(computed, found)
        return result
