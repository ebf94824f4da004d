"""The network in a cycle: groups from the lowest level up, each level in a few Spark jobs.

    level 0   one job      the new rows of all logs that some node may want; rows that are in no log have been taken
    a join    no job       new rows of either side with new rows of the other, by the numbers of their keys
              no job       … with kept rows of the other, as long as the driver has room for them (`lookups.py`)
              one job      … with kept rows that stay where they are: one table of probes, broadcast, and a scan of
                           the kept rows for each group and side
              one job      what of the pairs only Spark can compute, if there is anything
    answers   no job       every select takes the rows of its node

How many queries there are has no part in this. A group whose sides have nothing new does nothing at all. What is kept
of joins for the joins above them is in logs, like the rows of streams; all of it becomes true with the cycle's commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from weft.arrays.arrow_types import to_outside
from weft.arrays.ordinals import Positions
from weft.plan.event_time import Clock
from weft.plan.log_ids import LogId
from weft.runtime.columnar.packed_selects import Packed
from weft.runtime.columnar.rows import ARRIVAL, CLOCK, column
from weft.runtime.stages.joins.join_state import JoinState
from weft.runtime.stages.joins.lookups import (
    JoinProbe,
    NewRows,
    both_new,
    clocks_of,
    probe_table,
    probes_of,
    salt,
    with_held,
)
from weft.runtime.stages.joins.prepared import PreparedGroup, SelectOutput
from weft.runtime.stages.joins.spark_jobs import (
    ROW,
    SAMPLED,
    SparkJobs,
    judged,
    new_rows,
    probed,
    rows_for_log,
    straight_rows,
)
from weft.runtime.stages.sql.compile import Views

_LARGEST = (1 << 63) - 1


@dataclass
class NetworkPass:
    """The network in one cycle: what has been evaluated so far, and what is to be kept of it."""

    groups: Sequence[PreparedGroup]
    jobs: SparkJobs
    state: JoinState
    #: For each log how many rows come for one of the sample; logs of which nothing is known have none.
    sampling: Mapping[str, int] = field(default_factory=dict)
    #: How many rows each log got in this cycle, when all have got theirs.
    arrived: Mapping[LogId, int] = field(default_factory=dict)
    #: What is new in each group; nothing for those that have no rows.
    fresh: dict[LogId, NewRows] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)

    def advance(self, settled: frozenset[str], views: Views) -> tuple[set[str], dict[str, pa.Table]]:
        """Evaluate all groups whose logs have got their new rows: the places that are answered, and the answers."""
        self.state.views = views
        places: set[str] = set()
        answers: dict[str, pa.Table] = {}
        ready = [each for each in self.groups if self._is_ready(each, settled)]
        for level in sorted({each.group.level for each in ready}):
            here = [each for each in ready if each.group.level == level]
            if level:
                self._join(here)
            else:
                self._select(here)
            for each in here:
                self._done.add(each.group.name)
                places.update(select.place for select in each.selects)
                answers.update(self._answers(each))
        return places, answers

    def _is_ready(self, prepared: PreparedGroup, settled: frozenset[str]) -> bool:
        return prepared.group.name not in self._done and settled.issuperset(prepared.group.legs)

    def hold(self) -> None:
        """Hold the rows of this cycle in the driver, now that it is committed."""
        self.state.hold(self.groups, self.fresh)

    # -- selections ---------------------------------------------------------------------------------------------------

    def _select(self, groups: Iterable[PreparedGroup]) -> None:
        """One pass over the new rows of each log, in one job."""
        named, new = {each.group.name: each for each in groups}, self.state.views.new
        texts = [new_rows(each, new[name], self.sampling.get(name)) for name, each in named.items() if name in new]
        found = self.jobs.collected(texts)
        for name, each in named.items():
            if name in found:
                self._take(each, found[name])

    def asked_straight(self, rows: Mapping[LogId, str], logged: Collection[LogId]) -> list[Packed]:
        """What is asked for of rows that are in no log yet; `rows` has selects of them, with their clocks, by log."""
        named = {each.group.name: each for each in self.groups if each.group.name in rows}
        return [
            straight_rows(each, rows[name], self.sampling.get(name), kept=name in logged)
            for name, each in named.items()
        ]

    def take_straight(
        self, found: Mapping[LogId, tuple[pa.Table, Clock]], logged: Collection[LogId]
    ) -> dict[LogId, pa.Table]:
        """Take what was found, each with the watermark that it is judged by, before the cycle comes to the network.

        What comes back are the rows for logs, of each log the ones that joins may look for.
        """
        kept = {}
        for each in self.groups:
            name = each.group.name
            if name in found:
                rows, watermark = found[name]
                self._take(each, judged(each, rows, watermark, self.state.cycle))
                if name in logged:
                    wanted = rows.filter(pa.array(self.fresh[name].membership.in_any(each.group.feeding)))
                    kept[name] = rows_for_log(each, wanted, watermark, self.state.cycle)
        return kept

    def _take(self, prepared: PreparedGroup, table: pa.Table) -> None:
        sample = np.asarray(table[SAMPLED]) if prepared.condition else None
        rows = table.drop_columns([SAMPLED])
        self.fresh[prepared.group.name] = NewRows(rows, prepared.evaluator.of(rows), sample)

    # -- joins --------------------------------------------------------------------------------------------------------

    def _join(self, groups: Sequence[PreparedGroup]) -> None:
        """All joins of one level."""
        for each in groups:
            self.state.label(each)
        probes = {each: probes_of(each, self.fresh) for each in groups}
        pairs: dict[PreparedGroup, list[pa.Table]] = {each: [] for each in groups}
        for probe, found in self._met([probe for both in probes.values() for probe in both]):
            pairs[probe.prepared].append(found)
        for each, both in probes.items():
            if len(both) == 2:
                pairs[each].append(both_new(*both))
        tables = {each: pa.concat_tables(parts) for each, parts in pairs.items() if parts}
        for each, table in self.jobs.with_computed(tables).items():
            membership = self.state.membership(each, table)
            labelled = self.state.keep(each, table, membership) if each.group.feeding else table
            self.fresh[each.group.name] = NewRows(labelled, membership)

    def _met(self, probes: Sequence[JoinProbe]) -> Iterator[tuple[JoinProbe, pa.Table]]:
        """New rows with the kept rows of the other side that they may meet."""
        there = [probe for probe in probes if probe.prepared.on_executors]
        yield from self._met_on_executors(there)
        for probe in probes:
            held = None if probe.prepared.on_executors else self.state.held_rows(probe.other)
            if held is not None:
                for table in with_held(probe, held):
                    yield probe, table

    def _met_on_executors(
        self,
        probes: Sequence[JoinProbe],
    ) -> Iterator[tuple[JoinProbe, pa.Table]]:
        """The same where kept rows stay with the executors, in one job for all probes."""
        asked = [(probe, rows) for probe in probes if (rows := self.state.before(probe.other)) is not None]
        if not asked:
            return
        view = self.jobs.view(probe_table([probe for probe, _ in asked]))
        texts = [
            probed(probe.prepared, 1 - probe.side, rows, view, salt(number), str(number))
            for number, (probe, rows) in enumerate(asked)
        ]
        compiled = self.state.is_worth_compiling(probe.other for probe, _ in asked)
        for name, table in self.jobs.collected(texts, compiled=compiled).items():
            probe, _ = asked[int(name)]
            yield probe, probe.met(np.asarray(table[ROW]), table)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answers(self, prepared: PreparedGroup) -> Iterator[tuple[str, pa.Table]]:
        """The rows of every select that reads a group, with their clocks."""
        fresh = self.fresh.get(prepared.group.name)
        if fresh is None or not prepared.selects:
            return
        columns = {name: fresh.table[name].combine_chunks() for name in fresh.table.column_names}
        clocks = pa.array(clocks_of(fresh.table, len(prepared.group.legs)))
        arrivals = np.asarray(fresh.table[ARRIVAL])
        earliest = int(arrivals.min(initial=_LARGEST))
        rows_of: dict[int, Positions] = {}
        for select in prepared.selects:
            if select.node not in rows_of:
                rows_of[select.node] = fresh.membership.rows(select.node)
            rows = rows_of[select.node]
            if select.first > earliest:
                rows = rows[arrivals[rows] >= select.first]
            if len(rows):
                yield select.place, _answer(select, pa.array(rows), columns, clocks)


def _answer(select: SelectOutput, rows: pa.Array, columns: Mapping[str, pa.Array], clocks: pa.Array) -> pa.Table:
    arrays = [to_outside(columns[name].take(rows), output.type) for output, name in select.outputs]
    return pa.table([*arrays, clocks.take(rows)], names=[*map(column, range(len(arrays))), CLOCK])
