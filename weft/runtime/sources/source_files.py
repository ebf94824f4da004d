"""Checks whether a file can be read as declared, before Spark reads it.

    Parquet, ORC    the schema at the end of the file has every declared column, as a type that gives all values exactly
    CSV             a header has every declared column, once; in which order is for the reader to follow
    CSV, JSON       the text is UTF-8, unless the stream says that it has another encoding

Of the types that a file may have in place of the declared ones, Spark widens some, refuses some in the middle of a job,
and of some gives wrong values without a word: an INT32 read as TINYINT is cut off, text in ORC read as BIGINT is NULL.

Files on a local disk are read directly, all others through Hadoop. One that no longer exists raises FileNotFoundError.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyarrow import parquet as pq
from pyarrow import types as arrow
from pyspark.sql import DataFrame, SparkSession

from weft.algebra import Stream, Table
from weft.algebra.types import DataType, Kind
from weft.runtime.spark.engine_errors import SourceError

_PIECE = 1 << 20

#: Endings of files that Spark unpacks.
_PACKED = (".gz", ".gzip", ".bz2", ".zst", ".deflate", ".lz4", ".snappy")


def source_file(spark: SparkSession, path: str) -> SourceFile:
    """The file at a path as Spark names it."""
    return _LocalFile(path) if path.startswith("file:") else _HadoopFile(spark, path)


class _LocalFile:
    """A file on a local disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._local = Path("/" + path.removeprefix("file:").lstrip("/"))

    def size(self) -> int:
        return self._local.stat().st_size

    def tail(self, length: int) -> bytes:
        with self._local.open("rb") as file:
            file.seek(max(0, file.seek(0, io.SEEK_END) - length))
            return file.read(length)

    def head(self, length: int) -> bytes:
        """The first bytes, unpacked if the file is packed."""
        is_packed = self.path.lower().endswith((".gz", ".gzip"))
        with gzip.open(self._local) if is_packed else self._local.open("rb") as file:
            return file.read(length)

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file, piece by piece; of a remote file only the first, since reading all costs much."""
        with self._local.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece


class _HadoopFile:
    """A file that Spark reaches through Hadoop."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()
        self._place = self._jvm.org.apache.hadoop.fs.Path(path)
        self._system = self._place.getFileSystem(self._configuration)

    def size(self) -> int:
        with self._failing_as_python():
            return int(self._system.getFileStatus(self._place).getLen())

    def tail(self, length: int) -> bytes:
        start = max(0, self.size() - length)
        with self._failing_as_python(), closing(self._system.open(self._place)) as stream:
            stream.seek(start)
            return bytes(stream.readNBytes(length))

    def head(self, length: int) -> bytes:
        with self._failing_as_python(), closing(self._system.open(self._place)) as stream:
            factory = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._configuration)
            codec = factory.getCodec(self._place)
            source = stream if codec is None else codec.createInputStream(stream)
            return bytes(source.readNBytes(length))

    def pieces(self) -> Iterator[bytes]:
        yield self.head(_PIECE)

    @contextmanager
    def _failing_as_python(self) -> Iterator[None]:
        """Raise what Java raises as an OSError."""
        try:
            yield
        except Py4JJavaError as error:
            name = error.java_exception.getClass().getSimpleName()
            said = str(error.java_exception.getMessage() or name)
            kind = (FileNotFoundError, 2) if name == "FileNotFoundException" else (OSError, 5)
            raise kind[0](kind[1], said, self.path) from error


#: One file of a stream or table.
SourceFile: TypeAlias = _LocalFile | _HadoopFile

#: The decimal digits of integers by their bits, as Spark counts them.
_DIGITS = {8: 10, 16: 10, 32: 10, 64: 20}
_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}


