"""Asking Spark: several selects in one job, and tables of the driver as views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.runtime.columnar.packed_selects import Packed, pack, unpacked
from weft.runtime.spark.session import compile_plans, in_few_tasks
from weft.runtime.stages.joins.prepared import Prepared
from weft.runtime.stages.joins.texts import ROW, computed_values


class Asking:
    """What Spark is asked in one cycle."""

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

    def with_computed(self, tables: Mapping[Prepared, pa.Table]) -> dict[Prepared, pa.Table]:
        """Rows of families with what only Spark can compute of them, in one job for all; only tables with rows."""
        result = {family: table for family, table in tables.items() if table.num_rows}
        named: dict[str, Prepared] = {family.family.name: family for family in result if family.columns.computed}
        texts = [computed_values(family, self.view(_numbered(result[family]))) for family in named.values()]
        for name, values in self.collected(texts).items():
            ordered = values.take(pa.array(np.argsort(np.asarray(values[ROW]), kind="stable"))).drop_columns([ROW])
            table = result[named[name]]
            for column in ordered.column_names:
                table = table.append_column(column, ordered[column])
            result[named[name]] = table
        return result


def _numbered(table: pa.Table) -> pa.Table:
    return table.append_column(ROW, pa.array(np.arange(table.num_rows)))
