"""Running aggregates: one record per group, which never closes, grows by every cycle's partials, and is answered then.

Queries that take the same rows, group them by the same keys and began in the same cycle have their groups in common: a
**cohort**. Its records are arrays by the number of the key, so that a cycle costs as much as it changes, however many
groups are at rest.

    cycle           1       2       3                 records of a cohort
    a's partials    2               5        →        a: 7, answered in cycles 1 and 3
    b's partials            4                         b: 4, answered in cycle 2

A segment has the groups that a cycle changed: for each cohort a table of keys (`k0`, …) and of its measures' records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weft.algebra import Stream
from weft.arrays.arrow_types import streamed, table_of
from weft.kernels.monoids import settled
from weft.kernels.statistic import Array, Columns
from weft.optimizer.aggregates.stream_shapes import Measure, Woven, latest_clock, rows_counted
from weft.runtime.stages.windows.partials import Partials
from weft.runtime.stages.windows.rollup import GroupKeys, RollUp
from weft.runtime.stages.windows.window_answers import ClosedGroups, GroupSelection
from weft.runtime.state.store import Block, MemoryUse

#: Groups that a cohort has room for at first.
_FEWEST = 64


@dataclass(frozen=True, order=True, slots=True)
class CohortSpec:
    """What identifies a cohort: the keys and conditions of its queries, and the cycle in which they began."""

    keys: tuple[str, ...]
    conditions: tuple[str, ...]
    first_cycle: int


class RunningAggregates:
    """The groups of all running aggregates over a stream. Each query comes with the cycle that it began in."""

    def __init__(
        self, stream: Stream, queries: Mapping[str, tuple[Woven, int]], before: RunningAggregates | None = None
    ) -> None:
        self.stream = stream
        if before is not None and before.stream != stream:
            # Another stream had the name.
            before = None
        self._cohort_of: dict[str, CohortSpec] = {}
        measures: dict[CohortSpec, dict[str, Measure]] = {}
        for name, (each, first_cycle) in queries.items():
            spec = CohortSpec(each.keys, tuple(sorted({one.text for one in each.conditions})), first_cycle)
            self._cohort_of[name] = spec
            measures.setdefault(spec, {}).update((one.name, one) for one in each.all_measures)
        self._cohorts: dict[CohortSpec, _CohortGroups] = {
            spec: _CohortGroups(wanted, before._cohorts.get(spec) if before else None)
            for spec, wanted in measures.items()
        }
        known = before._numbers if before else {}
        self._numbers: dict[tuple[str, ...], GroupKeys] = {
            spec.keys: known.get(spec.keys) or GroupKeys(len(spec.keys)) for spec in self._cohorts
        }
        self._changed: dict[CohortSpec, NDArray[np.int64]] = {}

    def restore(self, blocks: Iterable[bytes]) -> None:
        """Take back what segments have of the groups; of one that is in several, the last counts."""
        for block in blocks:
            for spec, rows in decoded(block):
                groups = self._cohorts.get(spec)
                if groups is not None:
                    keys = [rows[f"k{place}"] for place in range(len(spec.keys))]
                    records = {name: records_in(rows, name) for name in groups.measures}
                    groups.put(self._numbers[spec.keys].numbers(keys, len(rows)), records)

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
        changed: dict[CohortSpec, GroupSelection] = {}
        # As if time were not cut.
        one_slice = np.zeros(1, dtype=np.int64), np.zeros(len(arrived), dtype=np.intp)
        for keys, specs in groupby(sorted(self._cohorts), key=lambda spec: spec.keys):
            numbers = self._numbers[keys].numbers([arrived.key(key) for key in keys], len(arrived))
            rolled = RollUp(arrived, numbers, one_slice)
            for conditions, alike in groupby(specs, key=lambda spec: spec.conditions):
                # Cohorts that differ in when they began take the same rows now.
                cohorts = list(alike)
                measures = {name: each for spec in cohorts for name, each in self._cohorts[spec].measures.items()}
                found = rolled.cohort(conditions, measures)
                if found is not None:
                    for spec in cohorts:
                        self._cohorts[spec].add(found.keys, found.records)
                        self._changed[spec] = found.keys
                        records, keys_found = self._cohorts[spec].of(found.keys), self._numbers[keys].values(found.keys)
                        (clocks,) = records[latest_clock().name]
                        changed[spec] = ClosedGroups(clocks, clocks, keys_found, records).whole
        return {name: changed[spec] for name, spec in self._cohort_of.items() if spec in changed}

    def changed(self) -> Block | None:
        """The groups that the newest cycle changed, with their new records."""
        return self._block(self._changed)

    def whole(self) -> Block | None:
        """All groups."""
        return self._block({spec: groups.present() for spec, groups in self._cohorts.items()})

    def _block(self, numbers: Mapping[CohortSpec, NDArray[np.int64]]) -> Block | None:
        """Some groups, as a segment has them."""
        groups = [
            (spec, self._numbers[spec.keys].values(which), self._cohorts[spec].of(which))
            for spec, which in numbers.items()
            if len(which)
        ]
        return Block(encoded(groups), sum(map(len, numbers.values()))) if groups else None


class _CohortGroups:
    """The records of a cohort, by measure, as arrays by the number of the key; identities where there is no group."""

    def __init__(self, measures: Mapping[str, Measure], before: _CohortGroups | None) -> None:
        self.measures = measures
        # Queries of a cohort began in the same cycle: measures may go, and none can come.
        self._records: dict[str, Columns] = {
            name: before._records[name] if before else measure.statistic.empty(0) for name, measure in measures.items()
        }

    @property
    def _counts(self) -> Array:
        return self._records[rows_counted().name][0]

    def bytes_for(self, keys: int) -> int:
        """About the memory that a number of groups needs."""
        fields = sum(len(measure.statistic.dtypes) for measure in self.measures.values())
        return 8 * fields * max(keys, len(self._counts))

    def present(self) -> NDArray[np.int64]:
        """The numbers of the groups that have rows."""
        return np.flatnonzero(self._counts).astype(np.int64)

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
        room, needed = len(self._counts), int(numbers.max(initial=-1)) + 1
        if needed > room:
            more = max(_FEWEST, needed, room * 3 // 2) - room
            for name, measure in self.measures.items():
                both = zip(self._records[name], measure.statistic.empty(more), strict=True)
                self._records[name] = tuple(np.concatenate(columns) for columns in both)


def encoded(groups: Sequence[tuple[CohortSpec, Sequence[pa.Array], Mapping[str, Columns]]]) -> bytes:
    """Groups of some cohorts as the bytes of a segment: their keys, and the records of their measures."""
    tables = []
    for spec, keys, records in groups:
        columns = {f"k{place}": values for place, values in enumerate(keys)}
        for name, of in records.items():
            # Records are numbers, or text.
            columns |= {
                f"{name} {place}": pa.array(each, pa.string() if each.dtype == object else None)
                for place, each in enumerate(of)
            }
        tables.append((spec, streamed(pa.table(columns), "lz4")))
    return msgspec.msgpack.encode(tables)


def decoded(data: bytes) -> list[tuple[CohortSpec, pa.Table]]:
    """What the bytes of a segment hold."""
    return [(spec, table_of(rows)) for spec, rows in msgspec.msgpack.decode(data, type=list[tuple[CohortSpec, bytes]])]


def records_in(rows: pa.Table, measure: str) -> Columns:
    """The records of a measure in the rows of a segment."""
    columns = (rows[name] for name in rows.column_names if name.rpartition(" ")[0] == measure)
    return tuple(
        np.array(each.to_pylist(), dtype=object) if pa.types.is_string(each.type) else np.asarray(each)
        for each in columns
    )
