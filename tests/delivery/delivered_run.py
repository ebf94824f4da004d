"""Runs queries INTO subscribers on an engine, and takes what their users get, beside the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from tests.runtime.workload_run import Run
from weft.algebra import Relation
from weft.delivery.control import Control
from weft.delivery.delivery_log import delivery_directory, read_parcel, read_routes
from weft.delivery.members import Members

_CREATE = re.compile(r"(CREATE CONTINUOUS QUERY \S+) (?!INTO)")


def into_subscribers(text: str) -> str:
    """A script whose queries all go INTO subscribers."""
    return _CREATE.sub(r"\1 INTO subscribers ", text)


class DeliveredRun(Run):
    """A run whose answers are those that users get from the delivery log, cycle by cycle.

    Rows that are late for all queries are not counted here: what runs are representatives, and these may still take a
    row that is late for every member.
    """

    control: Control

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """The relation of every query that there has been, by name."""
        return {}

    def execute(self, script: str) -> None:
        super().execute(into_subscribers(script))
        self.relations.update({each.name: each.relation for each in self.loom.catalog.queries()})

    def restart(self) -> None:
        """A new engine, and whoever publishes for it, over the same state."""
        if hasattr(self, "control"):
            self.control.close()
        super().restart()
        self.control = Control(self.loom.catalog)
        self.control.attach(self.engine)

    def _survived(self, batch: DataFrame | None, heartbeats: Mapping[str, int]) -> dict[str, pa.Table]:
        super()._survived(batch, heartbeats)
        return self.delivered(self.cycles)

    def delivered(self, cycle: int) -> dict[str, pa.Table]:
        """What the users of each query got of a cycle."""
        directory = delivery_directory(self.directory)
        parcel = read_parcel(directory, cycle)
        if parcel is None:
            return {}
        members = Members(read_routes(directory).values())
        return {each.query: each.table for each in members.batches(parcel)}

    def _differing_counts(self):  # type: ignore[no-untyped-def]
        return iter(())

    def close(self) -> None:
        self.control.close()
        super().close()
