"""Snapshots of tables: their rows as they were when the engine started, in the state directory.

    state/tables/<number>-<digest>/        a snapshot: the rows of one table, as Parquet
    state/tables/<number>-<digest>.json    marks it complete: the count of rows, the seals, and what it was read from

The digest is that of where the rows came from: the declaration, and the path, size and time of every file. While it
stays the same, a start finds the snapshot and reads nothing, unless the snapshot is damaged. Every cycle's intent names
its snapshots, so a second attempt joins the same rows, whatever has become of the files meanwhile.

A snapshot is a log of one segment. Its rows have a clock before all clocks and arrive after all cycles, so they are
never the newest of a combination, nor the earliest to arrive, and never late.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from weft.algebra import Field, Table
from weft.arrays.arrow_types import streamed
from weft.expressions.spark_expressions import column, quoted, spark_type
from weft.runtime.sources.source_files import check_table_files
from weft.runtime.sources.stream_sources import PYTHON, TEXTUAL, columns_by_name, declared, fields_of
from weft.runtime.spark.engine_errors import SourceError, StorageError
from weft.runtime.spark.rows import ARRIVAL, BEFORE, CLOCK, CORRUPT
from weft.runtime.spark.session import in_session
from weft.runtime.state.checksums import Seals, check, damaged
from weft.runtime.state.commits import Segment
from weft.runtime.state.storage import Storage
from weft.sql.names import source_refusal

#: What Python code hands over as a table.
GivenRows: TypeAlias = DataFrame | pa.Table

_FOLDER = "tables"
_BEFORE_ALL_CLOCKS = -(1 << 63) + 1
_AFTER_ALL_CYCLES = 1 << 62


class TableSnapshots:
    """The snapshots that the cycles of one engine read, of folders that are `allowed` and `given` by Python code."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        given: Mapping[str, GivenRows],
        allowed: Sequence[str] | None,
        say: Callable[[str], None],
    ) -> None:
        self._spark, self._storage, self._given, self._allowed, self._say = spark, storage, given, allowed, say
        self._taken: dict[int, Segment] = {}
        #: The snapshots that this process has compared with their seals, or has written.
        self._checked: set[str] = set()

    def begin(self, tables: Mapping[int, Table], begun: set[str], last: set[str]) -> None:
        """Take snapshots of all tables, by number, as an engine starts; drop those that no cycle needs any more.

        A cycle that was `begun` is finished with the snapshots at these paths; StorageError if one of them is damaged.
        Those of the `last` commit are kept.
        """
        self._taken = {}
        self.found(tables)
        for path in sorted(begun - self._checked):
            self._check(path)
        needed = begun | last | {each.path for each in self._taken.values()}
        for name in self._storage.names(_FOLDER):
            if f"{_FOLDER}/{name}".removesuffix(".json") not in needed:
                self._storage.delete(f"{_FOLDER}/{name}")

    def found(self, tables: Mapping[int, Table]) -> tuple[dict[str, Segment], dict[str, str]]:
        """The snapshots of the tables that can be read, by name, and what is wrong with the others."""
        snapshots: dict[str, Segment] = {}
        wrong: dict[str, str] = {}
        for number, table in tables.items():
            try:
                snapshots[table.name] = self.snapshot(number, table)
            except SourceError as error:
                wrong[table.name] = str(error)
        return snapshots, wrong

    def snapshot(self, number: int, table: Table) -> Segment:
        """The snapshot of a table; one that was created since the start is read now."""
        if number not in self._taken:
            self._taken[number] = self._snapshot(number, table)
        return self._taken[number]

    def _snapshot(self, number: int, table: Table) -> Segment:
        """The rows of a table as they are now: from the state directory, if it has them."""
        try:
            frame, origin = self._source(table)
            columns = [(field.name, str(field.type)) for field in table.fields]
            described = json.dumps([table.format, table.options, columns, origin])
            path = f"{_FOLDER}/{number}-{blake2b(described.encode(), digest_size=8).hexdigest()}"
            if not self._is_good(table, path):
                self._storage.delete(f"{path}.json")
                self._storage.delete(path)
                rows = self._write(table, frame, path)
                seals = self._storage.seals_of_written(path, rows)
                record = {"table": table.name, "rows": rows, "origin": origin, "seals": seals}
                self._storage.write_record(f"{path}.json", record)
                self._checked.add(path)
            return Segment(path, self._storage.read_record(f"{path}.json")["rows"], None, None)
        except (PySparkException, Py4JJavaError) as error:
            raise SourceError(
                f"table '{table.name}' cannot be read from {table.format}: {_reason(error)}; "
                "check its columns and OPTIONS"
            ) from error

    def _is_good(self, table: Table, path: str) -> bool:
        """Whether there is a snapshot at a path, and it is not damaged."""
        if path not in self._checked and self._storage.exists(f"{path}.json"):
            try:
                self._check(path)
            except StorageError as error:
                self._say(f"table '{table.name}' is read again: {str(error).partition(';')[0]}")
        return path in self._checked

    def _check(self, path: str) -> None:
        """Raise StorageError unless the snapshot at a path is as it was written."""
        if not self._storage.exists(f"{path}.json"):
            raise damaged(self._storage.path(f"{path}.json"), "is missing")
        sealed = msgspec.convert(self._storage.read_record(f"{path}.json")["seals"], Seals)
        check(self._storage.path(path), sealed, self._storage.seals(path))
        self._checked.add(path)

    def _source(self, table: Table) -> tuple[DataFrame, Any]:
        """The rows of a table, and what distinguishes them from those it had, or will have, at other times."""
        given = self._given.get(table.name)
        if isinstance(given, pa.Table):
            digest = blake2b(streamed(given.combine_chunks()), digest_size=16).hexdigest()
            return self._spark.createDataFrame(given), digest
        # What a DataFrame will give cannot be known: it is read at each start.
        if given is not None:
            return in_session(self._spark, given), secrets.token_hex(8)
        if table.format == PYTHON:
            raise SourceError(f"table '{table.name}' comes from Python: hand its rows to loom.table(…) before starting")
        refused = source_refusal(table.format, dict(table.options), self._allowed)
        if refused is not None:
            raise SourceError(f"table '{table.name}' cannot be read: {refused}")
        frame = _read(self._spark, table)
        jvm, configuration = self._spark.sparkContext._jvm, self._spark.sparkContext._jsc.hadoopConfiguration()
        files = []
        for name in sorted(frame.inputFiles()):
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
            status = path.getFileSystem(configuration).getFileStatus(path)
            files.append((name, status.getLen(), status.getModificationTime()))
        return frame, files or secrets.token_hex(8)

    def _write(self, table: Table, frame: DataFrame, path: str) -> int:
        """Write a snapshot and give the number of its rows; SourceError if a row is not as declared."""
        columns = _columns(table, frame)
        check_table_files(table, frame)
        observation = Observation()
        measures = [F.count(F.lit(1)).alias("rows")]
        for each in columns:
            measures.append(F.count(F.expr(f"CASE WHEN {each.is_lost} THEN 1 END")).alias(f"lost_{each.name}"))
            measures.append(F.max(F.expr(f"CASE WHEN {each.is_lost} THEN {each.text} END")).alias(f"as_{each.name}"))
        if CORRUPT in frame.columns:
            measures += [F.count(CORRUPT).alias("unreadable"), F.max(CORRUPT).alias("text")]
        read = frame.observe(observation, *measures)
        # Before all clocks, after all cycles, and never judged: see above.
        clocks = {CLOCK: _BEFORE_ALL_CLOCKS, ARRIVAL: _AFTER_ALL_CYCLES, BEFORE: None}
        nowhere = [F.lit(value).cast("bigint").alias(name) for name, value in clocks.items()]
        rows = read.select(*(F.expr(each.value).alias(each.name) for each in columns), *nowhere)
        rows.write.mode("overwrite").parquet(self._storage.path(path))
        found = observation.get
        _refuse_bad_rows(table, columns, found)
        return int(found["rows"])


