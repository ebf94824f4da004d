"""Set operators between window instances.

The rows of an operand are the answers of its window instances; their clock is the instance's end. An instance is
answered in the cycle in which the relation's watermark, the least of the operands', reaches its end. Until then rows
that the operand with the larger watermark has given wait for the other's:

    left       10   20   30            watermark 31: its instances up to 30 have closed
    right      10   20                 watermark 24
    answered   10   20                 the left rows of 30 wait

Waiting rows are held in chunks sorted by clock, so that those of closing instances are in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.algebra import SetOperation, SetOperator
from weft.arrays.chunks import add_chunk
from weft.arrays.ordinals import Numbers
from weft.arrays.row_encoding import RowEncoding
from weft.plan.event_time import Clock
from weft.runtime.columnar.rows import CLOCK
from weft.runtime.stages.sets.set_rows import (
    LEFT,
    SIDE,
    as_rows,
    clocks_of,
    log_schema,
    rows_schema,
    together,
    with_sides,
)


class InstanceOperator:
    """One set operator between operands with the same window, from cycle to cycle."""

    def __init__(self, operation: SetOperation) -> None:
        if operation.window is None:
            raise ValueError("an operator between window instances needs a window")
        self._operation = operation
        self._schema = rows_schema(operation.fields)
        self._log_schema = log_schema(operation.fields)
        self._waiting: list[_WaitingRows] = []
        self._changed = self._log_schema.empty_table()

    @property
    def bytes_held(self) -> int:
        """About the memory that the operator takes."""
        return sum(each.bytes_held for each in self._waiting)

    def take(self, operands: Sequence[pa.Table | None], after: Clock, until: Clock) -> pa.Table | None:
        """The answers of the instances whose end lies in (after, until]; None for none.

        These are the bounds that `EventTime.closing` gives. Rows of instances up to `after` count no more: they were
        answered before, or lack rows from before the query was there.
        """
        rows, sides = together(operands, self._schema)
        arrived = _WaitingRows.of(with_sides(rows, sides))
        for each in (arrived, *self._waiting):
            each.cut(after)
        closing = [each.cut(until) for each in (*self._waiting, arrived)]
        self._waiting = [each for each in self._waiting if len(each)]
        self._changed = arrived.rows
        self._wait(arrived)
        answered = pa.concat_tables(closing)
        return combined(self._operation, answered) if answered.num_rows else None

    def _wait(self, chunk: _WaitingRows) -> None:
        # Rows that came first stay first.
        add_chunk(self._waiting, chunk, lambda old, new: _WaitingRows.of(pa.concat_tables([old.rows, new.rows])))

    def changed(self) -> pa.Table:
        """The rows of the last cycle that wait for their instance to close."""
        return self._changed

    def whole(self) -> pa.Table:
        """All rows that wait."""
        return pa.concat_tables([self._log_schema.empty_table(), *(each.rows for each in self._waiting)])

    def remember(self, log: Iterable[pa.Table]) -> None:
        """Take back what was added to the log, oldest first. What was answered since goes in the next cycle."""
        for table in log:
            self._wait(_WaitingRows.of(as_rows(table, self._log_schema)))


@dataclass
class _WaitingRows:
    """Rows sorted by clock. Those in front leave as their instances close."""

    table: pa.Table
    clocks: Numbers
    begins: int = 0

    @classmethod
    def of(cls, rows: pa.Table) -> _WaitingRows:
        clocks = clocks_of(rows)
        order = np.argsort(clocks, kind="stable")
        return cls(rows.take(pa.array(order)).combine_chunks(), clocks[order])

    def __len__(self) -> int:
        return len(self.clocks) - self.begins

    @property
    def bytes_held(self) -> int:
        return int(self.table.nbytes) + self.clocks.nbytes

    @property
    def rows(self) -> pa.Table:
        return self.table.slice(self.begins)

    def cut(self, until: Clock) -> pa.Table:
        """Take away the rows up to a clock."""
        ends = self.begins if until is None else max(self.begins, int(np.searchsorted(self.clocks, until, "right")))
        front = self.table.slice(self.begins, ends - self.begins)
        self.begins = ends
        if len(self) < len(self.clocks) // 2:
            # A slice would keep all of the table in memory.
            self.table, self.clocks = self.table.take(pa.array(np.arange(ends, len(self.clocks)))), self.clocks[ends:]
            self.clocks, self.begins = self.clocks.copy(), 0
        return front


def combined(operation: SetOperation, rows: pa.Table) -> pa.Table | None:
    """SQL's operator on the rows of some instances, with their sides; ALL keeps duplicates as multisets do."""
    if operation.operator is SetOperator.UNION and operation.all:
        return rows.drop_columns([SIDE])
    values, schema = rows.drop_columns([SIDE]), rows_schema(operation.fields)
    # The clock is one more column: the same row in another instance is another value.
    encoded = RowEncoding(tuple(schema)).encoded(as_rows(values, schema)).dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    is_left = np.asarray(rows[SIDE]) == LEFT
    left, right = (
        np.bincount(numbers[which], minlength=len(encoded.dictionary)).astype(np.int64) for which in (is_left, ~is_left)
    )
    # A value looks as its last row does, in the left operand if it is there: -0.0 and 0.0 are one.
    shown = np.empty(len(encoded.dictionary), dtype=np.int64)
    for which in (np.flatnonzero(~is_left), np.flatnonzero(is_left)):
        shown[numbers[which]] = which
    places = np.repeat(shown, _times(operation, left, right))
    ends = np.asarray(values[CLOCK])[places]
    result = values.take(pa.array(places[np.argsort(ends, kind="stable")]))
    return result if result.num_rows else None


def _times(operation: SetOperation, left: Numbers, right: Numbers) -> Numbers:
    """How often a value is in the result that is so often in the operands."""
    if operation.operator is SetOperator.INTERSECT:
        times = np.minimum(left, right)
    elif operation.operator is SetOperator.EXCEPT:
        times = np.maximum(left - right, 0) if operation.all else np.where(right > 0, 0, left)
    else:
        times = left + right
    return times if operation.all else np.minimum(times, 1)
