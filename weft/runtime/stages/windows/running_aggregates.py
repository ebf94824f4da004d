"""Running aggregates: one record per group, which never closes, grows by every cycle's partials, and is answered then.

Queries that take the same rows, group them by the same keys and began in the same cycle have their groups in common: a
**cohort**. Its records are arrays by the number of the key, so that a cycle costs as much as it changes, however many
groups are at rest.

    cycle           1       2       3                 records of a cohort
    a's partials    2               5        →        a: 7, answered in cycles 1 and 3
    b's partials            4                         b: 4, answered in cycle 2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import Stream
from weft.kernels.monoids import settled
from weft.kernels.statistic import Columns
from weft.plan.log_ids import LogId
from weft.runtime.stages.windows.partials import SLICE, Partials
from weft.runtime.stages.windows.rollup import GroupKeys, RollUp
from weft.runtime.stages.windows.total_files import CohortRows, CohortSpec, decoded, encoded
from weft.runtime.stages.windows.window_answers import ClosedGroups, GroupSelection
from weft.runtime.stages.windows.woven_queries import Measure, Woven, latest_clock, rows_counted
from weft.runtime.state.commits import Commit
from weft.runtime.state.keyed_state import Order
from weft.runtime.state.memory import MemoryUse
from weft.runtime.state.store import Block

#: Groups that a cohort has room for at first.
_FEWEST = 64


class RunningAggregates:
    """The groups of all running aggregates over a stream. `first_cycles` are the cycles in which the queries began."""

    def __init__(
        self,
        stream: Stream,
        queries: Mapping[str, Woven],
        first_cycles: Mapping[str, int],
        before: RunningAggregates | None = None,
    ) -> None:
        self.stream = stream
        self.queries = dict(queries)
        self._numbers: dict[tuple[str, ...], GroupKeys] = dict(before._numbers) if before else {}
        self._cohort_of = {name: _cohort(each, first_cycles[name]) for name, each in queries.items()}
        measures: dict[CohortSpec, dict[str, Measure]] = {}
        for name, each in queries.items():
            measures.setdefault(self._cohort_of[name], {}).update((one.name, one) for one in each.all_measures)
        self._cohorts: dict[CohortSpec, _CohortGroups] = {}
        for spec, wanted in measures.items():
            known = before._cohorts.get(spec) if before else None
            # Queries of a cohort began in the same cycle: measures may go, and none can come.
            self._cohorts[spec] = known.limited_to(wanted) if known else _CohortGroups(wanted)
            self._numbers.setdefault(spec.keys, GroupKeys(len(spec.keys)))
        self._numbers = {spec.keys: self._numbers[spec.keys] for spec in self._cohorts}
        self._changed: dict[CohortSpec, NDArray[np.int64]] = {}

    def restore(self, blocks: Iterable[bytes]) -> None:
        """Take back what segments have of the groups; of one that is in several, the last counts."""
        for block in blocks:
            for spec, rows in decoded(block):
                groups = self._cohorts.get(spec)
                if groups is not None:
                    groups.put(self._numbers[spec.keys].numbers(rows.keys, len(rows)), rows.records)

    def memory(self, arrived: Partials | None = None) -> MemoryUse:
        """What the groups take, once they have taken in some partials; keys that are new are counted like records."""
        keys = {
            each: len(numbers) + (arrived.number_of_keys(each) if arrived is not None and each else 0)
            for each, numbers in self._numbers.items()
        }
        needed = {spec: groups.bytes_for(keys[spec.keys]) for spec, groups in self._cohorts.items()}
        dictionaries = {
            each: numbers.bytes_held * keys[each] // max(1, len(numbers)) for each, numbers in self._numbers.items()
        }
        largest = max(needed, key=lambda spec: needed[spec] + dictionaries[spec.keys], default=None)
        return MemoryUse(
            f"the groups of stream '{self.stream.name}' that never close",
            sum(needed.values()) + sum(dictionaries.values()),
            0 if largest is None else needed[largest] + dictionaries[largest.keys],
            tuple(name for name, spec in self._cohort_of.items() if spec == largest),
            "or give queries over many keys a window",
        )

    def take(self, arrived: Partials | None) -> dict[str, GroupSelection]:
        """Take in a cycle's partials: for each query the groups that got a row, if there are any."""
        self._changed = {}
        if arrived is None or not len(arrived):
            return {}
        timeless = _of_one_cell(arrived)
        changed: dict[CohortSpec, GroupSelection] = {}
        for keys, specs in groupby(sorted(self._cohorts, key=_grouping), key=lambda spec: spec.keys):
            columns = [timeless.key(key) for key in keys]
            rolled = RollUp(timeless, self._numbers[keys].numbers(columns, len(timeless)))
            for conditions, alike in groupby(specs, key=lambda spec: spec.conditions):
                # Cohorts that differ in when they began take the same rows now.
                cohorts = list(alike)
                measures = {name: each for spec in cohorts for name, each in self._cohorts[spec].measures.items()}
                found = rolled.cohort(conditions, measures, rows_counted().name)
                if found is not None:
                    for spec in cohorts:
                        self._cohorts[spec].add(found.keys, found.records)
                        self._changed[spec] = found.keys
                        changed[spec] = self._answered(spec, found.keys)
        return {name: changed[spec] for name, spec in self._cohort_of.items() if spec in changed}

    def _answered(self, spec: CohortSpec, numbers: NDArray[np.int64]) -> GroupSelection:
        records = self._cohorts[spec].of(numbers)
        (clocks,) = records[latest_clock().name]
        return GroupSelection(
            ClosedGroups(clocks, clocks, self._numbers[spec.keys].values(numbers), records), 0, len(clocks)
        )

    def changed(self) -> Block | None:
        """The groups that the newest cycle changed, with their new records."""
        return self._block(self._changed)

    def whole(self) -> Block | None:
        """All groups."""
        return self._block({spec: groups.present() for spec, groups in self._cohorts.items()})

    def _block(self, numbers: Mapping[CohortSpec, NDArray[np.int64]]) -> Block | None:
        """Some groups, as a segment has them."""
        cohorts = tuple(
            (spec, CohortRows(self._numbers[spec.keys].values(which), self._cohorts[spec].of(which)))
            for spec, which in numbers.items()
            if len(which)
        )
        return Block(encoded(cohorts), sum(len(rows) for _, rows in cohorts)) if cohorts else None


