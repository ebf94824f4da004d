"""Delivery while an engine runs: members come and go between cycles, rows go out with each of them.

    before a cycle       members are grouped, representatives begin and end (`assignment.py`)
    before its commit    what representatives answered is written to the log, with the itineraries that changed
    after it             readers see it

A project without members has no log, and nothing of this costs it anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from weft.algebra.relations import WINDOW_END
from weft.catalog import Catalog
from weft.delivery.groups.assignment import Assignment, forget_all
from weft.delivery.groups.epochs import Moment, RunningEpoch
from weft.delivery.groups.published_statistics import PublishedStatistics
from weft.delivery.log.delivery_errors import DeliveryError
from weft.delivery.log.delivery_log import Limits, clear, cycles, delivery_directory
from weft.delivery.log.itinerary import from_json
from weft.delivery.log.publisher import Broker, Published, Publisher, open_publisher
from weft.optimizer.group_results import TrafficStatistics
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
        assignment.settle(Moment(last.cycle + 1, largest), statistics)

    def regroup(self) -> None:
        """Ask before the next cycle whether groups still pay, and not only when it is time to."""
        self._next_round = 0.0

    def wait_for_room(self) -> None:
        if self._publisher is not None:
            self._publisher.wait_for_room()

    def write(self, cycle: int, published: Sequence[PublishedRows]) -> None:
        """Keep what a cycle publishes until it is committed."""
        if self._assignment is None:
            return
        assert self._publisher is not None
        rows = [each for group in _by_epoch(published).values() for each in self._as_published(group)]
        changed = self._catalog.deliveries.changed_in(cycle)
        if not self._lacks_routes:
            self._publisher.write(cycle, rows, [from_json(dict(each.document)) for each in changed])
            return
        known = {each.number: each for each in (*self._catalog.deliveries.itineraries(), *changed)}
        routes = [replace(from_json(dict(each.document)), complete_from=cycle) for each in known.values()]
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
        return all(from_json(dict(each.document)).query in publisher.routes() for each in published)

    def _publisher_of(self, directory: Path, begins_after: int | None) -> Publisher:
        most = self._catalog.settings().max_delivery
        limits = Limits(bytes=most, waiting_bytes=most)
        broker, project = _broker(self._catalog), self._catalog.project
        return Publisher(directory, project, limits=limits, broker=broker, say=self._say, begins_after=begins_after)

    def _as_published(self, parts: Sequence[PublishedRows]) -> list[Published]:
        """The rows of one epoch: what several parts answer is published by the first of them alone."""
        assert self._assignment is not None
        running = self._assignment.epochs.get((parts[0].stream, parts[0].epoch))
        found = []
        for each in parts:
            if each.rows is not None and each.rows.num_rows:
                if running is not None:
                    self._observed.rows(running.relation, each.rows)
                rows = each.rows if running is None else _without_others(each.rows, each.part, running)
                found.append(Published(each.stream, each.epoch, rows, each.watermark))
        return found

    def _statistics(self) -> TrafficStatistics:
        """What is known of streams, columns and links when members are grouped."""
        if self._publisher is not None:
            self._observed.latency = self._publisher.latency
        return self._observed.statistics({name: float(rate) for name, rate in rates(measured(self._catalog)).items()})


def _by_epoch(published: Sequence[PublishedRows]) -> Mapping[tuple[str, int], list[PublishedRows]]:
    found: dict[tuple[str, int], list[PublishedRows]] = {}
    for each in sorted(published, key=lambda one: one.part):
        found.setdefault((each.stream, each.epoch), []).append(each)
    return found


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


def _broker(catalog: Catalog) -> Broker | None:
    """The broker that a project's rows are forwarded to; none unless it is set."""
    address = catalog.settings().broker
    if address is None:
        return None
    if address.startswith("nats://"):
        from weft.delivery.nats.nats_broker import NatsBroker

        return NatsBroker(address, catalog.project, grants=delivery_directory(catalog.path.parent))
    raise DeliveryError(f"broker '{address}' is of no known kind; SET broker = 'nats://host:port', or 'none'")
