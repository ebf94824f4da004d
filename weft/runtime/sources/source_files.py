"""Files of streams, read in the driver: their first bytes, their last ones, all of them.

Files on a local disk are read straight, all others through Hadoop, with the file systems and credentials of Spark.
A file that is not there any more raises FileNotFoundError.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

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
