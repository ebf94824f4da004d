"""The rows of set operators as Arrow tables: columns by position and the clock, as `runtime/spark/rows.py` has them.

Selects that show some columns of a set operator's rows, and do nothing else, take them from here: no job is started to
leave columns out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import Column, Field, Relation, Select, SetOperation
from weft.arrays.arrow_types import inner_arrow_type, to_outside
from weft.arrays.ordinals import Numbers
from weft.expressions.spark_expressions import column
from weft.plan.event_time import Clock
from weft.runtime.spark.rows import CLOCK

#: The column of a log that says whose row it is: 0 and 1 are the operands, see also `PASSED`.
SIDE = "_side"
#: The side of rows that an operator over history has let through.
PASSED = 2

LEFT, RIGHT = 0, 1

Sides = NDArray[np.int8]


def rows_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of the rows of a relation. An INTERVAL is held as its number of microseconds."""
    types = (inner_arrow_type(field.type) for field in fields)
    return pa.schema([*((column(position), type_) for position, type_ in enumerate(types)), (CLOCK, pa.int64())])


def log_schema(fields: Sequence[Field]) -> pa.Schema:
    """The schema of what an operator adds to its log."""
    return rows_schema(fields).append(pa.field(SIDE, pa.int8()))


def together(operands: Sequence[pa.Table | None], schema: pa.Schema) -> tuple[pa.Table, Sides]:
    """The rows of all operands, the left ones first, and the side of each."""
    counts = [0 if each is None else each.num_rows for each in operands]
    tables = [as_rows(each, schema) for each in operands if each is not None and each.num_rows]
    sides = np.repeat(np.arange(len(counts), dtype=np.int8), counts)
    return pa.concat_tables(tables) if tables else schema.empty_table(), sides


def as_rows(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a schema, in its types."""
    return table if table.schema.equals(schema) else table.select(schema.names).cast(schema)


def by_position(table: pa.Table) -> pa.Table:
    """Rows with their clock in the last column, under whatever names, as the operators take them."""
    return table.rename_columns([*(column(position) for position in range(table.num_columns - 1)), CLOCK])


def shown(table: pa.Table, fields: Sequence[Field]) -> pa.Table:
    """Rows as others take them: intervals are durations outside, and numbers in here."""
    arrays = [to_outside(values, each.type) for values, each in zip(table.columns, fields, strict=False)]
    return pa.table([*arrays, table[CLOCK]], names=table.column_names)


def union_all(operation: SetOperation, operands: Sequence[pa.Table | None]) -> pa.Table | None:
    """UNION ALL without a window passes both operands through, and remembers nothing."""
    rows, _ = together(operands, rows_schema(operation.fields))
    return rows if rows.num_rows else None


def clocks_of(rows: pa.Table) -> Numbers:
    return np.asarray(rows[CLOCK])


def with_sides(rows: pa.Table, sides: Sides) -> pa.Table:
    """Rows as they stand in a log."""
    return rows.append_column(pa.field(SIDE, pa.int8()), pa.array(sides, pa.int8()))


def needed_since(relation: Relation, watermark: Clock) -> Clock:
    """The least clock of rows in an operator's log that it can still need; None if it needs all of them.

    A row on time has a clock of at least the watermark: within RETAIN of it, it finds nothing older. An instance is
    answered when the watermark reaches its end, which is the clock of its rows.
    """
    if watermark is None or (relation.retain is not None and relation.retain.ticks is None):
        return None
    return watermark + 1 if relation.retain is None else watermark - (relation.retain.ticks or 0) + 1


def picked(select: Select, operands: Sequence[pa.Table | None]) -> pa.Table | None:
    """Its rows, if there are any; those of its operand come by position."""
    (rows,) = operands
    if rows is None or not rows.num_rows:
        return None
    names = [each.name for each in select.inputs[0].source.fields]
    shown = [each.expression.name for each in select.outputs if isinstance(each.expression, Column)]
    columns = [rows.column(names.index(name)) for name in shown]
    return pa.table([*columns, rows[CLOCK]], [*(column(place) for place in range(len(columns))), CLOCK])