@dataclass(frozen=True)
class _Column:
    """A column of a snapshot in Spark SQL: its value in the declared type, and whether that type cannot hold it."""

    name: str
    field: Field
    value: str
    is_lost: str
    text: str


def table_of(name: str, rows: GivenRows) -> Table:
    """The declaration of a table that Python code hands over."""
    if isinstance(rows, pa.Table):
        try:
            schema = from_arrow_schema(rows.schema)
        except PySparkException as error:
            raise SourceError(f"table '{name}' has a column that Spark does not know: {error}; cast it") from error
    elif rows.isStreaming:
        raise SourceError(f"the DataFrame for table '{name}' is a streaming one; hand it to loom.stream(…)")
    else:
        schema = rows.schema
    return Table(name, fields_of(f"table '{name}'", schema), PYTHON)


def _read(spark: SparkSession, table: Table) -> DataFrame:
    options = dict(table.options)
    reader = spark.read.format(table.format)
    if table.format in TEXTUAL:
        # A record that does not fit comes as text in a column of its own; a header must have the declared columns.
        reader = reader.schema(f"{declared(table.fields)}, {CORRUPT} STRING")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "enforceSchema": "false", **options}
    return reader.options(**options).load()


def _columns(table: Table, frame: DataFrame) -> list[_Column]:
    """The declared columns. A file may have others besides, and other types, as long as every value is the same."""
    known = dict(zip(frame.columns, frame.schema.fields, strict=True))
    names = columns_by_name(f"table '{table.name}'", table.fields, frame.columns)
    columns = []
    for position, field in enumerate(table.fields):
        found = known[names[field.name.lower()]]
        name, type_ = quoted(found.name), spark_type(field.type)
        value = f"try_cast({name} AS {type_})"
        lost = f"NOT (try_cast({value} AS {found.dataType.simpleString()}) <=> {name})"
        columns.append(_Column(column(position), field, value, lost, f"CAST({name} AS STRING)"))
    return columns


def _refuse_bad_rows(table: Table, columns: list[_Column], found: Mapping[str, Any]) -> None:
    unreadable = found.get("unreadable")
    if unreadable:
        raise SourceError(
            f"table '{table.name}' has {_rows(unreadable)} that cannot be read as declared, such as "
            f"{found['text'].strip()!r}; mend the source or the declaration"
        )
    for each in columns:
        lost = found[f"lost_{each.name}"]
        if lost:
            raise SourceError(
                f"table '{table.name}' has {_rows(lost)} whose {each.field.name} is no {each.field.type}, such as "
                f"{found[f'as_{each.name}']!r}; mend the source or declare another type"
            )


def _reason(error: PySparkException | Py4JJavaError) -> str:
    """What Spark says in one line; what went wrong in a task is the innermost cause."""
    if isinstance(error, PySparkException):
        return str(error).strip().split("\n")[0]
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return " ".join(str(cause.getMessage()).split())


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"
