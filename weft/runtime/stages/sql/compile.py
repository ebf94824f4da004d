"""Relations as Spark SQL: what each of them emits in one cycle.

`emitted` gives a text `SELECT c0, c1, …, _clock` for the rows that a relation emits in this cycle, or None when there
can be none. The texts read temporary views that the cycle has registered for the logs:

    new_<log>    the rows that arrived in this cycle        old_<log>    those that arrived before and are kept

Nothing here runs. Relations are windows that cannot be cut into slices, running aggregates of functions that need all
values, and all selects of queries that share nothing; DISTINCT over history and set operators have a stage of their
own. What must be evaluated and kept before it can be read (the rows of a subquery that a window needs, for instance) is
evaluated first, innermost first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import weft.algebra as algebra
from weft.algebra.properties import reads
from weft.algebra.types import TIMESTAMP, DataType
from weft.expressions.spark_expressions import Leaf, aggregate_sql, column, spark_sql, spark_type
from weft.plan.event_time import Clock, EventTime, QueryStart, is_windowed
from weft.plan.log_ids import LogId
from weft.plan.node_ids import NodeId, log_of
from weft.runtime.spark.rows import ARRIVAL, BEFORE, CLOCK, bucket_sql, columns
from weft.runtime.stages.sql import running
from weft.windows.join_windows import meeting_bounds


@dataclass(frozen=True)
class Views:
    """The temporary views of a cycle: for each log, a view of its new rows and one of its old ones, if it has any.

    `given` are the logs of relations that other stages evaluate: those that have no new rows in this cycle have none.
    """

    new: Mapping[LogId, str]
    old: Mapping[LogId, str]
    given: frozenset[str] = frozenset()

    def all(self, log: LogId) -> str | None:
        """A table expression for all rows of a log."""
        names = [views[log] for views in (self.old, self.new) if log in views]
        if not names:
            return None
        return names[0] if len(names) == 1 else f"(SELECT * FROM {names[0]} UNION ALL SELECT * FROM {names[1]})"


@dataclass(frozen=True)
class Compiler:
    """Compiles the relations of one query for one cycle."""

    event_time: EventTime
    views: Views
    start: QueryStart
    #: The clock that EMIT EMPTY counts from, by operator id.
    emit_from: Mapping[str, int]

    def emitted(self, relation: algebra.Relation, id_: NodeId, step: int) -> str | None:
        """The rows that a relation gets in this cycle from what it reads."""
        source, inner = reads(relation)[step], id_.below(step)
        log = log_of(source, inner)
        if log in self.views.new:
            return f"SELECT {columns(source.fields)}{CLOCK} FROM {self.views.new[log]}"
        if not isinstance(source, algebra.Select) or log in self.views.old or log in self.views.given:
            return None
        return replace(self, start=self.start.below(relation, source)).computed(source, inner)

    def computed(self, select: algebra.Relation, id_: NodeId) -> str | None:
        """The rows that a select emits in this cycle, computed from what it reads."""
        assert isinstance(select, algebra.Select), "set operators have a stage of their own"
        if is_windowed(select):
            return self._windowed(select, id_)
        if select.is_grouped:
            return self._running(select, id_)
        if len(select.inputs) > 1:
            return self._join(select, id_)
        rows, leaf = self.emitted(select, id_, 0), _input_leaf(select)
        if rows is None:
            return None
        return f"SELECT {_outputs(select, leaf)}{CLOCK} FROM ({rows}) AS t0{_where(select.where, leaf)}"

    def _windowed(self, select: algebra.Select, id_: NodeId) -> str | None:
        """The answers of the instances that close in this cycle, computed from all rows that they cover."""
        window = select.window
        assert window is not None
        after, until = self.event_time.closing(select, self.start)
        if until is None or (after is not None and until <= after):
            return None
        source = select.inputs[0].source
        rows = self.views.all(log_of(source, id_.below(0)))
        bounds = _closing_instances(window, after, until)
        members = self._members(select, rows, window, bounds) if rows else None
        if not select.is_grouped:
            return self._instances(select, _input_leaf(select), f"({members}) AS t0") if members else None
        groups = None if members is None else _grouped(select, f"({members}) AS t0", ["k"])
        if select.emit_empty:
            groups = self._with_empty_instances(select, id_, groups, (after, until))
        return None if groups is None else self._instances(select, _group_leaf, f"({groups}) AS g")

    def _members(
        self, select: algebra.Select, rows: str, window: algebra.Window, bounds: tuple[int | None, int]
    ) -> str | None:
        """Every row once for each closing instance k that covers it and was open when the row arrived."""
        assert window.range is not None
        first, last = bounds
        if first is not None and last < first:
            return None
        r, s, o = window.range, window.slide, window.origin
        lowest = f"{bucket_sql(f'{CLOCK} - {o + r}', s)} + 1"
        if first is not None:
            lowest = f"greatest({lowest}, {first}L)"
        open_since = f"coalesce({bucket_sql(f'{BEFORE} - {o + r}', s)} + 1, -9223372036854775807L)"
        lowest = f"greatest({lowest}, {open_since})"
        highest = f"least({bucket_sql(f'{CLOCK} - {o}', s)}, {last}L)"
        where = f" AND {spark_sql(select.where, _input_leaf(select))}" if select.where is not None else ""
        floor = "" if first is None else f" AND {CLOCK} >= {o + first * s}L"
        kept = f"{CLOCK} < {o + last * s + r}L{floor}{self._since_birth(select)}{where}"
        return (
            f"SELECT *, explode(sequence({lowest}, {highest})) AS k FROM {rows} AS t0 "
            f"WHERE {kept} AND {lowest} <= {highest}"
        )

    def _since_birth(self, select: algebra.Select) -> str:
        """Rows from before the query count only as far as the stream keeps history for it."""
        if self.start.first == 0:
            return ""
        arrived = f"{ARRIVAL} >= {self.start.first}"
        horizon = self.event_time.horizon(select.inputs[0].source, self.start)
        return f" AND {arrived}" if horizon is None else f" AND ({arrived} OR {CLOCK} > {horizon}L)"

    def _instances(self, select: algebra.Select, of_rows: Leaf, rows: str) -> str:
        """What a select shows of the rows or groups of instances k."""
        assert select.window is not None
        leaf = _bounds_leaf(select.window, select.clock_type, of_rows)
        distinct = "DISTINCT " if select.distinct else ""
        shown = f"{distinct}{_outputs(select, leaf)}{_end(select.window)} AS {CLOCK}"
        return f"SELECT {shown} FROM {rows}{_where(select.having, leaf)}"

    def _with_empty_instances(
        self, select: algebra.Select, id_: NodeId, groups: str | None, closing: tuple[Clock, int]
    ) -> str | None:
        """One row for every closing instance, from the first that ends after the first row there was."""
        assert select.window is not None
        after, until = closing
        counted_from = self.emit_from.get(id_.text)
        if counted_from is None:
            return groups
        since = counted_from if after is None else max(counted_from, after)
        first, last = _closing_instances(select.window, since, until)
        if first is None or last < first:
            return groups
        instances = f"SELECT explode(sequence({first}L, {last}L)) AS k"
        counting = [each.function in ("count", "approx_count_distinct") for each in select.aggregates]
        if groups is None:
            types = [spark_type(each.type) for each in select.aggregates]
            values = ["0L" if each else f"CAST(NULL AS {of})" for each, of in zip(counting, types, strict=True)]
            return f"SELECT {', '.join(['k', *_named(values)])} FROM ({instances})"
        filled = _named([f"coalesce(g.a{i}, 0L)" if each else f"g.a{i}" for i, each in enumerate(counting)])
        listed = ", ".join(["coalesce(i.k, g.k) AS k", *filled])
        return f"SELECT {listed} FROM ({instances}) AS i FULL OUTER JOIN ({groups}) AS g ON i.k = g.k"

    def _join(self, select: algebra.Select, id_: NodeId) -> str | None:
        """The combinations whose last row arrived in this cycle.

        For each input in turn: its new rows, with the old rows of the inputs before it and all rows of those after it.
        The rows of tables are all old.
        """
        near, leaf = _near(select), _input_leaf(select)
        clocks = [f"t{position}.{CLOCK}" for position in range(len(select.inputs))]
        conditions = [*_meeting(select, clocks), *(["t0.near = t1.near"] if near else [])]
        if select.where is not None:
            conditions.append(spark_sql(select.where, leaf))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        shown = f"{_outputs(select, leaf)}greatest({', '.join(clocks)}) AS {CLOCK}"
        parts = []
        for newest in range(len(select.inputs)):
            tables = [self._join_input(select, id_, position, newest, near) for position in range(len(select.inputs))]
            found = [table for table in tables if table is not None]
            if len(found) == len(tables):
                parts.append(f"SELECT {shown} FROM {', '.join(found)}{where}")
        return " UNION ALL ".join(parts) or None

    def _join_input(
        self, select: algebra.Select, id_: NodeId, position: int, newest: int, near: tuple[str, str] | None
    ) -> str | None:
        item, listed = select.inputs[position], columns(select.inputs[position].source.fields)
        log = log_of(item.source, id_.below(position))
        if position > newest:
            table = self.views.all(log)
        else:
            table = (self.views.new if position == newest else self.views.old).get(log)
        if table is None:
            return None
        if isinstance(item.source, algebra.Table):
            return f"(SELECT {listed}{CLOCK} FROM {table}) AS t{position}"
        conditions = []
        if self.start.first > 0:
            conditions.append(f"{ARRIVAL} >= {self.start.first}")
        if select.is_bounded:
            conditions.append(f"({BEFORE} IS NULL OR {CLOCK} >= {BEFORE})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        bucket = f", {near[position]} AS near" if near is not None else ""
        return f"(SELECT {listed}{CLOCK}{bucket} FROM {table}{where}) AS t{position}"

    def _running(self, select: algebra.Select, id_: NodeId) -> str | None:
        """Every group that got a row in this cycle, over all its rows so far."""
        if running.keeps_partials(select):
            # The cycle has merged the new rows into the snapshot; what changed is marked there.
            merged = self.views.new.get(running.log(id_.text))
            groups = f"SELECT * FROM {merged} WHERE _changed" if merged else None
            final = running.finals(select)
        else:
            groups = self._recomputed_groups(select, id_)
            final = [f"a{i}" for i in range(len(select.aggregates))]
        if groups is None:
            return None
        keys = "".join(f"k{i}, " for i in range(len(select.keys)))
        listed = "".join(f"{each} AS a{i}, " for i, each in enumerate(final))
        having = _where(select.having, _group_leaf)
        inner = f"SELECT {keys}{listed}{CLOCK} FROM ({groups}) AS g"
        return f"SELECT {_outputs(select, _group_leaf)}{CLOCK} FROM ({inner}) AS g{having}"

    def _recomputed_groups(self, select: algebra.Select, id_: NodeId) -> str | None:
        source = select.inputs[0].source
        log = log_of(source, id_.below(0))
        rows = self.views.all(log)
        if log not in self.views.new or rows is None:
            return None
        since = f"{ARRIVAL} >= {self.start.first}"
        where = f"{since} AND {spark_sql(select.where, _input_leaf(select))}" if select.where is not None else since
        more = [f"max({CLOCK}) AS {CLOCK}", f"max({ARRIVAL}) AS last"]
        inner = _grouped(select, f"{rows} AS t0 WHERE {where}", [], more)
        return f"SELECT * FROM ({inner}) WHERE last = {self.event_time.cycle}"

    def new_partials(self, select: algebra.Select, id_: NodeId) -> str | None:
        """The new rows of a running aggregate as partials, to be merged into its snapshot."""
        rows = self.emitted(select, id_, 0)
        return running.partials(select, rows, _input_leaf(select)) if rows is not None else None


def _input_leaf(select: algebra.Select) -> Leaf:
    """Columns of the inputs, as t<input>.c<position>."""
    positions = {
        (item.alias, field.name): f"t{index}.{column(position)}"
        for index, item in enumerate(select.inputs)
        for position, field in enumerate(item.source.fields)
    }

    def leaf(expression: algebra.Column | algebra.KeyRef | algebra.AggregateRef | algebra.WindowBound) -> str:
        if not isinstance(expression, algebra.Column):
            raise AssertionError(f"{expression} is not a column of an input")
        return positions[expression.source, expression.name]

    return leaf


def _group_leaf(expression: algebra.Column | algebra.KeyRef | algebra.AggregateRef | algebra.WindowBound) -> str:
    if isinstance(expression, algebra.KeyRef):
        return f"g.k{expression.index}"
    if isinstance(expression, algebra.AggregateRef):
        return f"g.a{expression.index}"
    raise AssertionError(f"{expression} is neither a key nor an aggregate")


def _bounds_leaf(window: algebra.Window, clock: DataType, otherwise: Leaf) -> Leaf:
    """Window bounds from the instance number k; everything else as `otherwise` has it."""

    def leaf(expression: algebra.Column | algebra.KeyRef | algebra.AggregateRef | algebra.WindowBound) -> str:
        if not isinstance(expression, algebra.WindowBound):
            return otherwise(expression)
        ticks = _end(window) if expression.end else f"(k * {window.slide}L + {window.origin}L)"
        return f"timestamp_micros({ticks})" if clock == TIMESTAMP else ticks

    return leaf


def _end(window: algebra.Window) -> str:
    return f"(k * {window.slide}L + {window.origin + (window.range or 0)}L)"


def _outputs(select: algebra.Select, leaf: Leaf) -> str:
    return "".join(f"{spark_sql(each.expression, leaf)} AS {column(i)}, " for i, each in enumerate(select.outputs))


def _where(
    condition: algebra.Expression | None,
    leaf: Callable[[algebra.Column | algebra.KeyRef | algebra.AggregateRef | algebra.WindowBound], str],
) -> str:
    return f" WHERE {spark_sql(condition, leaf)}" if condition is not None else ""


def _named(aggregates: Iterable[str]) -> list[str]:
    return [f"{each} AS a{i}" for i, each in enumerate(aggregates)]


def _grouped(select: algebra.Select, rows: str, by: Sequence[str], more: Sequence[str] = ()) -> str:
    """The groups of some rows, by other columns too, with the aggregates of a select and more of each."""
    leaf = _input_leaf(select)
    keys = [spark_sql(key, leaf) for key in select.keys]
    aggregates = _named(aggregate_sql(each, leaf) for each in select.aggregates)
    listed = ", ".join([*by, *(f"{key} AS k{i}" for i, key in enumerate(keys)), *aggregates, *more])
    group_by = f" GROUP BY {', '.join([*by, *keys])}" if by or keys else ""
    return f"SELECT {listed} FROM {rows}{group_by}"


def _closing_instances(window: algebra.Window, after: Clock, until: int) -> tuple[int | None, int]:
    """The first and last k whose instance ends in (after, until]; no first when there is no `after`."""
    assert window.range is not None
    shift = window.origin + window.range
    first = None if after is None else (after - shift) // window.slide + 1
    return first, (until - shift) // window.slide


def _meeting(select: algebra.Select, clocks: list[str]) -> Iterator[str]:
    """The condition that one instant finds every row inside its window."""
    windowed = [(each.window, clock) for each, clock in zip(select.inputs, clocks, strict=True) if each.window]
    if not windowed:
        return
    bounded = [window for window, _ in windowed if window.range is not None]
    slide, origin = (bounded[0].slide, bounded[0].origin) if bounded else (1, 0)
    latest = f"greatest({', '.join(clock for _, clock in windowed)})" if len(windowed) > 1 else windowed[0][1]
    instant = latest if slide == 1 else f"({latest} + pmod({origin}L - {latest}, {slide}L))"
    for window, clock in windowed:
        if window.range is not None:
            yield f"{instant} < {clock} + {window.range}L"


def _near(select: algebra.Select) -> tuple[str, str] | None:
    """A bucket of time for the rows of each of two inputs: rows that can meet share one, so that they can be hashed.

    If the second clock lies in [first + low, first + high], then the second clock less `low` falls into the first's
    bucket of that width or into the next. The first input's rows stand in both of these, so that a pair meets once.
    """
    if len(select.inputs) != 2:
        return None
    bounds = meeting_bounds(select.inputs, select.where)
    high, opposite = bounds[0][1], bounds[1][0]
    if high is None or opposite is None or high + opposite < 0:
        return None
    width = high + opposite + 1
    first = bucket_sql(CLOCK, width)
    return f"explode(array({first}, {first} + 1L))", bucket_sql(f"{CLOCK} + {opposite}L", width)
