"""DISTINCT, UNION, INTERSECT and EXCEPT: over history (docs/semantics.md, "Rows without windows"), and between window
instances.

Both kinds of operator live from cycle to cycle and are no more than a copy of their log: `changed` is what the last
cycle adds to it, `whole` all that it needs to hold in place of what was added so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from weft.algebra import Relation, Select, SetOperation, SetOperator
from weft.arrays.ordinals import Mask, Numbers
from weft.arrays.row_keys import RowEncoding, RowNumbers
from weft.plan.event_time import Clock
from weft.runtime.spark.rows import CLOCK
from weft.runtime.stages.sets import set_rows

#: The clock of what was never there. Clocks leave room for arithmetic, so no row has it.
_NEVER = np.iinfo(np.int64).min
#: The room for values at first; nothing is forgotten as long as there are not more.
_FEWEST = 1024
#: No two clocks are further apart.
_LONGEST = np.iinfo(np.uint64).max
#: Rows that wait are put into one chunk when there are more.
_MOST_CHUNKS = 64


class HistoryOperator:
    """One operator over history, from cycle to cycle: a Select that is DISTINCT, or a SetOperation, with RETAIN.

    Of each value and side the largest clock so far is remembered, in arrays by the value's number. Sides are the
    operands, as far as the operator looks at them, and the rows that it has let through, which are then made DISTINCT:

        DISTINCT, UNION     passed
        INTERSECT           left, right, passed
        EXCEPT              right, passed

    The rows of a cycle are sorted by value and clock, the left operand's first. Then what a row finds is the latest of
    those before it in its value's section, or what is remembered of its value:

        value    a a a b b c        a row finds its value iff clock − last < R
        clock    3 5 9 4 4 7
        last     r 3 5 r 4 r        r: remembered from earlier cycles; of what is remembered and what came, the larger

    A value that no row on time can find is forgotten, some time later: looking for such values costs as much as there
    are, so it is done when there are twice as many as there were, or when time has gone on by as much as is retained.
    """

    def __init__(self, relation: Relation) -> None:
        if relation.retain is None:
            raise ValueError("an operator over history needs RETAIN")
        self._relation = relation
        self._ticks = relation.retain.ticks
        self._schema = set_rows.rows_schema(relation.fields)
        self._log_schema = set_rows.log_schema(relation.fields)
        self._values = RowNumbers([self._schema.field(name) for name in self._schema.names if name != CLOCK])
        self._last = {side: np.full(_FEWEST, _NEVER) for side in _sides_of(relation)}
        self._watermark: Clock = None
        #: Values are looked through when the watermark is there, or when there are more of them.
        self._next_look: tuple[Clock, int] = (None, _FEWEST)
        #: By side, the places of rows that made a difference in the last cycle.
        self._changes: list[tuple[int, Numbers]] = []
        self._nothing = self._log_schema.empty_table()
        self._changed = self._nothing

    @property
    def bytes_held(self) -> int:
        return self._values.bytes_held + sum(last.nbytes for last in self._last.values())

    def take(self, operands: Sequence[pa.Table | None], before: Clock, after: Clock) -> pa.Table | None:
        """The rows that are emitted for the operands' new rows, in the order of their clocks; None for none.

        `before` and `after` are the relation's watermarks before and after the cycle.
        """
        rows, sides = set_rows.together(operands, self._schema)
        if self._ticks is not None and before is not None:
            on_time = set_rows.clocks_of(rows) >= before
            if not on_time.all():
                rows, sides = rows.filter(pa.array(on_time)), sides[on_time]
        self._changed = self._nothing
        emitted = self._taken(rows, sides) if rows.num_rows else None
        self._forget(after)
        return emitted

    def _taken(self, rows: pa.Table, sides: set_rows.Sides) -> pa.Table | None:
        clocks, numbers = set_rows.clocks_of(rows), self._values.numbers(rows)
        self._make_room()
        order = np.lexsort((clocks, numbers))
        self._changes = []
        places = order[self._emitted(_Arrived(numbers[order], clocks[order], sides[order]))]
        self._changed = self._logged(rows, order)
        return rows.take(pa.array(places[np.lexsort((places, clocks[places]))])) if len(places) else None

    def _emitted(self, arrived: _Arrived) -> Mask:
        passing = self._passing(arrived)
        unseen = passing & ~self._finds(arrived.clocks, self._latest(set_rows.PASSED, arrived, passing))
        self._remember(set_rows.PASSED, arrived, passing)
        return unseen

    def _passing(self, arrived: _Arrived) -> Mask:
        """Which rows the operator lets through before they are made DISTINCT."""
        operator = self._relation.operator if isinstance(self._relation, SetOperation) else None
        is_left, is_right = arrived.sides == set_rows.LEFT, arrived.sides == set_rows.RIGHT
        if operator is SetOperator.INTERSECT:
            # Rows that find their value among those before them on the other side.
            left, right = self._latest(set_rows.LEFT, arrived, is_left), self._latest(set_rows.RIGHT, arrived, is_right)
            self._remember(set_rows.LEFT, arrived, is_left)
            self._remember(set_rows.RIGHT, arrived, is_right)
            return self._finds(arrived.clocks, np.where(is_left, right, left))
        if operator is SetOperator.EXCEPT:
            # Left rows that do not find their value on the right, all of whose rows come first.
            self._remember(set_rows.RIGHT, arrived, is_right)
            return np.asarray(is_left & ~self._finds(arrived.clocks, self._last[set_rows.RIGHT][arrived.numbers]))
        return np.ones(len(arrived.numbers), dtype=bool)

    def _latest(self, side: int, arrived: _Arrived, which: Mask) -> Numbers:
        """For each row, the largest clock of its value on a side that some of the rows are of."""
        return np.asarray(np.maximum(self._last[side][arrived.numbers], arrived.latest_before(which)))

    def _finds(self, clocks: Numbers, last: Numbers) -> Mask:
        """Which rows find a value whose last clock is given."""
        known = np.asarray(last != _NEVER)
        if self._ticks is None:
            return known
        # How much later a row is can take 64 bits; without a sign it always fits.
        later = (clocks - last).view(np.uint64)
        return np.asarray(known & ((clocks < last) | (later < np.uint64(min(self._ticks, _LONGEST)))))

    def _remember(self, side: int, arrived: _Arrived, which: Mask) -> None:
        """Remember some rows on a side, and note those that made a difference."""
        last = self._last[side]
        places = arrived.last_of_values(which)
        numbers, clocks = arrived.numbers[places], arrived.clocks[places]
        # Without a bound it is enough that a value was there.
        news = last[numbers] == _NEVER if self._ticks is None else clocks > last[numbers]
        last[numbers[news]] = clocks[news]
        self._changes.append((side, places[news]))

    def _make_room(self) -> None:
        needed, room = len(self._values), len(self._last[set_rows.PASSED])
        if needed > room:
            more = np.full(max(needed, room * 3 // 2) - room, _NEVER)
            self._last = {side: np.concatenate([last, more]) for side, last in self._last.items()}

    def _forget(self, watermark: Clock) -> None:
        """Leave out values that no row on time can find, when it is time to look for them."""
        self._watermark = watermark
        if self._ticks is None or watermark is None:
            return
        when, at_most = self._next_look
        if when is not None and watermark < when and len(self._values) <= at_most:
            return
        live = np.any(list(self._live().values()), axis=0)
        count = int(live.sum())
        if count <= len(live) // 2:
            self._values.keep(live)
            room = max(_FEWEST, count)
            for side, last in self._last.items():
                self._last[side] = np.full(room, _NEVER)
                self._last[side][:count] = last[: len(live)][live]
        self._next_look = watermark + self._ticks, max(_FEWEST, 2 * count)

    def _live(self) -> dict[int, Mask]:
        """For each side, which values a row on time can find there."""
        least = _NEVER
        if self._ticks is not None and self._watermark is not None:
            least = max(least, self._watermark - self._ticks)
        return {side: last[: len(self._values)] > least for side, last in self._last.items()}

    def changed(self) -> pa.Table:
        """What the last cycle changed: a value, a side, and its largest clock there, if that can matter later."""
        return self._changed

    def whole(self) -> pa.Table:
        tables = [self._nothing]
        for side, live in self._live().items():
            clocks = self._last[side][: len(live)][live]
            columns = [*self._values.columns(live), pa.array(clocks), pa.array(np.full(len(clocks), side, np.int8))]
            tables.append(pa.table(columns, schema=self._log_schema))
        return pa.concat_tables(tables)

    def remember(self, log: Iterable[pa.Table]) -> None:
        """Take back what was added to the log."""
        for table in log:
            rows = set_rows.as_rows(table, self._schema)
            numbers = self._values.numbers(rows)
            self._make_room()
            for side, last in self._last.items():
                here = np.asarray(table[set_rows.SIDE]) == side
                np.maximum.at(last, numbers[here], set_rows.clocks_of(rows)[here])

    def _logged(self, rows: pa.Table, order: Numbers) -> pa.Table:
        places = [order[which] for _, which in self._changes]
        sides = np.repeat(np.array([side for side, _ in self._changes], np.int8), [len(each) for each in places])
        return set_rows.with_sides(rows.take(pa.array(np.concatenate(places))), sides)


@dataclass(frozen=True)
class _Arrived:
    """The rows of a cycle, sorted by value and clock: a section for each value."""

    numbers: Numbers
    clocks: Numbers
    sides: set_rows.Sides

    def latest_before(self, which: Mask) -> Numbers:
        """For each row, the clock of the last row before it in its section that is one of some."""
        latest = np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
        before = np.concatenate([[-1], latest[:-1]])
        return np.where(before >= self._begins, self.clocks[before], _NEVER)

    def last_of_values(self, which: Mask) -> Numbers:
        """The places of the last of some rows in each section that has any."""
        places = np.flatnonzero(which)
        numbers = self.numbers[places]
        return places[np.append(numbers[1:] != numbers[:-1], True)] if len(places) else places

    @cached_property
    def _begins(self) -> Numbers:
        """Where each row's section begins."""
        places = np.arange(len(self.numbers))
        is_first = np.append(True, self.numbers[1:] != self.numbers[:-1])
        return np.maximum.accumulate(np.where(is_first, places, 0))


