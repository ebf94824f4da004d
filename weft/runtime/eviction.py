"""Find the queries that an evaluation of the shared plan fails because of, so that they can be evicted from it.

memory        the error names the queries that need most
otherwise     the rows of the cycle are written down first: if that fails, the rows are at fault. Then the queries are
              evaluated again, halved until those are known that fail without the others: see `culprits.py`
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from weft.catalog import Catalog
from weft.plan.plan import restricted, with_read
from weft.runtime.culprits import culprits, is_attributable
from weft.runtime.failures.errors import MemoryLimit
from weft.runtime.islands import Islands, runner_for, sentence_of
from weft.runtime.sources.batches import Batch
from weft.runtime.state.commits import Commit
from weft.runtime.state.cycle_spec import CycleSpec, Folders
from weft.runtime.state.storage import Storage

_SEARCH = Folders("search")


@dataclass(frozen=True)
class Failure:
    """An error in the evaluation of a cycle, and what was evaluated."""

    error: Exception
    batch: Batch | None
    spec: CycleSpec
    last: Commit


class Evicting:
    """Finds culprits for one engine."""

    def __init__(self, spark: SparkSession, storage: Storage, catalog: Catalog, islands: Islands) -> None:
        self._spark = spark
        self._storage = storage
        self._catalog = catalog
        self._islands = islands

    def evicted(self, failure: Failure) -> dict[str, str]:
        """The queries to evict because of a failure, each with what is wrong; none if the failure was of the moment.

        Raises the error if it is no query's fault.
        """
        error, plan = failure.error, failure.spec.plan
        if not is_attributable(error):
            raise error
        if isinstance(error, MemoryLimit):
            named = [each.name for each in plan.queries if each.name in error.needing_most]
            if named:
                return dict.fromkeys(named, sentence_of(error))
        return self._searched(failure)

    def _searched(self, failure: Failure) -> dict[str, str]:
        cycle, spec = failure.spec.cycle, failure.spec
        try:
            rows = self._islands.hold_rows(failure.batch, cycle, spec.plan)
        except Exception as error:
            # The rows themselves cannot be read, or not be written down: that is no query's fault.
            raise failure.error from error
        successes: list[Collection[str]] = []

        def evaluate(names: Collection[str]) -> Exception | None:
            plan = restricted(spec.plan, with_read(spec.plan, names))
            runner = runner_for(self._spark, self._storage, self._catalog, failure.last, _SEARCH)
            try:
                runner.run(rows, replace(spec, plan=plan), failure.last)
            except Exception as error:
                return error
            successes.append(names)
            return None

        try:
            found = culprits(spec.plan, evaluate)
        finally:
            self._storage.delete(_SEARCH.of(cycle))
        if not found and len(spec.plan.queries) not in map(len, successes):
            raise failure.error
        return {name: sentence_of(error) for name, error in found.items()}
