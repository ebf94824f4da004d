"""Which queries an evaluation fails because of.

    attributable    the failure may be a query's: not that of the disk, of the state, of Spark or of the machine
    searched        the queries are halved until those are known that fail without the others

Evaluating leaves no trace before a commit, so a cycle may be evaluated as often as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from weft.plan.plan import Plan, with_read
from weft.runtime.failures.errors import StorageError
from weft.runtime.failures.reasons import reason_of

#: What errors of Spark say when something else than a query has failed.
_OTHERS_FAULTS = (
    "FAILED_READ_FILE",
    "while reading file",
    "No space left on device",
    "Disk quota exceeded",
    "OutOfMemoryError",
    "ExecutorLost",
    "executor lost",
    "FetchFailed",
    "SparkContext was shut down",
    "stopped SparkContext",
    "cancelled",
    "InterruptedException",
    "Answer from Java side is empty",
)

#: After so many failures and no success, the search takes the failure for one of all queries.
_FAILURES_IN_A_ROW = 8

#: Evaluates some queries of a plan, with what they read, and gives the error if they fail.
Evaluate = Callable[[Collection[str]], Exception | None]


def is_attributable(error: BaseException) -> bool:
    """Whether a failure may be that of a query."""
    if isinstance(error, (StorageError, MemoryError)) or not isinstance(error, Exception):
        return False
    if isinstance(error, (PySparkException, Py4JJavaError)):
        said = str(error)
        return not any(each in said for each in _OTHERS_FAULTS)
    # Arrow's errors of values are OSErrors in part; all others of these are of the disk or of the connection to Java.
    return isinstance(error, pa.ArrowInvalid) or not isinstance(error, (OSError, Py4JError))


def culprits(plan: Plan, evaluate: Evaluate) -> dict[str, Exception]:
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