def _sides_of(relation: Relation) -> tuple[int, ...]:
    """What an operator looks at: DISTINCT and UNION only at what has passed, EXCEPT not at what was on the left."""
    if isinstance(relation, Select) or relation.operator is SetOperator.UNION:
        return (set_rows.PASSED,)
    return (
        (set_rows.RIGHT, set_rows.PASSED)
        if relation.operator is SetOperator.EXCEPT
        else (set_rows.LEFT, set_rows.RIGHT, set_rows.PASSED)
    )


class InstanceOperator:
    """One set operator between operands with the same window, from cycle to cycle.

    The rows of an operand are the answers of its window instances; their clock is the instance's end. An instance is
    answered in the cycle in which the relation's watermark, the least of the operands', reaches its end. Until then
    rows that the operand with the larger watermark has given wait for the other's:

        left       10   20   30            watermark 31: its instances up to 30 have closed
        right      10   20                 watermark 24
        answered   10   20                 the left rows of 30 wait
    """

    def __init__(self, operation: SetOperation) -> None:
        if operation.window is None:
            raise ValueError("an operator between window instances needs a window")
        self._operation = operation
        self._schema = set_rows.rows_schema(operation.fields)
        self._waiting = self._changed = set_rows.log_schema(operation.fields).empty_table()

    @property
    def bytes_held(self) -> int:
        return int(self._waiting.nbytes)

    def take(self, operands: Sequence[pa.Table | None], after: Clock, until: Clock) -> pa.Table | None:
        """The answers of the instances whose end lies in (after, until]; None for none.

        These are the bounds that `EventTime.closing` gives. Rows of instances up to `after` count no more: they were
        answered before, or lack rows from before the query was there.
        """
        arrived = _later_than(after, set_rows.with_sides(*set_rows.together(operands, self._schema)))
        waiting = _later_than(after, self._waiting)
        self._changed = _later_than(until, arrived)
        # Rows that came first stay first.
        self._waiting = pa.concat_tables([_later_than(until, waiting), self._changed])
        if self._waiting[CLOCK].num_chunks > _MOST_CHUNKS:
            self._waiting = self._waiting.combine_chunks()
        if until is None:
            return None
        closing = [rows.filter(pa.array(set_rows.clocks_of(rows) <= until)) for rows in (waiting, arrived)]
        return combined(self._operation, pa.concat_tables(closing)) if any(map(len, closing)) else None

    def changed(self) -> pa.Table:
        """The rows of the last cycle that wait for their instance to close."""
        return self._changed

    def whole(self) -> pa.Table:
        return self._waiting

    def remember(self, log: Iterable[pa.Table]) -> None:
        """Take back what was added to the log, oldest first. What was answered since goes in the next cycle."""
        added = [set_rows.as_rows(each, self._waiting.schema) for each in log]
        self._waiting = pa.concat_tables([self._waiting, *added]).combine_chunks()


def _later_than(clock: Clock, rows: pa.Table) -> pa.Table:
    later = set_rows.clocks_of(rows) > (_NEVER if clock is None else clock)
    return rows if later.all() else rows.filter(pa.array(later))


def combined(operation: SetOperation, rows: pa.Table) -> pa.Table | None:
    """SQL's operator on the rows of some instances, with their sides; ALL keeps duplicates as multisets do."""
    if operation.operator is SetOperator.UNION and operation.all:
        return rows.drop_columns([set_rows.SIDE])
    values, schema = rows.drop_columns([set_rows.SIDE]), set_rows.rows_schema(operation.fields)
    # The clock is one more column: the same row in another instance is another value.
    encoded = RowEncoding(tuple(schema)).encoded(set_rows.as_rows(values, schema)).dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    is_left = np.asarray(rows[set_rows.SIDE]) == set_rows.LEFT
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