def is_exact(declared: DataType, found: pa.DataType, format_: str) -> bool:
    """Whether Spark gives every value of a column of a file exactly when it reads it as the declared type."""
    if arrow.is_dictionary(found):
        found = found.value_type
    is_text = bool(arrow.is_string(found) or arrow.is_large_string(found))
    kind = declared.kind
    if kind in _BITS:
        return _is_integer_within(found, _BITS[kind])
    match kind:
        case Kind.BOOLEAN:
            return bool(arrow.is_boolean(found))
        case Kind.FLOAT:
            return bool(arrow.is_float32(found))
        case Kind.DOUBLE:
            # Spark reads a UINT32 as a DOUBLE below zero.
            return arrow.is_float32(found) or arrow.is_float64(found) or _is_integer_within(found, 32)
        case Kind.DECIMAL:
            whole = declared.precision - declared.scale
            if arrow.is_signed_integer(found):
                return whole >= _DIGITS[found.bit_width]
            fits = arrow.is_decimal(found) and found.precision - found.scale <= whole and found.scale <= declared.scale
            return bool(fits)
        case Kind.STRING:
            # Some writers of Parquet do not say that bytes are text. Spark gives bytes in ORC as hex digits.
            return is_text or (format_ == "parquet" and arrow.is_binary(found))
        case Kind.BINARY:
            return is_text or arrow.is_binary(found) or arrow.is_fixed_size_binary(found)
        case Kind.DATE:
            return bool(arrow.is_date32(found))
        case Kind.TIMESTAMP:
            # ORC has one type for all instants; Parquet has nanoseconds apart, which Spark refuses.
            return arrow.is_timestamp(found) and (format_ == "orc" or found.unit in ("us", "ms"))
    return False


def _is_integer_within(found: pa.DataType, bits: int) -> bool:
    if arrow.is_signed_integer(found):
        return bool(found.bit_width <= bits)
    return bool(arrow.is_unsigned_integer(found) and found.bit_width < bits)


#: Bytes at the end of a file that mostly hold its schema, and that always do; the longest line of a header.
_FOOTER = 1 << 16
_LONG_FOOTER = 1 << 24
_LINE = 1 << 20


@dataclass(frozen=True)
class FileFindings:
    """What a check found: why the file cannot be read, if it cannot; and the names in its header, if it has one."""

    fault: str = ""
    header: tuple[str, ...] | None = None


class Unreadable(Exception):
    """A file cannot be read as declared. The text continues 'the file …'."""


class FileCheck:
    """Checks files of one stream. Columns in the names of folders are not looked for inside the files."""

    def __init__(self, stream: Stream, in_folders: Sequence[str] = ()) -> None:
        self._format = stream.format
        self._options = {name.lower(): value for name, value in stream.options}
        outside = {name.lower() for name in in_folders}
        self._fields = [each for each in stream.fields if each.name.lower() not in outside]
        encoding = self._options.get("encoding", self._options.get("charset"))
        self._encoding = encoding or "utf-8-sig"
        self._is_utf8 = encoding is None or encoding.lower() in ("utf-8", "utf8")

    @property
    def is_needed(self) -> bool:
        """Whether files of this format can be checked."""
        return self._format in ("parquet", "orc", "csv", "json")

    @property
    def declared(self) -> tuple[str, ...]:
        """The declared columns that must be in each file, in small letters."""
        return tuple(each.name.lower() for each in self._fields)

    def findings(self, file: SourceFile) -> FileFindings:
        """Check a file. One that no longer exists has no fault: Spark passes over it."""
        try:
            if self._format in ("csv", "json"):
                return FileFindings(header=self._look_at_text(file))
            self._compare(columns_of(file, self._format))
        except FileNotFoundError:
            return FileFindings()
        except PermissionError:
            return FileFindings("may not be read by this user")
        except Unreadable as fault:
            return FileFindings(str(fault))
        return FileFindings()

    def _compare(self, found: Mapping[str, Sequence[pa.DataType]]) -> None:
        """Raise Unreadable unless every declared column is there once, with a type that is exact."""
        self._look_for_columns([name for name, types in found.items() for _ in types], "")
        for each in self._fields:
            (type_,) = found[each.name.lower()]
            if not is_exact(each.type, type_, self._format):
                raise Unreadable(f"has {each.name} as {type_}, which cannot be read as {each.type} exactly")

    def _look_for_columns(self, names: Sequence[str], where: str) -> None:
        """Raise Unreadable unless every declared column is once among some names in small letters."""
        missing = [each.name for each in self._fields if each.name.lower() not in names]
        if missing:
            raise Unreadable(f"has no column {', '.join(missing)}{where}")
        for each in self._fields:
            if (times := names.count(each.name.lower())) > 1:
                raise Unreadable(f"has column {each.name} {times} times{where}")

    def _look_at_text(self, file: SourceFile) -> tuple[str, ...] | None:
        """The header of a file, if it has one; raise Unreadable unless it is text and the header fits."""
        reads_itself = self._format == "json" and self._options.get("multiline", "false").lower() == "true"
        if self._is_utf8 and not reads_itself and not file.path.lower().endswith(_PACKED):
            _check_utf8(file)
        has_header = self._format == "csv" and self._options.get("header", "false").lower() == "true"
        header = self._header(file) if has_header else None
        if header is not None:
            self._look_for_columns([name.lower() for name in header], " in its header")
        return header

    def _header(self, file: SourceFile) -> tuple[str, ...] | None:
        """The names in the first line that is neither empty nor a comment; None if there is no such line."""
        try:
            head = file.head(_LINE)
        except (EOFError, ValueError, OSError) as error:
            is_of_system = isinstance(error, FileNotFoundError | PermissionError)
            if is_of_system or (isinstance(error, OSError) and not file.path.lower().endswith(_PACKED)):
                raise
            raise Unreadable(f"cannot be unpacked: {error}") from error
        try:
            text = head.decode(self._encoding, errors="ignore" if len(head) == _LINE else "strict")
        except LookupError:
            # Spark knows other encodings than Python, and names those that it does not know.
            return None
        except UnicodeDecodeError as error:
            raise Unreadable(f"has a header that is not {error.encoding} text") from error
        comment = self._options.get("comment") or None
        separator = self._options.get("sep", self._options.get("delimiter", ",")).replace("\\t", "\t")
        quote = self._options.get("quote", '"')
        lines = io.StringIO(text, newline=None).readlines() if "linesep" not in self._options else (
            text.split(self._options["linesep"])
        )  # fmt: skip
        for position, line in enumerate(lines):
            bare = line.strip()
            if not bare or (comment is not None and bare.startswith(comment)):
                continue
            if len(separator) != 1:
                return tuple(name.strip().strip(quote) for name in bare.split(separator))
            rest = lines[position:] if self._options.get("multiline", "").lower() == "true" else [line]
            # Without a quote character none is special; NUL is in no name.
            names = next(csv.reader(rest, delimiter=separator, quotechar=quote or "\0"))
            return tuple(name.strip() for name in names)
        return None