@dataclass
class _CohortGroups:
    """The records of a cohort, by measure, as arrays by the number of the key; identities where there is no group."""

    measures: Mapping[str, Measure]

    def __post_init__(self) -> None:
        self._room = 0
        self._records: dict[str, Columns] = {
            name: measure.statistic.empty(0) for name, measure in self.measures.items()
        }

    def limited_to(self, measures: Mapping[str, Measure]) -> _CohortGroups:
        """The same groups without the measures that no query needs any more."""
        limited = _CohortGroups(measures)
        limited._room, limited._records = self._room, {name: self._records[name] for name in measures}
        return limited

    def bytes_for(self, keys: int) -> int:
        """About the memory that a number of groups needs."""
        fields = sum(len(measure.statistic.fields) for measure in self.measures.values())
        return 8 * fields * max(keys, self._room)

    def present(self) -> NDArray[np.int64]:
        """The numbers of the groups that have rows."""
        return np.flatnonzero(self._records[rows_counted().name][0]).astype(np.int64)

    def of(self, numbers: NDArray[np.int64]) -> dict[str, Columns]:
        """The records of some groups."""
        return {name: tuple(column[numbers] for column in columns) for name, columns in self._records.items()}

    def put(self, numbers: NDArray[np.int64], records: Mapping[str, Columns]) -> None:
        """Make these the records of some groups."""
        self._make_room(numbers)
        for name, columns in self._records.items():
            for into, values in zip(columns, records[name], strict=True):
                into[numbers] = values

    def add(self, numbers: NDArray[np.int64], records: Mapping[str, Columns]) -> None:
        """Combine records into those of some groups, each named once."""
        self._make_room(numbers)
        known = self.of(numbers)
        grown = {
            name: settled(measure.statistic, measure.statistic.combine(known[name], records[name]))
            for name, measure in self.measures.items()
        }
        self.put(numbers, grown)

    def _make_room(self, numbers: NDArray[np.int64]) -> None:
        needed = int(numbers.max()) + 1 if len(numbers) else 0
        if needed <= self._room:
            return
        room = max(_FEWEST, needed, self._room * 3 // 2)
        for name, measure in self.measures.items():
            wider = measure.statistic.empty(room)
            for into, values in zip(wider, self._records[name], strict=True):
                into[: self._room] = values
            self._records[name] = wider
        self._room = room


def _cohort(query: Woven, first_cycle: int) -> CohortSpec:
    return CohortSpec(tuple(sorted({each.text for each in query.conditions})), query.keys, first_cycle)


def _grouping(spec: CohortSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return spec.keys, spec.conditions


def _of_one_cell(partials: Partials) -> Partials:
    """Partials as if time were not cut, for queries without windows."""
    column = partials.table.column_names.index(SLICE)
    return replace(
        partials, table=partials.table.set_column(column, SLICE, pa.array(np.zeros(len(partials), np.int64)))
    )


def order_of(
    stream: Stream, log: LogId, queries: Mapping[str, tuple[Woven, int]], last: Commit
) -> Order[RunningAggregates]:
    """The order for the groups of some queries over a log, each with the cycle that it began in."""
    shapes = {name: shape for name, (shape, _) in queries.items()}
    first_cycles = {name: first for name, (_, first) in queries.items()}

    def make(known: RunningAggregates | None) -> RunningAggregates:
        # Another stream may have had the name.
        same = known if known is not None and known.stream == stream else None
        return RunningAggregates(stream, shapes, first_cycles, same)

    name = LogId.running(log)
    return Order(name, tuple(last.logs.get(name, ())), make)
