"""Where answers go.

A sink gets the answers of one query in one cycle as an Arrow table, before the cycle commits. After a crash it may get
the same cycle again, with the same rows.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from weft.algebra import Query
from weft.catalog import Catalog
from weft.runtime.failures.errors import SinkError, StorageError
from weft.runtime.sinks.shed_notices import notice_sentences, notices_in
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
    for column in table.column_names:
        shown.add_column(Text(column))
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
