"""Files of the state directory, anywhere Spark can reach: through Hadoop, or straight on a local disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from weft.files.atomic import draft_path, flush, flush_all, make_folder, publish, write_draft
from weft.files.private_files import private_folder
from weft.runtime.failures.errors import StorageError
from weft.runtime.state.checksums import Record, Seal, Seals, opened, seal_of, seal_of_file, sealed


def local_uri(path: Path) -> str:
    """Return a file or folder of this machine as Hadoop names it, whichever directory the process runs in.

    `Path.as_uri` would not do: Hadoop takes the characters of a path as they are, so `my%20project` is another folder.
    """
    return f"file://{path.resolve()}"


class Storage:
    """Small files under one root, written atomically: a reader sees all of a file or none of it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        base = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(root.rstrip("/"))
        hadoop = base.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.root = str(hadoop.makeQualified(base).toString())
        is_local = self.root.startswith("file:")
        self._files: _Files = _LocalFiles(self.root) if is_local else _HadoopFiles(spark, hadoop, self.root)

    @classmethod
    def made_private(cls, spark: SparkSession, root: str) -> Self:
        """Small files under a root that, on a local disk, this user alone can enter."""
        storage = cls(spark, root)
        if isinstance(storage._files, _LocalFiles):
            storage._files.make_private()
        return storage

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        return self._files.exists(name)

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder; none if it does not exist."""
        return sorted(self._files.names(folder))

    def read_bytes(self, name: str) -> bytes:
        return self._files.read(name)

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        return self._files.read_part(name, offset, length)

    def read_json(self, name: str) -> Any:
        """Read a record that `write_json` has written; StorageError if the file is not as it was written."""
        return opened(self.read_bytes(name), self.path(name))

    def read_record(self, name: str, type_: type[Record]) -> Record:
        """Read a record of a type; StorageError if the file is not as it was written."""
        record: Record = opened(self.read_bytes(name), self.path(name), type_)
        return record

    def write_json(self, name: str, value: Any) -> None:
        """Write a record, with its checksum."""
        self.write_bytes(name, sealed(name, value))

    def seals(self, name: str) -> dict[str, Seal]:
        """Return the seals of the files in a folder, by name, or of a file, whose name here is empty.

        Files that Spark does not read, whose names begin with `_` or `.`, do not count.
        """
        return dict(self._files.seals(name))

    def seals_of_written(self, path: str, rows: int | None) -> Seals:
        """Return the seals of a file, or of a folder to which Spark's tasks have written so many `rows` as Parquet.

        StorageError if they are not there: then executors have written to a disk that the driver does not see.
        """
        found = self.seals(path)
        if "" in found:
            return found
        contents = {name: self.read_bytes(f"{path}/{name}") for name in found}
        there = sum(pq.read_metadata(pa.BufferReader(each)).num_rows for each in contents.values())
        if not found or (rows is not None and rows != there):
            wrote = "the rows of a cycle" if rows is None else f"{rows:,} rows"
            raise StorageError(
                f"Spark's executors wrote {wrote} to {self.path(path)}, where the driver finds {there:,}: the project "
                "must be in a directory that all machines share, under one path; see 'On a cluster' in docs/running.md"
            )
        self.persist(path)
        return {name: seal_of(data) for name, data in contents.items()}

    def persist(self, name: str) -> None:
        """Make sure that a file or folder which Spark's tasks have written survives a power cut."""
        self._files.persist(name)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file under a temporary name and rename it: after a crash it is there whole, or not at all."""
        self.draft(name, data)
        self.publish(name)

    def draft(self, name: str, data: bytes) -> None:
        """Write what a file will hold under a temporary name, which readers of the folder pass over."""
        try:
            self._files.draft(name, data)
        except Exception as error:
            raise self._unwritable(name, error) from error

    def publish(self, name: str) -> None:
        """Give a drafted file its name, in place of an older one."""
        try:
            self._files.publish(name)
        except Exception as error:
            raise self._unwritable(name, error) from error

    def _unwritable(self, name: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self.path(name)} could not be written: {_reason(error)}; nothing was committed, "
            "and the cycle is run again at the next start"
        )

    def delete(self, name: str) -> None:
        """Delete a file or folder; it is no error if it is not there."""
        self._files.delete(name)


class _Files(Protocol):
    """What a file system must be able to do with names below a root."""

    def exists(self, name: str) -> bool: ...
    def names(self, folder: str) -> list[str]: ...
    def read(self, name: str) -> bytes: ...
    def read_part(self, name: str, offset: int, length: int) -> bytes: ...
    def draft(self, name: str, data: bytes) -> None: ...
    def publish(self, name: str) -> None: ...
    def delete(self, name: str) -> None: ...
    def seals(self, name: str) -> Iterator[tuple[str, Seal]]: ...
    def persist(self, name: str) -> None: ...


class _LocalFiles:
    """A local disk. Bytes that went through Java would be copied three times on the way."""

    def __init__(self, root: str) -> None:
        self._root = Path("/" + root.removeprefix("file:").lstrip("/"))

    def make_private(self) -> None:
        private_folder(self._root)
        flush(self._root.parent)

    def exists(self, name: str) -> bool:
        return (self._root / name).exists()

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return os.listdir(path) if path.exists() else []

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        with (self._root / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def draft(self, name: str, data: bytes) -> None:
        path = self._root / name
        make_folder(path.parent)
        write_draft(path, data, is_private=False)

    def publish(self, name: str) -> None:
        path = self._root / name
        publish(draft_path(path), path, is_flushed=True)

    def delete(self, name: str) -> None:
        path = self._root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def seals(self, name: str) -> Iterator[tuple[str, Seal]]:
        path = self._root / name
        if path.is_file():
            yield "", seal_of_file(path)
        for file in path.rglob("*"):
            if file.is_file() and not _is_hidden(file.relative_to(path).parts):
                yield str(file.relative_to(path)), seal_of_file(file)

    def persist(self, name: str) -> None:
        path = self._root / name
        flush_all(path)
        for parent in path.parents:
            if not parent.is_relative_to(self._root):
                break
            flush(parent)


class _HadoopFiles:
    """Any file system that Hadoop knows."""

    def __init__(self, spark: SparkSession, hadoop: Any, root: str) -> None:
        self._jvm = spark.sparkContext._jvm
        self._hadoop = hadoop
        self._root = root

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}")

    def exists(self, name: str) -> bool:
        return bool(self._hadoop.exists(self._at(name)))

    def names(self, folder: str) -> list[str]:
        if not self.exists(folder):
            return []
        return [str(status.getPath().getName()) for status in self._hadoop.listStatus(self._at(folder))]

    def read(self, name: str) -> bytes:
        stream = self._hadoop.open(self._at(name))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        stream = self._hadoop.open(self._at(name))
        try:
            stream.seek(offset)
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))
        finally:
            stream.close()

    def draft(self, name: str, data: bytes) -> None:
        out = self._hadoop.create(self._at(_draft(name)), True)
        try:
            out.write(bytearray(data))
            out.hsync()
        finally:
            out.close()

    def publish(self, name: str) -> None:
        if self.exists(name):
            self._hadoop.delete(self._at(name), False)
        if not self._hadoop.rename(self._at(_draft(name)), self._at(name)):
            raise OSError("the draft could not be renamed")

    def delete(self, name: str) -> None:
        self._hadoop.delete(self._at(name), True)

    def seals(self, name: str) -> Iterator[tuple[str, Seal]]:
        if not self.exists(name):
            return
        top = self._at(name)
        if not self._hadoop.getFileStatus(top).isDirectory():
            yield "", self._seal_of(top)
            return
        prefix = f"{self._hadoop.makeQualified(top).toUri().getPath()}/"
        files = self._hadoop.listFiles(top, True)
        while files.hasNext():
            path = files.next().getPath()
            inside = str(path.toUri().getPath()).removeprefix(prefix)
            if not _is_hidden(inside.split("/")):
                yield inside, self._seal_of(path)

    def _seal_of(self, path: Any) -> Seal:
        """Java computes the same checksum, without handing the bytes over."""
        checksum = self._jvm.java.util.zip.CRC32()
        stream = self._jvm.java.util.zip.CheckedInputStream(self._hadoop.open(path), checksum)
        try:
            size = self._jvm.org.apache.commons.io.IOUtils.consume(stream)
        finally:
            stream.close()
        return Seal(int(size), int(checksum.getValue()))

    def persist(self, name: str) -> None:
        """Nothing can be done: a file that is closed cannot be opened to flush it."""


def _is_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


def _draft(name: str) -> str:
    folder, _, file = name.rpartition("/")
    return f"{folder}/.{file}.draft" if folder else f".{file}.draft"


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    if java is not None:
        return str(java.getMessage() or java)
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
