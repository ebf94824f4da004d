"""Find the queries that an evaluation of the shared plan fails because of, so that they can be evicted from it.

memory        the error names the queries that need most
otherwise     the rows of the cycle are written down first: if that fails, the rows are at fault. Then the queries are
              evaluated again, halved until those are known that fail without the others

Evaluating leaves no trace before a commit, so a cycle may be evaluated as often as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from weft.catalog import Catalog
from weft.plan.plan import Plan, restricted, with_read
from weft.runtime.failures.errors import MemoryLimit
from weft.runtime.failures.reasons import is_attributable, reason_of
from weft.runtime.islands import Islands, runner_for, sentence_of
from weft.runtime.sources.batches import Batch
from weft.runtime.state.commits import Commit
from weft.runtime.state.cycle_spec import CycleSpec, Folders
from weft.runtime.state.storage import Storage

_SEARCH = Folders("search")


#: After this many failures without a success, the failure counts as one of all queries.
_FAILURES_IN_A_ROW = 8

#: Evaluates some queries of a plan, with what they read, and gives the error if they fail.
Evaluate = Callable[[Collection[str]], Exception | None]


@dataclass(frozen=True)
class Failure:
    """An error in the evaluation of a cycle, and what was evaluated."""

    error: Exception
    batch: Batch | None
    spec: CycleSpec
    last: Commit


class EvictionSearch:
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
            found = failing_queries(spec.plan, evaluate)
        finally:
            self._storage.delete(_SEARCH.of(cycle))
        if not found and len(spec.plan.queries) not in map(len, successes):
            raise failure.error
        return {name: sentence_of(error) for name, error in found.items()}


def failing_queries(plan: Plan, evaluate: Evaluate) -> dict[str, Exception]:
    """The queries of a plan that fail, each with its error; none if all of them succeed by now, or fail together only.

    A query that reads a culprit is none itself. If all queries fail for the same reason, or nothing does that is
    evaluated without any query, it is no query's fault, and there are no culprits.
    """
    if evaluate(()) is not None:
        return {}
    search = _Search(plan, evaluate)
    names = [each.name for each in plan.queries]
    search.look_into(names)
    reasons = {reason_of(error) for error in search.found.values()}
    if search.has_given_up or (len(search.found) > 1 and len(reasons) == 1 and not search.successes):
        return {}
    return search.found


class _Search:
    def __init__(self, plan: Plan, evaluate: Evaluate) -> None:
        self._plan = plan
        self._evaluate = evaluate
        self.found: dict[str, Exception] = {}
        self.successes = 0
        self.has_given_up = False

    def look_into(self, names: Sequence[str]) -> None:
        """Find the culprits among some queries, which come after those that they read."""
        left = [name for name in names if with_read(self._plan, {name}).isdisjoint(self.found)]
        if not left or self.has_given_up:
            return
        error = self._evaluate(left)
        if error is None:
            self.successes += 1
        elif not is_attributable(error):
            raise error
        elif len(left) == 1:
            self.found[left[0]] = error
            self.has_given_up = not self.successes and len(self.found) >= _FAILURES_IN_A_ROW
        else:
            middle = len(left) // 2
            self.look_into(left[:middle])
            self.look_into(left[middle:])
