"""Files that cannot be read as declared are set aside, and the others are read.

Before a cycle begins, the driver looks at each file of the batch (`source_files.py`). The cycle's intent names those
that are set aside. If a job fails at a file that looked good, the file is added to them, and the cycle is run again.

CSV files whose columns are in another order than the declaration are read apart, each order by a schema of its own.

Spark passes over files of a cycle that are missing by the time it reads them. A file that stopped the stream may be
taken away before the next attempt; one that goes for any other reason takes its rows with it: these are counted.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from weft.algebra import Stream
from weft.expressions.spark_expressions import quoted, spark_type
from weft.runtime.sources.batches import Batch, BatchPart, StreamFiles
from weft.runtime.sources.source_files import FileCheck, FileFindings, source_file
from weft.runtime.sources.stream_sources import TEXTUAL, declared, reading_options, tagging
from weft.runtime.spark.engine_errors import SourceError
from weft.runtime.spark.rows import CORRUPT, slots_of
from weft.runtime.spark.spark_failures import failed_file, plain_path, reason_of
from weft.sql.binder import BAD_FILES, SET_ASIDE, STOP

#: Why files are set aside, by the name of the stream and their path.
Faults: TypeAlias = Mapping[str, Mapping[str, str]]

#: Spark's option by which it takes the characters of a path as they are, as its own source of files does.
_AS_IS = "__globPaths__"
#: Characters that make a pattern of a path.
_PATTERN = re.compile(r"[*?\[{]")

#: Files that are checked at the same time.
_AT_ONCE = 8


@dataclass(frozen=True)
class CheckedBatch:
    """A batch, what is wrong with its files, and the columns of CSV files that are not in the declared order."""

    batch: Batch
    faults: Faults
    headers: Mapping[str, tuple[str, ...]]
    #: Columns in the headers of CSV files that are not declared, by the name of the stream.
    ignored: Mapping[str, tuple[str, ...]]

    def readable(self, faults: Faults) -> Batch:
        """The batch without the files that are set aside."""
        parts = self.batch.parts
        return Batch([part if part.files is None else self._readable(part, part.files, faults) for part in parts])

    def _readable(self, part: BatchPart, files: StreamFiles, faults: Faults) -> BatchPart:
        bad = faults.get(files.stream.name, {})
        others = {path: self.headers[path] for path in files.paths if path in self.headers and path not in bad}
        if not bad and not others and not files.is_doubled:
            return part
        rows = [_selected(files, _without(files, [*bad, *others]))]
        by_header: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for path, header in others.items():
            by_header[header].append(path)
        rows += [_selected(files, _read_by(files, header, paths)) for header, paths in by_header.items()]
        return replace(part, frame=reduce(DataFrame.unionAll, rows))


def check_batch(batch: Batch) -> CheckedBatch:
    """Check every file of a batch; SourceError if one cannot be read and its stream is to stop then."""
    faults: dict[str, dict[str, str]] = {}
    headers: dict[str, tuple[str, ...]] = {}
    ignored: dict[str, dict[str, None]] = {}
    for files in _files_of(batch):
        check = FileCheck(files.stream, files.in_folders)
        if not check.is_needed:
            continue
        expected = check.declared
        for path, found in _findings(check, files).items():
            if found.fault:
                faults.setdefault(files.stream.name, {})[path] = found.fault
            elif found.header is not None and tuple(name.lower() for name in found.header) != expected:
                headers[path] = found.header
                others = [name for name in found.header if name.lower() not in expected]
                ignored.setdefault(files.stream.name, {}).update(dict.fromkeys(others))
        _refuse_if_asked(files.stream, faults.get(files.stream.name, {}))
    return CheckedBatch(batch, faults, headers, {name: tuple(names) for name, names in ignored.items() if names})


def file_at_fault(batch: Batch | None, error: BaseException, known: Faults) -> dict[str, dict[str, str]]:
    """The file of a batch at which a job has failed, with the reason, if reading it alone fails too."""
    named = failed_file(error)
    for files in _files_of(batch) if batch is not None and named else ():
        for path in files.paths:
            if plain_path(path) == named and path not in known.get(files.stream.name, {}):
                only = _selected(files, files.frame.where(_is_from(files, [path])))
                try:
                    only.write.format("noop").mode("overwrite").save()
                except (PySparkException, Py4JError) as reason:
                    fault = {path: f"cannot be read to its end: {reason_of(reason)}"}
                    _refuse_if_asked(files.stream, fault)
                    return {files.stream.name: fault}
    return {}


def together(known: Faults, more: Faults) -> dict[str, dict[str, str]]:
    """All faults; of a file with two, the known one."""
    return {name: {**more.get(name, {}), **known.get(name, {})} for name in {**known, **more}}


def sentences(faults: Faults) -> Iterable[str]:
    """Sentences about files that are set aside: for each stream the first one, and the number of the others."""
    for name, of_stream in faults.items():
        path, fault = next(iter(of_stream.items()))
        more = f", and {len(of_stream) - 1:,} more of its files" if len(of_stream) > 1 else ""
        yield f"stream '{name}': the file {path} {fault}; it is set aside{more} (see weft status)"


def _files_of(batch: Batch) -> list[StreamFiles]:
    return [part.files for part in batch.parts if part.files is not None]


def _findings(check: FileCheck, files: StreamFiles) -> dict[str, FileFindings]:
    def check_file(path: str) -> FileFindings:
        return check.findings(source_file(files.frame.sparkSession, path))

    if len(files.paths) <= _AT_ONCE:
        return {path: check_file(path) for path in files.paths}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(files.paths, pool.map(check_file, files.paths), strict=True))


def _refuse_if_asked(stream: Stream, faults: Mapping[str, str]) -> None:
    options = {name.lower(): value for name, value in stream.options}
    if faults and options.get(BAD_FILES, SET_ASIDE) == STOP:
        path, fault = next(iter(faults.items()))
        raise SourceError(
            f"stream '{stream.name}' stops at the file {path}, which {fault}; mend it or take it away "
            f"(with OPTIONS ({BAD_FILES} '{SET_ASIDE}') it would be set aside)"
        )


def _selected(files: StreamFiles, rows: DataFrame) -> DataFrame:
    """The rows of some files as tagged rows."""
    return rows.select(*tagging(rows.columns, files.stream, files.index, slots_of([files.stream])))


def _is_from(files: StreamFiles, paths: Iterable[str]) -> Column:
    """Whether a row is from one of some files. Spark does not open the files that such a condition leaves out."""
    jvm: Any = files.frame.sparkSession.sparkContext._jvm
    as_in_metadata = [str(jvm.org.apache.hadoop.fs.Path(path).toUri().toString()) for path in paths]
    return files.frame.metadataColumn("_metadata")["file_path"].isin(as_in_metadata)


def _without(files: StreamFiles, apart: list[str]) -> DataFrame:
    """The rows of all files but some, by the declared order of columns."""
    others = set(apart)
    left = [path for path in files.paths if path not in others]
    if not files.is_doubled or not left:
        return files.frame.where(~_is_from(files, apart))
    corrupt = f", {CORRUPT} STRING" if files.stream.format in TEXTUAL else ""
    return _loaded(files, declared(files.stream.fields) + corrupt, left)


def _read_by(files: StreamFiles, header: tuple[str, ...], paths: list[str]) -> DataFrame:
    """The rows of CSV files whose columns are those of a header."""
    types = {field.name.lower(): (field.name, spark_type(field.type)) for field in files.stream.fields}
    columns = [types.get(name.lower(), (f"_other_{place}", "STRING")) for place, name in enumerate(header)]
    inside = {name.lower() for name in header}
    columns += [types[name.lower()] for name in files.in_folders if name.lower() in types.keys() - inside]
    schema = ", ".join(f"{quoted(name)} {type_}" for name, type_ in [*columns, (CORRUPT, "STRING")])
    return _loaded(files, schema, paths)


def _loaded(files: StreamFiles, schema: str, paths: list[str]) -> DataFrame:
    """The rows of some files by a schema, each once: files whose names look like patterns are read one by one."""
    stream = files.stream
    options = {name: value for name, value in reading_options(stream).items() if name.lower() != "path"}
    base = {name.lower(): value for name, value in stream.options}.get("path", "")
    if base and not _PATTERN.search(base):
        options = {"basePath": base, **options}
    plain = [path for path in paths if not _PATTERN.search(path)]
    groups = [[path] for path in paths if _PATTERN.search(path)] + ([plain] if plain else [])
    reader = files.frame.sparkSession.read.format(stream.format).schema(schema)
    return reduce(DataFrame.unionAll, [reader.options(**{**options, _AS_IS: "false"}).load(group) for group in groups])


def missing_files(spark: SparkSession, files: Mapping[str, Sequence[str]], *, everywhere: bool) -> dict[str, list[str]]:
    """The files that do not exist, by source; sources without such files are left out.

    Files of other machines are looked for only if asked: each takes a request.
    """
    context: Any = spark.sparkContext

    def is_missing(path: str) -> bool:
        parts = urlsplit(path)
        if parts.scheme in ("", "file"):
            return not os.path.exists(unquote(parts.path))
        if not everywhere:
            return False
        place = context._jvm.org.apache.hadoop.fs.Path(context._jvm.java.net.URI(path))
        return not place.getFileSystem(context._jsc.hadoopConfiguration()).exists(place)

    return {source: missing for source, paths in files.items() if (missing := list(filter(is_missing, paths)))}


def missing_files_message(stream: str, cycle: int, files: Sequence[str]) -> str:
    """The sentence that says which files of a stream are missing."""
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return (
        f"stream '{stream}' lacks the rows of {len(files)} file{'s' * (len(files) != 1)} of cycle {cycle}, which "
        f"{'were' if len(files) != 1 else 'was'} gone before the cycle was over: {', '.join(files[:3])}{more}"
    )
