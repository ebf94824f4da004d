"""Checks whether a file can be read as declared, before Spark reads it.

    Parquet, ORC    the schema at the end of the file has every declared column, as a type that gives all values exactly
    CSV             a header has every declared column, once; in which order is for the reader to follow
    CSV, JSON       the text is UTF-8, unless the stream says that it has another encoding

A file of a stream that fails is set aside as a whole: Spark would give NULLs, wrong values, or stop all queries. Of the
types that a file may have in place of the declared ones, Spark widens some, refuses some in the middle of a job, and of
some gives wrong values without a word: an INT32 read as TINYINT is cut off, a text in ORC read as BIGINT is NULL.

Files on a local disk are read directly, all others through Hadoop, with the file systems and credentials of Spark. A
file that no longer exists raises FileNotFoundError.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyarrow import parquet as pq
from pyarrow import types as arrow
from pyspark.sql import DataFrame, SparkSession

from weft.algebra import Stream, Table
from weft.algebra.types import DataType, Kind
from weft.runtime.failures.errors import SourceError

_PIECE = 1 << 20

#: Endings of files that Spark unpacks.
_PACKED = (".gz", ".gzip", ".bz2", ".zst", ".deflate", ".lz4", ".snappy")


class SourceFile(Protocol):
    """One file of a stream."""

    path: str

    def size(self) -> int: ...
    def tail(self, length: int) -> bytes: ...
    def head(self, length: int) -> bytes:
        """The first bytes, unpacked if the file is packed."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the file one after the other; only the first of them if reading all would be dear."""
        ...


class SourceFiles:
    """Finds the files that Spark names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def at(self, path: str) -> SourceFile:
        if path.startswith("file:"):
            return _LocalFile(path)
        return _HadoopFile(self._spark, path)


def is_packed(path: str) -> bool:
    """Whether a file is compressed as a whole."""
    return path.lower().endswith(_PACKED)


class _LocalFile:
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
        if self.path.lower().endswith((".gz", ".gzip")):
            with gzip.open(self._local) as unpacked:
                return unpacked.read(length)
        with self._local.open("rb") as file:
            return file.read(length)

    def pieces(self) -> Iterator[bytes]:
        with self._local.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece


class _HadoopFile:
    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._configuration = context._jsc.hadoopConfiguration()
        self._place = self._jvm.org.apache.hadoop.fs.Path(path)
        self._system = self._place.getFileSystem(self._configuration)

    def size(self) -> int:
        try:
            return int(self._system.getFileStatus(self._place).getLen())
        except Py4JJavaError as error:
            raise _as_os_error(error, self.path) from error

    def tail(self, length: int) -> bytes:
        return self._read(max(0, self.size() - length), length, unpacked=False)

    def head(self, length: int) -> bytes:
        return self._read(0, length, unpacked=True)

    def pieces(self) -> Iterator[bytes]:
        yield self.head(_PIECE)

    def _read(self, start: int, length: int, *, unpacked: bool) -> bytes:
        try:
            stream = self._system.open(self._place)
            try:
                stream.seek(start)
                factory = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._configuration)
                codec = factory.getCodec(self._place) if unpacked else None
                source = stream if codec is None else codec.createInputStream(stream)
                return bytes(source.readNBytes(length))
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _as_os_error(error, self.path) from error


def _as_os_error(error: Py4JJavaError, path: str) -> OSError:
    java: Any = error.java_exception
    said = str(java.getMessage() or java.getClass().getSimpleName())
    if java.getClass().getSimpleName() == "FileNotFoundException":
        return FileNotFoundError(2, said, path)
    return OSError(5, said, path)


#: Decimal digits that the whole part of an integer of so many bits can have, as Spark counts them.
_DIGITS = {8: 10, 16: 10, 32: 10, 64: 20}

_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}


def is_exact(declared: DataType, found: pa.DataType, format_: str) -> bool:
    """Whether Spark gives every value of a column of a file exactly when it reads it as the declared type."""
    if arrow.is_dictionary(found):
        found = found.value_type
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
            return _fits_decimal(declared, found)
        case Kind.STRING:
            # Some writers of Parquet do not say that bytes are text. Spark gives bytes in ORC as hex digits.
            return _is_text(found) or (format_ == "parquet" and arrow.is_binary(found))
        case Kind.BINARY:
            return _is_text(found) or arrow.is_binary(found) or arrow.is_fixed_size_binary(found)
        case Kind.DATE:
            return bool(arrow.is_date32(found))
        case Kind.TIMESTAMP:
            # ORC has one type for all instants; Parquet has nanoseconds apart, which Spark refuses.
            return arrow.is_timestamp(found) and (format_ == "orc" or found.unit in ("us", "ms"))
    return False


def _is_text(found: pa.DataType) -> bool:
    return bool(arrow.is_string(found) or arrow.is_large_string(found))


def _is_integer_within(found: pa.DataType, bits: int) -> bool:
    if arrow.is_signed_integer(found):
        return bool(found.bit_width <= bits)
    return bool(arrow.is_unsigned_integer(found) and found.bit_width < bits)


def _fits_decimal(declared: DataType, found: pa.DataType) -> bool:
    whole, scale = declared.precision - declared.scale, declared.scale
    if arrow.is_signed_integer(found):
        return whole >= _DIGITS[found.bit_width]
    if arrow.is_decimal(found):
        return bool(found.precision - found.scale <= whole and found.scale <= scale)
    return False


#: Bytes at the end of a file that mostly hold its schema, and that always do; the longest line of a header.
_FOOTER = 1 << 16
_LONG_FOOTER = 1 << 24
_LINE = 1 << 20

_MAGIC = b"PAR1"


@dataclass(frozen=True)
class FileFindings:
    """What a look at a file found: why it cannot be read, if it cannot; and the names in its header, if it has one."""

    fault: str = ""
    header: tuple[str, ...] | None = None


class Unreadable(Exception):
    """A file cannot be read as declared. The text continues 'the file …'."""


class FileCheck:
    """Looks at files of one stream. Columns in the names of folders are not looked for inside the files."""

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
        """Whether there is anything to see in files of this format."""
        return self._format in ("parquet", "orc", "csv", "json")

    @property
    def declared(self) -> tuple[str, ...]:
        """The declared columns that must be in each file, in small letters."""
        return tuple(each.name.lower() for each in self._fields)

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file names its columns."""
        return self._format == "csv" and self._options.get("header", "false").lower() == "true"

    def look(self, file: SourceFile) -> FileFindings:
        """Look at a file. One that is not there any more has no fault: Spark passes over it."""
        try:
            if self._format in ("parquet", "orc"):
                self._compare(columns_of(file, self._format))
            elif self._format in ("csv", "json"):
                return FileFindings(header=self._look_at_text(file))
        except FileNotFoundError:
            return FileFindings()
        except PermissionError:
            return FileFindings("may not be read by this user")
        except Unreadable as fault:
            return FileFindings(str(fault))
        return FileFindings()

    def _compare(self, found: Mapping[str, Sequence[pa.DataType]]) -> None:
        """Raise Unreadable unless every declared column is there once, with a type that is exact."""
        missing = [each.name for each in self._fields if each.name.lower() not in found]
        if missing:
            raise Unreadable(f"has no column {', '.join(missing)}")
        for each in self._fields:
            types = found[each.name.lower()]
            if len(types) > 1:
                raise Unreadable(f"has column {each.name} {len(types)} times")
            if not is_exact(each.type, types[0], self._format):
                raise Unreadable(f"has {each.name} as {types[0]}, which cannot be read as {each.type} exactly")

    def _look_at_text(self, file: SourceFile) -> tuple[str, ...] | None:
        """The header of a file, if it has one; raise Unreadable unless it is text and the header fits."""
        reads_itself = self._format == "json" and self._options.get("multiline", "false").lower() == "true"
        if self._is_utf8 and not reads_itself and not is_packed(file.path):
            _check_utf8(file)
        if not self.has_header:
            return None
        header = self._header(file)
        if header is None:
            return None
        names = [name.lower() for name in header]
        missing = [each.name for each in self._fields if each.name.lower() not in names]
        if missing:
            raise Unreadable(f"has no column {', '.join(missing)} in its header")
        twice = next((each.name for each in self._fields if names.count(each.name.lower()) > 1), None)
        if twice is not None:
            raise Unreadable(f"has column {twice} {names.count(twice.lower())} times in its header")
        return header

    def _header(self, file: SourceFile) -> tuple[str, ...] | None:
        """The names in the first line that is neither empty nor a comment; None if there is no such line."""
        try:
            head = file.head(_LINE)
        except (EOFError, ValueError) as error:
            raise Unreadable(f"cannot be unpacked: {error}") from error
        except OSError as error:
            if isinstance(error, FileNotFoundError | PermissionError) or not is_packed(file.path):
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
    return _parquet_columns(file) if format_ == "parquet" else _orc_columns(file)


