"""Delivery while an engine runs: members come and go between cycles, rows go out with each of them.

    before a cycle       members are grouped, representatives begin and end (`assignment.py`)
    before its commit    what representatives answered is written to the log, with the itineraries that changed
    after it             readers see it

A project without members has no log, and nothing of this costs it anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from weft.algebra import Column, Relation, Select, Stream, Table, Value
from weft.algebra.relations import WINDOW_END
from weft.catalog import Catalog
from weft.delivery.assignment import Assignment, RunningEpoch, forget_all
from weft.delivery.delivery_errors import DeliveryError
from weft.delivery.delivery_log import Limits, clear, cycles, delivery_directory
from weft.delivery.itinerary import from_json
from weft.delivery.nats_broker import NatsBroker
from weft.delivery.parcel import Message
from weft.delivery.publisher import Publisher, open_publisher
from weft.optimizer.group_results import TrafficStatistics
from weft.plan.event_time import EventTime
from weft.runtime.engine import Engine
from weft.runtime.sinks.publishing import PublishedRows
from weft.runtime.stages.statistics import measured, rates
from weft.runtime.state.commits import Commit


class Control:
    """What an engine's answers to subscribers go through. `say` is given sentences for people."""

    def __init__(self, catalog: Catalog, say: Callable[[str], None] = lambda sentence: None) -> None:
        self._catalog = catalog
        self._say = say
        self._assignment: Assignment | None = None
        self._publisher: Publisher | None = None
        #: Whether the log is a new one, and its first parcel must have all itineraries.
        self._lacks_routes = False
        self._observed = PublishedStatistics()
        self._next_round = time.monotonic() + self._catalog.settings().delivery_every / 1e6

    def settle(self, last: Commit) -> None:
        """Group the members for the cycle after `last`."""
        if self._assignment is None and not self._catalog.members() and not self._catalog.deliveries.itineraries():
            return
        assignment = self._opened(last)
        due = time.monotonic() >= self._next_round
        statistics = self._statistics() if due else None
        if due:
            self._next_round = time.monotonic() + self._catalog.settings().delivery_every / 1e6
        numbers = self._catalog.stream_numbers()
        largest = {name: state.largest for name, state in last.streams.items() if numbers.get(name) == state.number}
        assignment.settle(EventTime(last.cycle + 1, largest, largest, {}), statistics)

    def wait_for_room(self) -> None:
        if self._publisher is not None:
            self._publisher.wait_for_room()

    def write(self, cycle: int, published: Sequence[PublishedRows]) -> None:
        """Keep what a cycle publishes until it is committed."""
        if self._assignment is None:
            return
        assert self._publisher is not None
        rows = [each for one in sorted(published, key=lambda one: one.part) for each in self._as_published(one)]
        changed = self._catalog.deliveries.changed_in(cycle)
        if not self._lacks_routes:
            self._publisher.write(cycle, rows, [from_json(each.document) for each in changed])
            return
        known = {each.number: each for each in (*self._catalog.deliveries.itineraries(), *changed)}
        routes = [replace(from_json(each.document), complete_from=cycle) for each in known.values()]
        self._publisher.write(cycle, rows, routes)

    def committed(self, cycle: int) -> None:
        if self._publisher is not None:
            self._publisher.committed(cycle)
            self._lacks_routes = False
            self._catalog.deliveries.delete_ended(before=cycle)

    def close(self) -> None:
        """Let go; what a broker has not taken yet waits for the next start."""
        if self._publisher is not None:
            self._publisher.close()

    def attach(self, engine: Engine) -> None:
        """Publish what an engine answers to subscribers."""
        engine.publisher, engine.before_cycle = self, lambda: self.settle(engine.last)
        if self._catalog.members() or self._catalog.deliveries.itineraries():
            # A cycle that was begun goes on as it was decided on.
            self._opened(engine.last)

    # -----------------------------------------------------------------------------------------------------------------

    def _opened(self, last: Commit) -> Assignment:
        if self._assignment is not None:
            return self._assignment
        directory = delivery_directory(self._catalog.path.parent)
        if _state_was_removed(self._catalog, directory, last):
            forget_all(self._catalog)
            clear(directory)
        self._publisher, self._lacks_routes = open_publisher(
            directory, self._publisher_of, lambda publisher: self._is_whole(publisher, last), last.cycle, self._say
        )
        delay = self._catalog.settings().delivery_delay
        is_told = self._catalog.settings().broker is None
        self._assignment = Assignment(self._catalog, self._statistics(), delay, is_told)
        return self._assignment

    def _is_whole(self, publisher: Publisher, last: Commit) -> bool:
        """Whether a log has the itineraries of all that was published."""
        publisher.committed(last.cycle)
        published = [each for each in self._catalog.deliveries.itineraries() if each.cycle <= last.cycle]
        return all(from_json(each.document).query in publisher.log.routes() for each in published)

    def _publisher_of(self, directory: Path, begins_after: int | None) -> Publisher:
        most = self._catalog.settings().max_delivery
        limits = Limits(bytes=most, waiting_bytes=most)
        broker, project = _broker(self._catalog), self._catalog.project
        return Publisher(directory, project, limits=limits, broker=broker, say=self._say, begins_after=begins_after)

    def _as_published(self, part: PublishedRows) -> Iterator[Message]:
        """The rows of one part of an epoch, without those that another part before it publishes."""
        assert self._assignment is not None
        if (rows := part.rows) is None or not rows.num_rows:
            return
        if (running := self._assignment.epochs.get((part.stream, part.epoch))) is not None:
            self._observed.rows(running.relation, rows)
            rows = _without_others(rows, part.part, running)
        yield Message(part.stream, part.epoch, rows, part.watermark)

    def _statistics(self) -> TrafficStatistics:
        """What is known of streams and columns when members are grouped."""
        return self._observed.statistics({name: float(rate) for name, rate in rates(measured(self._catalog)).items()})


