"""weft's own engine as a provider's: a project in a directory, whose cycles are run one by one.

Spark is started once in a process. A new incarnation of the engine uses the same session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.algebra import Query, Stream
from weft.catalog import Catalog
from weft.federation.live.engine_incarnation import CycleStore, EngineMaker
from weft.files.atomic import private_folder

if TYPE_CHECKING:
    from weft.runtime.spark.session import SparkSession

_APPLIED = "federation_place"


class SparkEngine:
    """An engine of weft that runs single cycles on demand."""

    def __init__(self, spark: SparkSession, directory: Path, answers: CycleStore) -> None:
        from weft.runtime.engine import Engine
        from weft.runtime.project_state import state_directory

        private_folder(directory)
        self._spark = spark
        self._catalog = Catalog.open(directory)
        # Owners of streams have judged all clocks; they are not judged a second time, by another machine's time.
        self._catalog.set_setting("max_ahead", "off")
        self._engine = Engine(spark, self._catalog, state_directory(directory))
        self._engine.publisher = answers

    @property
    def applied(self) -> int:
        return int(str(self._catalog.setting(_APPLIED, 0)))

    @property
    def last_cycle(self) -> int:
        return self._engine.last.cycle

    def change(
        self,
        place: int | None = None,
        *,
        streams: Sequence[Stream] = (),
        create: Sequence[Query] = (),
        drop: Sequence[str] = (),
    ) -> None:
        from weft.runtime.sinks.publishing import publishing_sink

        with self._catalog.transaction():
            known = {each.name for each in self._catalog.streams()}
            for stream in streams:
                if stream.name not in known:
                    self._catalog.add(stream)
            for name in drop:
                self._catalog.drop(Query, name)
            for query in create:
                self._catalog.add(replace(query, sink=publishing_sink(query.name, 0, 0)))
            if place is not None:
                self._catalog.set_setting(_APPLIED, place)

    def cycle(self, number: int, rows: Mapping[str, Path], clocks: Mapping[str, int]) -> None:
        from weft.runtime.sources.batches import external_batch

        batch = external_batch(self._spark, self._catalog.streams(), rows)
        self._engine.cycle(batch, number, clocks)

    def close(self) -> None:
        self._catalog.close()


def spark_engines(master: str | None, settings: Mapping[str, str]) -> EngineMaker:
    """Makes engines on one Spark session, which is started now."""
    from weft.runtime.spark.session import session

    spark = session(master, settings)
    return lambda directory, answers: SparkEngine(spark, directory, answers)
