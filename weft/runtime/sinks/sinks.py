"""Where answers go.

A sink gets the answers of one query in one cycle as an Arrow table, before the cycle commits. After a crash it may get
the same cycle again, with the same rows: files are named by the cycle, so this leaves no trace, and a Python function
gets a cycle at least once.

What a sink does not take waits on disk until it does. The answers of a query reach its sink in the order of cycles:
later ones wait behind those that wait.

Rows that took part in nothing go to the dead letter, with the reason.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.algebra import Query, Stream
from weft.arrays.arrow_types import streamed, table_of
from weft.catalog import Catalog
from weft.expressions.spark_expressions import column
from weft.runtime.sinks.shed_notices import notice_sentences, notices_in
from weft.runtime.spark.engine_errors import SinkError, StorageError
from weft.runtime.spark.rows import CORRUPT, slots, slots_of
from weft.runtime.spark.spark_failures import reason_of
from weft.runtime.state.commits import KeptAnswers, Trouble, Waiting, lost_with
from weft.runtime.state.storage import Storage
from weft.sql.names import folder_of, sink_refusal

#: Takes the answers of a cycle; a second call with the same cycle replaces the first. A function of the user is called
#: like one of Spark's foreachBatch: at least once for each cycle.
AnswerSink: TypeAlias = Callable[[pa.Table, int], object]


def write_answers(storage: Storage, format_: str, table: pa.Table, cycle: int) -> None:
    """Write one file per cycle that has answers, named by the cycle: exactly once, whatever crashes.

    A Parquet file has the metadata of its table. Beside JSON, what was kept of streams that may shed is in a file whose
    name begins with `_`, so that readers of the folder pass over it. It is there before the answers are.
    """
    kept = notices_in(table)
    if kept and format_ == "json":
        storage.write_bytes(f"_{cycle:012d}.kept.json", json.dumps(kept).encode())
    data = parquet_file(table) if format_ == "parquet" else json_lines(table)
    storage.write_bytes(f"{cycle:012d}.{format_}", data)


def print_answers(name: str, table: pa.Table, cycle: int) -> None:
    """Print answers on the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Texts, since rich takes square brackets in a str for its own marks.
    shown = Table(title=Text(f"{name}, cycle {cycle}"), title_justify="left")
    for heading in table.column_names:
        shown.add_column(Text(heading))
    for row in _rows(table.slice(0, 20)):
        shown.add_row(*(Text("" if value is None else str(value)) for value in row))
    more = [f"… and {table.num_rows - 20} more"] if table.num_rows > 20 else []
    caption = "\n".join([*more, *notice_sentences(notices_in(table))])
    shown.caption = Text(caption) if caption else None
    Console().print(shown)


def sink_of(query: Query, spark: SparkSession) -> AnswerSink | None:
    """The sink that a query's INTO names; None for answers that are only kept for reading."""
    if query.sink is None or query.sink.format == "memory":
        return None
    if query.sink.format == "console":
        return partial(print_answers, query.name)
    return partial(write_answers, Storage.at(spark, dict(query.sink.options)["path"]), query.sink.format)


def parquet_file(table: pa.Table) -> bytes:
    """A table as the bytes of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def json_lines(table: pa.Table) -> bytes:
    """A table as one JSON object per line."""
    names = table.column_names
    lines = (dict(zip(names, map(_finite, row), strict=True)) for row in _rows(table))
    return "".join(json.dumps(line, default=_plain) + "\n" for line in lines).encode()


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(column) for column in table.columns), strict=True)


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        # Python's calendar ends with the year 9999; Arrow's does not.
        values = column.cast(pa.int64()).to_pylist()
    return values


def _finite(value: Any) -> Any:
    """NaN and the infinities as Spark writes them: JSON has no numbers for these."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain(value: Any) -> Any:
    """Values that JSON has no form for: instants as ISO text in UTC, intervals in seconds, decimals as exact text."""
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(type(value).__name__)


# -- folders ----------------------------------------------------------------------------------------------------------

#: The file in a folder of answers that says which query of which project writes there. Answers are in files named by
#: the cycle alone, so a folder has one writer. Two queries of one project are refused when they are created (W702).
_OWNER: Final = "_owner"


