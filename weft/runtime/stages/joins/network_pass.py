"""The network in a cycle: groups from the lowest level up, each level in a few Spark jobs.

    level 0   one job      the new rows of all logs that some node may want; rows that are in no log have been taken
    a join    no job       new rows of either side with new rows of the other, by the numbers of their keys
              no job       … with kept rows of the other, as long as the driver has room for them (`lookups.py`)
              one job      … with kept rows that stay where they are: one table of probes, broadcast, and a scan of
                           the kept rows for each group and side
              one job      what of the pairs only Spark can compute, if there is anything
    answers   no job       every select takes the rows of its node

How many queries there are has no part in this. A group whose sides have nothing new does nothing at all. What is kept
of joins for the joins above them is in logs, one for each group, whose rows are labelled with their nodes; all of it
becomes true with the cycle's commit.

A node that is new begins with nothing, which is right for a query that is new. If an older query has come to read it,
because the network was drawn up in another way, or because what was joined with a table went when the table changed,
the pairs of rows that arrived before are put together then. So they are if the node was there for others: what is kept
of its rows is what its readers need, of columns and of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from weft.arrays.arrow_types import to_outside
from weft.arrays.ordinals import Positions
from weft.expressions.spark_expressions import column, spark_type
from weft.plan.event_time import Clock, EventTime
from weft.plan.log_ids import LogId
from weft.predicates.row_matching import RowMatches
from weft.runtime.sinks.sinks import parquet_file
from weft.runtime.spark.rows import ARRIVAL, CLOCK
from weft.runtime.stages.joins import lookups, spark_jobs
from weft.runtime.stages.joins.join_groups import NODES, JoinGroup, needed_since
from weft.runtime.stages.sql.compile import Views
from weft.runtime.state.commits import Commit, FamilyState, Segment
from weft.runtime.state.storage import Storage

_LARGEST = (1 << 63) - 1
#: Above this many kept rows it pays to compile plans, which are the same in every cycle.
_WORTH_COMPILING = 100_000


def _needed(group: JoinGroup) -> dict[int, int]:
    """For each node whose rows joins above look for in later cycles, the first cycle whose rows are seen."""
    return {node: first for node, first in group.awaited_from.items() if node in group.feeding}


@dataclass
class NetworkPass:
    """The network in one cycle: what has been evaluated so far, and what is kept of groups before it and after it."""

    groups: Sequence[JoinGroup]
    jobs: spark_jobs.SparkJobs
    storage: Storage
    last: Commit
    cycle: int
    folder: str
    #: What the driver holds of rows from before this cycle, by group, as of the last commit.
    held: dict[LogId, lookups.JoinIndex]
    #: For each log how many rows come for one of the sample; logs of which nothing is known have none.
    sampling: Mapping[str, int]
    #: How many rows each log got in this cycle, when all have got theirs.
    arrived: Mapping[LogId, int] = field(default_factory=dict)
    #: What is new in each group; nothing for those that have no rows.
    fresh: dict[LogId, lookups.NewRows] = field(default_factory=dict)
    #: Where Spark finds the rows of logs.
    views: Views = field(default_factory=lambda: Views({}, {}))
    #: How the rows of groups are labelled, by group.
    states: dict[LogId, FamilyState] = field(default_factory=dict)
    #: For each group the least clock of rows that later cycles may need; None for all.
    since: dict[LogId, Clock] = field(default_factory=dict)
    #: Pairs of this cycle, and pairs of earlier rows that had to be put together now, by group.
    _added: dict[LogId, list[Segment]] = field(default_factory=dict)
    _made_up: dict[LogId, list[Segment]] = field(default_factory=dict)
    #: What was read in this cycle of rows that the driver should hold.
    _read_again: dict[LogId, lookups.JoinIndex] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def advance(self, settled: frozenset[str], views: Views) -> tuple[set[str], dict[str, pa.Table]]:
        """Evaluate all groups whose logs have got their new rows: the places that are answered, and the answers."""
        self.views = views
        places: set[str] = set()
        answers: dict[str, pa.Table] = {}
        waiting = (each for each in self.groups if each.name not in self._done)
        ready = [each for each in waiting if settled.issuperset(each.legs)]
        # Lower levels come first.
        for level, alike in groupby(ready, lambda each: each.level):
            here = list(alike)
            (self._join if level else self._select)(here)
            for each in here:
                self._done.add(each.name)
                places.update(select.place for select in each.selects)
                answers.update(self._answers(each))
        return places, answers

    def rows_in(self, group: JoinGroup, nodes: Iterable[int]) -> int:
        """How many new rows of a group are in some nodes."""
        fresh = self.fresh.get(group.name)
        return 0 if fresh is None else int(fresh.membership.in_any(nodes).sum())

    def _select(self, groups: Iterable[JoinGroup]) -> None:
        """One pass over the new rows of each log, in one job."""
        new = self.views.new
        named: dict[str, JoinGroup] = {each.name: each for each in groups if each.name in new}
        texts = []
        for name, each in named.items():
            rows = spark_jobs.rows_of_log(each, new[each.name])
            texts.append(spark_jobs.new_rows(each, rows, each.stored, self.sampling.get(name)))
        for name, table in self.jobs.collected(texts).items():
            self._take(named[name], table)

    def take_straight(self, group: JoinGroup, rows: pa.Table, watermark: Clock, is_logged: bool) -> pa.Table | None:
        """Take rows that are in no log, before the cycle comes to the network.

        What comes back, for a log that later cycles read, are the ones that joins may look for.
        """
        self._take(group, spark_jobs.judged(group, rows, watermark, self.cycle))
        if not is_logged:
            return None
        wanted = self.fresh[group.name].membership.in_any(group.feeding)
        return spark_jobs.rows_for_log(group, rows.filter(pa.array(wanted)), watermark, self.cycle)

    def _take(self, group: JoinGroup, table: pa.Table) -> None:
        sample = np.asarray(table[spark_jobs.SAMPLED]) if group.condition else None
        rows = table.drop_columns([spark_jobs.SAMPLED])
        self.fresh[group.name] = lookups.NewRows(rows, group.evaluator.of(rows), sample)

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, groups: Sequence[JoinGroup]) -> None:
        """All joins of one level."""
        for each in groups:
            self.label(each)
        probes = {each: lookups.probes_of(each, self.fresh) for each in groups}
        pairs: dict[JoinGroup, list[pa.Table]] = {each: [] for each in groups}
        for probe, found in self._met([probe for both in probes.values() for probe in both]):
            pairs[probe.group].append(found)
        for each, both in probes.items():
            if len(both) == 2:
                pairs[each].append(lookups.both_new(*both))
        tables = {each: pa.concat_tables(parts) for each, parts in pairs.items() if parts}
        for each, table in self.jobs.with_computed(tables).items():
            membership = self.membership(each, table)
            labelled = self.keep(each, table, membership) if each.feeding else table
            self.fresh[each.name] = lookups.NewRows(labelled, membership)

    def _met(self, probes: Sequence[lookups.JoinProbe]) -> Iterator[tuple[lookups.JoinProbe, pa.Table]]:
        """New rows with the kept rows of the other side that they may meet."""
        yield from self._met_on_executors([probe for probe in probes if probe.group.on_executors])
        for probe in probes:
            held = None if probe.group.on_executors else self.held_rows(probe.other)
            if held is not None:
                yield from ((probe, table) for table in lookups.with_held(probe, held))

    def _met_on_executors(self, probes: Sequence[lookups.JoinProbe]) -> Iterator[tuple[lookups.JoinProbe, pa.Table]]:
        """The same where kept rows stay with the executors, in one job for all probes."""
        asked = [(probe, rows) for probe in probes if (rows := self.before(probe.other)) is not None]
        if not asked:
            return
        view = self.jobs.view(lookups.probe_table([probe for probe, _ in asked]))
        texts = [
            spark_jobs.probed(probe.group, 1 - probe.side, rows, view, lookups.salt(number), str(number))
            for number, (probe, rows) in enumerate(asked)
        ]
        compiled = self.is_worth_compiling(probe.other for probe, _ in asked)
        for name, table in self.jobs.collected(texts, compiled=compiled).items():
            probe, _ = asked[int(name)]
            yield probe, probe.met(np.asarray(table[spark_jobs.ROW]), table)

    def _answers(self, group: JoinGroup) -> Iterator[tuple[str, pa.Table]]:
        """The rows of every select that reads a group, with their clocks."""
        fresh = self.fresh.get(group.name)
        if fresh is None or not group.selects:
            return
        columns = {name: fresh.table[name].combine_chunks() for name in fresh.table.column_names}
        clocks = pa.array(lookups.clocks_of(fresh.table, len(group.legs)))
        arrivals = np.asarray(fresh.table[ARRIVAL])
        earliest = int(arrivals.min(initial=_LARGEST))
        rows_of: dict[int, Positions] = {}
        for select in group.selects:
            if select.node not in rows_of:
                rows_of[select.node] = fresh.membership.rows(select.node)
            rows = rows_of[select.node]
            if select.first > earliest:
                rows = rows[arrivals[rows] >= select.first]
            if len(rows):
                taken = pa.array(rows)
                arrays = [to_outside(columns[name].take(taken), output.type) for output, name in select.outputs]
                names = [*map(column, range(len(arrays))), CLOCK]
                yield select.place, pa.table([*arrays, clocks.take(taken)], names=names)

    # -- rows from before this cycle ----------------------------------------------------------------------------------

    def before(self, group: JoinGroup) -> str | None:
        """The rows of a group from before this cycle, as a select; None if there are none."""
        name = group.name
        if not group.sides:
            return spark_jobs.rows_of_log(group, self.views.old[name]) if name in self.views.old else None
        segments = self._segments(name)
        if not segments:
            return None
        listed = ", ".join(name for name, _ in group.stored)
        return f"SELECT {listed} FROM {self.jobs.registered(self.read(group, segments))}"

    def _segments(self, name: LogId) -> list[Segment]:
        return [*self.last.logs.get(name, ()), *self._made_up.get(name, ())]

    def is_worth_compiling(self, groups: Iterable[JoinGroup]) -> bool:
        """Whether enough rows of some groups are kept for compiling the plans that read them."""
        logs = {each.name for each in groups}
        return sum(segment.rows for log in logs for segment in self._segments(log)) > _WORTH_COMPILING

    def read(self, group: JoinGroup, segments: Iterable[Segment]) -> DataFrame:
        """Kept rows of a joined group. Columns that were not needed when a row was kept are NULL."""
        schema = ", ".join(f"{name} {spark_type(type_)}" for name, type_ in group.stored)
        return self.jobs.spark.read.schema(schema).parquet(*(self.storage.path(each.path) for each in segments))

    def held_rows(self, group: JoinGroup) -> lookups.JoinIndex | None:
        """What the driver holds of a group, read again if it does not hold all that is needed; None for nothing."""
        name, needed = group.name, _needed(group)
        for known in (self._read_again, self.held):
            if name in known and known[name].covers(needed, self.cycle):
                return known[name]
        rows = self.before(group)
        if rows is None or lookups.JoinIndex({}).covers(needed, self.cycle):
            return None
        self._read_again[name] = held = lookups.JoinIndex(needed)
        compiled = self.is_worth_compiling([group])
        table = self.jobs.collected([spark_jobs.all_rows(group, rows)], compiled=compiled).get(name)
        if table is not None:
            table = self.jobs.with_computed({group: table})[group]
            if not group.sides:
                table = table.filter(pa.array(group.evaluator.of(table).in_any(needed)))
            held.add(table, lookups.clocks_of(table, len(group.legs)))
        return held

    def labels(self, group: JoinGroup) -> dict[int, str]:
        """The labels of the nodes of a joined group that joins above read."""
        return self.states[group.name].labels_by_node if group.sides and group.feeding else {}

    def membership(self, group: JoinGroup, table: pa.Table) -> RowMatches:
        """Which rows of a join are in which nodes, their parents being labelled."""
        parents: dict[int, str] = {}
        for side in group.sides:
            parents |= self.labels(side)
        return group.evaluator.of(table, parents)

    def label(self, group: JoinGroup) -> None:
        """Settle how the nodes of a group are labelled in its log, and make up for rows that are not in it."""
        if not group.feeding:
            return
        name = group.name
        state = self.last.network.get(name, FamilyState(group.legs, {}))
        labels: dict[str, tuple[int, int]] = {}
        missing: dict[int, str] = {}
        needed = _needed(group)
        for node in group.feeding:
            if node not in needed:
                # Joins of this cycle read its rows; no later ones do, and they are not kept.
                labels[str(node)] = (self.cycle, self.cycle + 1)
                continue
            first = needed[node]
            known = state.labels.get(str(node))
            # The selects that need rows of the node from before this cycle.
            older = {place for place, since in group.readers[node].items() if since < self.cycle}
            if known is not None and known[1] <= first and older.issubset(state.readers.get(str(node), ())):
                labels[str(node)] = known
                continue
            labels[str(node)] = (self.cycle, min(first, self.cycle))
            if first < self.cycle:
                missing[node] = f"{node}.{self.cycle}"
        readers = {str(node): tuple(group.readers[node]) for node in group.feeding}
        self.states[name] = FamilyState(group.legs, labels, readers)
        if missing:
            # What the driver holds has the labels of before.
            self.held.pop(name, None)
            self._make_up(group, missing)

    def _make_up(self, group: JoinGroup, missing: Mapping[int, str]) -> None:
        """Put together the pairs of kept rows that are in some nodes."""
        left, right = (self.before(side) for side in group.sides)
        if left is None or right is None:
            return
        compiled = self.is_worth_compiling(group.sides)
        found = self.jobs.collected([spark_jobs.met_before(group, left, right)], compiled=compiled)
        if not found:
            return
        (table,) = found.values()
        sides = [
            pa.table({name: table[f"{alias}_{name}"] for name, _ in spark_jobs.side_columns(group, side)})
            for side, alias in enumerate("lr")
        ]
        table = self.jobs.with_computed({group: lookups.pairs_of(group, *sides)})[group]
        self.keep(group, table, self.membership(group, table), missing)

    def keep(
        self, group: JoinGroup, table: pa.Table, membership: RowMatches, made_up: Mapping[int, str] | None = None
    ) -> pa.Table:
        """Keep the rows of a joined group that joins above will look for; all rows, labelled.

        They are new, or those of nodes that are `made_up`, with their labels.
        """
        labels, segments = (self.labels(group), self._added) if made_up is None else (made_up, self._made_up)
        labelled = table.append_column(NODES, membership.labels(labels))
        rows = labelled.filter(pa.array(membership.in_any(labels.keys() & _needed(group).keys())))
        if rows.num_rows:
            files = sum(map(len, (*self._added.values(), *self._made_up.values())))
            path = f"{self.folder}/network-{files}.parquet"
            self.storage.write_bytes(path, parquet_file(rows.select([name for name, _ in group.stored])))
            clocks = lookups.clocks_of(rows, len(group.legs))
            segment = Segment(path, rows.num_rows, int(clocks.min()), int(clocks.max()))
            segments.setdefault(group.name, []).append(segment)
        return labelled

    def live(self, event_time: EventTime) -> Iterator[tuple[JoinGroup, list[Segment]]]:
        """The segments of each group that later cycles may need."""
        self.since = {each.name: needed_since(each.reach, event_time) for each in self.groups}
        for each in self.groups:
            if each.feeding and each.sides:
                since = self.since[each.name]
                segments = [*self._segments(each.name), *self._added.get(each.name, ())]
                yield each, [s for s in segments if since is None or s.max_clock is None or s.max_clock >= since]

    def hold(self) -> None:
        """Hold the rows of this cycle as well, now that it is committed."""
        before = {**self.held, **self._read_again}
        self.held.clear()
        for each in self.groups:
            name, needed = each.name, _needed(each)
            held = before.get(name, lookups.JoinIndex({}))
            is_whole = held.covers(needed, self.cycle) or not self._segments(name)
            if not needed or each.on_executors or not is_whole:
                # What lacks rows will be read when a kept row is looked for.
                continue
            held.since = {node: min(first, self.cycle) for node, first in needed.items()}
            if name in self.fresh:
                fresh = self.fresh[name]
                rows = fresh.table.filter(pa.array(fresh.membership.in_any(needed)))
                held.add(rows, lookups.clocks_of(rows, len(each.legs)))
            held.expire(self.since.get(name))
            self.held[name] = held
