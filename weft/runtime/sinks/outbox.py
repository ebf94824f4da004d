"""Hand answers to sinks. What a sink does not take waits on disk until it does.

The answers of a query reach its sink in the order of cycles: later ones wait behind those that wait. Files are
named by the cycle, so an attempt is repeated without a trace; a Python function gets a cycle at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.algebra import Query
from weft.arrays.arrow_streams import streamed, table_of
from weft.catalog import Catalog
from weft.runtime.failures.reasons import reason_of
from weft.runtime.sinks.sinks import AnswerSink, sink_of, take_folder
from weft.runtime.state.storage import Storage
from weft.runtime.state.trouble import KeptAnswers, Trouble, Waiting

#: The folder in the state directory.
FOLDER = "waiting"


class SinkOutbox:
    """The sinks of a project's queries, and the answers that wait for them."""

    def __init__(self, spark: SparkSession, storage: Storage, catalog: Catalog, say: Callable[[str], None]) -> None:
        self._spark, self._storage, self._catalog, self._say = spark, storage, catalog, say
        self._sinks: dict[str, tuple[Query, AnswerSink | None]] = {}
        self._callables: dict[str, AnswerSink] = {}

    def add_callable(self, query: str, function: AnswerSink) -> None:
        self._callables[query] = function

    def deliver(
        self, waiting: Mapping[str, Waiting], query: Query, number: int, answers: pa.Table, cycle: int
    ) -> dict[str, Waiting]:
        """Hand a cycle's answers to the sink of a query, or keep them for it; the records of what waits after that."""
        known = waiting.get(query.name)
        if known is None or known.trouble is None:
            problem = self._write(query, answers, cycle)
            if problem is None:
                return dict(waiting)
            known = replace(known or Waiting(number, None), trouble=Trouble.begin(problem))
            self._say(f"query '{query.name}' is in error: {problem}; its answers are kept, and all other queries go on")
        data = streamed(answers)
        self._storage.write_bytes(known.path(cycle), data)
        answered = (*known.answers, KeptAnswers(cycle, len(data)))
        return self._limited({**waiting, query.name: replace(known, answers=answered)})

    def try_again(
        self, waiting: Mapping[str, Waiting], queries: Mapping[str, Query], names: Collection[str]
    ) -> dict[str, Waiting]:
        """Hand what waits for the sinks of some queries to them; the records of what waits after that."""
        found = dict(waiting)
        for name in names:
            found[name] = self._tried(queries[name], found[name])
        return {name: each for name, each in found.items() if each.trouble is not None or each.lost is not None}

    def _tried(self, query: Query, waiting: Waiting) -> Waiting:
        assert waiting.trouble is not None
        left = list(waiting.answers)
        while left:
            kept = table_of(self._storage.read_bytes(waiting.path(left[0].cycle)))
            problem = self._write(query, kept, left[0].cycle)
            if problem is not None:
                return replace(waiting, answers=tuple(left), trouble=waiting.trouble.again(problem))
            del left[0]
        self._say(f"query '{query.name}' is no longer in error: its sink has taken all answers that waited")
        return replace(waiting, answers=(), trouble=None)

    def _write(self, query: Query, answers: pa.Table, cycle: int) -> str | None:
        """Hand answers to a sink; what is wrong with it, or None."""
        name = query.name
        try:
            if name in self._callables:
                self._callables[name](answers, cycle)
            known = self._sinks.get(name)
            if known is None or (known[0] is not query and known[0] != query):
                take_folder(self._spark, self._catalog, query)
                known = self._sinks[name] = query, sink_of(query, self._spark)
            if known[1] is not None:
                known[1](answers, cycle)
        except Exception as error:
            self._sinks.pop(name, None)
            return f"its sink does not take the answers of cycle {cycle}: {reason_of(error)}"
        return None

    def _limited(self, waiting: dict[str, Waiting]) -> dict[str, Waiting]:
        """The records without the oldest answers, if more wait than may."""
        total = sum(kept.bytes for each in waiting.values() for kept in each.answers)
        while total > self._catalog.settings().error_retention:
            behind = [name for name, each in waiting.items() if each.answers]
            name = min(behind, key=lambda each: waiting[each].answers[0].cycle)
            total -= waiting[name].answers[0].bytes
            if waiting[name].lost is None:
                self._say(
                    f"query '{name}' lacks answers from now on: more wait for its sink than error_retention allows"
                )
            waiting[name] = waiting[name].without_oldest()
        return waiting


def of_present_queries(waiting: Mapping[str, Waiting], number_of: Mapping[str, int]) -> dict[str, Waiting]:
    """The records of queries that are still registered."""
    return {name: each for name, each in waiting.items() if number_of.get(name) == each.number}
