"""Whether the files of a table have the same columns: Spark goes by one of them, and gives NULLs for the others."""

from __future__ import annotations

from urllib.parse import unquote

from pyspark.sql import DataFrame

from weft.algebra import Table
from weft.runtime.failures.errors import SourceError
from weft.runtime.sources.file_check import Unreadable, columns_of
from weft.runtime.sources.source_files import SourceFiles


def check_table_files(table: Table, frame: DataFrame) -> None:
    """Raise SourceError unless every Parquet or ORC file of a table has all declared columns, of one type each."""
    if table.format not in ("parquet", "orc"):
        return
    source = SourceFiles(frame.sparkSession)
    first: dict[str, tuple[str, object]] = {}
    for path in sorted(unquote(name) for name in frame.inputFiles()):
        try:
            found = columns_of(source.at(path), table.format)
        except FileNotFoundError:
            continue
        except Unreadable as fault:
            raise SourceError(f"table '{table.name}' cannot be read: the file {path} {fault}") from fault
        for field in table.fields:
            name = field.name.lower()
            if f"/{name}=" in path.lower():
                # The name of the file's folder gives the column.
                continue
            if name not in found:
                raise SourceError(f"table '{table.name}' cannot be read: the file {path} has no column {field.name}")
            known, type_ = first.setdefault(name, (path, found[name][0]))
            if type_ != found[name][0]:
                raise SourceError(
                    f"table '{table.name}' cannot be read: {field.name} is {found[name][0]} in {path}, and {type_} "
                    f"in {known}; write its files with the same types"
                )