def _without_others(rows: pa.Table, part: int, running: RunningEpoch) -> pa.Table:
    """The rows of window instances that no part before this one answers."""
    earlier = [ends for ends in running.ends[:part] if ends is not None]
    if not earlier:
        return rows
    ends = rows[WINDOW_END].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)
    own = np.ones(len(ends), dtype=bool)
    for modulus, residue in earlier:
        own &= ends % modulus != residue
    return rows.filter(pa.array(own))


def _state_was_removed(catalog: Catalog, directory: Path, last: Commit) -> bool:
    """Whether what is kept was made before the project's state was removed, and cycles counted from the start again."""
    changed = (each.cycle > last.cycle + 1 for each in catalog.deliveries.itineraries())
    return any(changed) or any(cycle > last.cycle for cycle in cycles(directory))


def _broker(catalog: Catalog) -> NatsBroker | None:
    """The broker that a project's rows are forwarded to; none unless it is set."""
    address = catalog.settings().broker
    if address is None:
        return None
    if address.startswith("nats://"):
        return NatsBroker(address, catalog.project, grants=delivery_directory(catalog.path.parent))
    raise DeliveryError(f"broker '{address}' is of no known kind; SET broker = 'nats://host:port', or 'none'")


# -- statistics of published rows -------------------------------------------------------------------------------------

#: Rows of a stream that are remembered.
_SAMPLE: Final = 1024


@dataclass
class PublishedStatistics:
    """The newest widths and values of published rows, by "stream.column": groups are decided by them from then on.

    These are rows that representatives answer, not all of a stream: but what lies outside of all members' conditions
    makes no difference between them.
    """

    widths: dict[str, float] = field(default_factory=dict)
    _values: dict[str, dict[str, list[Value]]] = field(default_factory=dict)

    def rows(self, relation: Relation, rows: pa.Table) -> None:
        """See what a representative answered: the columns that it shows as they are."""
        if not isinstance(relation, Select) or relation.is_grouped:
            return
        sources = {each.alias: each.source.name for each in relation.inputs if isinstance(each.source, Stream | Table)}
        of_stream: dict[str, dict[str, pa.ChunkedArray]] = {}
        for each in relation.outputs:
            shown, column = each.expression, rows[each.name] if each.name in rows.column_names else None
            if isinstance(shown, Column) and shown.source in sources and column is not None:
                stream = sources[shown.source]
                self.widths[f"{stream}.{shown.name}"] = column.nbytes / rows.num_rows
                of_stream.setdefault(stream, {})[f"{stream}.{shown.name}"] = column
        every = -(-rows.num_rows // _SAMPLE)
        for stream, columns in of_stream.items():
            # The representative that shows most of a stream is the one to learn from.
            if len(columns) >= len(self._values.get(stream, {})):
                self._values[stream] = {
                    key: plain for key, column in columns.items() if (plain := _plain(column, every)) is not None
                }

    def statistics(self, rates: Mapping[str, float]) -> TrafficStatistics:
        """All that is known when members are grouped."""
        values = {key: found for columns in self._values.values() for key, found in columns.items()}
        return TrafficStatistics(rates, dict(self.widths), values)


def _plain(column: pa.ChunkedArray, every: int) -> list[Value] | None:
    """Some values of a column, as constants have them; None if some are NULL or have no such form."""
    if column.null_count:
        return None
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_kind(column.type) for is_kind in kinds):
        return None
    found: list[Any] = column.combine_chunks()[::every].to_pylist()
    return found
