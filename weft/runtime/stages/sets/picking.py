"""Selects that show some columns of what a set operator gives, and do nothing else.

Their rows are in the driver, and stay there: no job is started to leave columns out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from weft.algebra import Column, Relation, Select, SetOperation
from weft.runtime.columnar.rows import CLOCK, column


def picks_columns(relation: Relation) -> bool:
    """Whether a relation is a select of that kind."""
    return (
        isinstance(relation, Select)
        and len(relation.inputs) == 1
        and isinstance(relation.inputs[0].source, SetOperation)
        and relation.where is None
        and relation.window is None
        and not (relation.is_grouped or relation.distinct)
        and all(isinstance(each.expression, Column) for each in relation.outputs)
    )


def picked(select: Select, operands: Sequence[pa.Table | None]) -> pa.Table | None:
    """Its rows, if there are any; those of its operand come by position."""
    (rows,) = operands
    if rows is None or not rows.num_rows:
        return None
    names = [each.name for each in select.inputs[0].source.fields]
    shown = [each.expression.name for each in select.outputs if isinstance(each.expression, Column)]
    columns = [rows.column(names.index(name)) for name in shown]
    return pa.table([*columns, rows[CLOCK]], [*(column(place) for place in range(len(columns))), CLOCK])