def _parquet_columns(file: SourceFile) -> dict[str, list[pa.DataType]]:
    size = file.size()
    end = file.tail(_FOOTER)
    if not size:
        raise Unreadable("is empty")
    if size < 12 or end[-4:] != _MAGIC:
        raise Unreadable("is not a whole Parquet file")
    length = int.from_bytes(end[-8:-4], "little") + 8
    if length > size:
        raise Unreadable("is not a whole Parquet file")
    if length > len(end):
        end = file.tail(length)
    try:
        metadata = pq.read_metadata(pa.BufferReader(end))
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"has a damaged schema ({_first_line(error)})") from error
    legacy = {
        metadata.schema.column(number).path
        for number in range(metadata.num_columns)
        if metadata.schema.column(number).physical_type == "INT96"
    }
    found: dict[str, list[pa.DataType]] = {}
    for each in schema:
        # Spark reads the old type of instants in microseconds, as it wrote it.
        type_ = pa.timestamp("us") if each.name in legacy else each.type
        found.setdefault(each.name.lower(), []).append(type_)
    return found


def _orc_columns(file: SourceFile) -> dict[str, list[pa.DataType]]:
    size = file.size()
    if not size:
        raise Unreadable("is empty")
    try:
        schema = _orc_schema(file.tail(_FOOTER))
    except Unreadable:
        if size <= _FOOTER:
            raise
        schema = _orc_schema(file.tail(_LONG_FOOTER))
    found: dict[str, list[pa.DataType]] = {}
    for each in schema:
        found.setdefault(each.name.lower(), []).append(each.type)
    return found


def _orc_schema(end: bytes) -> pa.Schema:
    """The schema in the last bytes of an ORC file."""
    try:
        return orc.ORCFile(pa.BufferReader(end)).schema
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"is not a whole ORC file ({_first_line(error)})") from error


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