def columns_of(file: SourceFile, format_: str) -> dict[str, list[pa.DataType]]:
    """The types of a Parquet or ORC file's columns, by name in small letters; Unreadable if it is damaged."""
    if not file.size():
        raise Unreadable("is empty")
    found: dict[str, list[pa.DataType]] = {}
    for name, type_ in _parquet_columns(file) if format_ == "parquet" else _orc_columns(file):
        found.setdefault(name.lower(), []).append(type_)
    return found


def _parquet_columns(file: SourceFile) -> Iterator[tuple[str, pa.DataType]]:
    size, end = file.size(), file.tail(_FOOTER)
    length = int.from_bytes(end[-8:-4], "little") + 8
    if size < 12 or end[-4:] != b"PAR1" or length > size:
        raise Unreadable("is not a whole Parquet file")
    try:
        metadata = pq.read_metadata(pa.BufferReader(end if length <= len(end) else file.tail(length)))
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"has a damaged schema ({_first_line(error)})") from error
    columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    legacy = {column.path for column in columns if column.physical_type == "INT96"}
    for each in schema:
        # Spark reads the old type of instants in microseconds, as it wrote it.
        yield each.name, pa.timestamp("us") if each.name in legacy else each.type


def _orc_columns(file: SourceFile) -> list[tuple[str, pa.DataType]]:
    for length in (_FOOTER, _LONG_FOOTER):
        try:
            return [(each.name, each.type) for each in orc.ORCFile(pa.BufferReader(file.tail(length))).schema]
        except (pa.ArrowException, OSError) as error:
            fault = error
    raise Unreadable(f"is not a whole ORC file ({_first_line(fault)})") from fault


def _check_utf8(file: SourceFile) -> None:
    """Raise Unreadable unless the text of a file is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    place = 0
    try:
        for piece in file.pieces():
            if not piece.isascii() or decoder.getstate()[0]:
                decoder.decode(piece)
            place += len(piece)
    except UnicodeDecodeError as error:
        where = max(0, place + error.start)
        raise Unreadable(
            f"is not UTF-8 text (byte {where}); save it as UTF-8, or name its encoding in OPTIONS"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def check_table_files(table: Table, frame: DataFrame) -> None:
    """Raise SourceError unless every Parquet or ORC file of a table has all declared columns, of one type each."""
    if table.format not in ("parquet", "orc"):
        return
    first: dict[str, tuple[str, object]] = {}
    for path in sorted(unquote(name) for name in frame.inputFiles()):
        try:
            found = columns_of(source_file(frame.sparkSession, path), table.format)
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