def take_folder(spark: SparkSession, catalog: Catalog, query: Query) -> None:
    """Make a query the owner of the folder that it writes to, if it writes files.

    Raises SinkError if another project owns it, or another query that is registered and still writes there. A query
    that was dropped leaves its folder, with the files in it, to the next one.
    """
    folder = folder_of(query.sink)
    if folder is None or query.sink is None:
        return
    refused = sink_refusal(query.sink, catalog.allowed_paths())
    if refused is not None:
        raise SinkError(refused)
    storage = Storage.at(spark, dict(query.sink.options)["path"])
    owner = {"project": catalog.project, "query": query.name}
    if storage.exists(_OWNER):
        try:
            found = storage.read_record(_OWNER)
        except StorageError:
            raise SinkError(
                f"{storage.path(_OWNER)}, which names the query that writes there, is damaged; delete that file if no "
                "other query or project writes there"
            ) from None
        if found == owner:
            return
        other, is_foreign = catalog.find(found["query"]), found["project"] != owner["project"]
        if is_foreign or (isinstance(other, Query) and other.name != query.name and folder_of(other.sink) == folder):
            raise SinkError(
                f"{storage.root} belongs to query '{found['query']}'{' of another project' * is_foreign}; give each "
                f"query a folder of its own, or delete {storage.path(_OWNER)} if that one is gone"
            )
    storage.write_record(_OWNER, owner)


# -- what waits for sinks ---------------------------------------------------------------------------------------------


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
            behind = {name: each for name, each in waiting.items() if each.answers}
            name, record = min(behind.items(), key=lambda each: each[1].answers[0].cycle)
            oldest, *others = record.answers
            total -= oldest.bytes
            if record.lost is None:
                self._say(
                    f"query '{name}' lacks answers from now on: more wait for its sink than error_retention allows"
                )
            waiting[name] = replace(record, answers=tuple(others), lost=lost_with(record.lost, oldest.cycle))
        return waiting


def of_present_queries(waiting: Mapping[str, Waiting], number_of: Mapping[str, int]) -> dict[str, Waiting]:
    """The records of queries that are still registered."""
    return {name: each for name, each in waiting.items() if number_of.get(name) == each.number}


# -- rows that took part in nothing ------------------------------------------------------------------------------------

#: Characters of a stream's name that the name of a folder has at most.
_LONGEST_NAME = 100


def _letters_of(stream: str) -> str:
    """The folder with the dead letters of a stream: its name, in which all but letters, digits, _ and - is %-quoted.

    A long one ends in a hash.
    """
    name = quote(stream, safe="").replace(".", "%2E").replace("~", "%7E")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{blake2b(stream.encode(), digest_size=8).hexdigest()}"
    return f"dead-letter/{name}"


def write_dead_letters(
    spark: SparkSession, storage: Storage, stream: Stream, index: int, path: str, cycle: int
) -> None:
    """Write the rows of a cycle that were set aside as JSON lines, under the cycle's number."""
    listed = ", ".join(f"{slot} {type_}" for slot, type_ in slots_of([stream]).items())
    schema = f"{listed}, {CORRUPT} STRING, reason STRING"
    kept = spark.read.schema(schema).parquet(storage.path(f"{path}/stream={index}")).where(F.col("reason") != "none")
    named = zip(slots(stream.fields), stream.fields, strict=True)
    row = F.struct(*(F.col(slot).alias(field.name) for slot, field in named))
    letters = kept.select(F.col("reason"), F.col(CORRUPT).alias("text"), F.lit(cycle).alias("cycle"), row.alias("row"))
    _write(letters, storage, f"{_letters_of(stream.name)}/{cycle:012d}")


def write_file_letters(storage: Storage, stream: str, faults: Mapping[str, str], cycle: int) -> None:
    """Write the files of a cycle that were set aside, with the reasons by path, as JSON lines."""
    letters = [
        {"reason": "file set aside", "file": path, "text": fault, "cycle": cycle} for path, fault in faults.items()
    ]
    lines = "".join(json.dumps(letter, ensure_ascii=False) + "\n" for letter in letters)
    storage.write_bytes(f"{_letters_of(stream)}/{cycle:012d}-files/files.json", lines.encode())


def write_late_letters(
    rows: DataFrame, stream: Stream, losers: Mapping[str, Sequence[str]], storage: Storage, cycle: int
) -> None:
    """Write the rows of a stream's log that some queries lose, each with the names of these queries, as JSON lines.

    `losers` has by query the conditions, as Spark SQL, of the rows that it loses.
    """
    lost = [F.when(F.expr(" OR ".join(conditions)), F.lit(name)) for name, conditions in losers.items()]
    row = F.struct(*(F.col(column(i)).alias(each.name) for i, each in enumerate(stream.fields)))
    letters = rows.select(
        F.lit("late for some").alias("reason"),
        F.array_compact(F.array(*lost)).alias("queries"),
        F.lit(cycle).alias("cycle"),
        row.alias("row"),
    ).where(F.size("queries") > 0)
    _write(letters, storage, f"{_letters_of(stream.name)}/{cycle:012d}-late-for-some")


def _write(letters: DataFrame, storage: Storage, path: str) -> None:
    letters.coalesce(1).write.mode("overwrite").json(storage.path(path))
    storage.persist(path)
