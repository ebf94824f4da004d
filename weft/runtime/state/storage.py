"""Files of the state directory, anywhere Spark can reach: through Hadoop, or straight on a local disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from weft.files.atomic import draft_path, flush, flush_all, make_folder, private_folder, publish, write_draft
from weft.runtime.spark.engine_errors import StorageError
from weft.runtime.state.checksums import Seal, Seals, opened, seal_of, seal_of_file, sealed


def local_uri(path: Path) -> str:
    """Return a file or folder of this machine as Hadoop names it, whichever directory the process runs in.

    `Path.as_uri` would not do: Hadoop takes the characters of a path as they are, so `my%20project` is another folder.
    """
    return f"file://{path.resolve()}"


class Storage:
    """Small files under one root, written atomically: a reader sees all of a file or none of it.

    The file system is any that Hadoop knows.
    """

    def __init__(self, spark: SparkSession, hadoop: Any, root: str) -> None:
        self.root = root
        self._jvm: Any = spark.sparkContext._jvm
        self._hadoop = hadoop

    @staticmethod
    def at(spark: SparkSession, root: str, *, is_private: bool = False) -> Storage:
        """The files under a root. Only this user can enter a private one, if it is on a local disk."""
        base = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(root.rstrip("/"))
        hadoop = base.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        qualified = str(hadoop.makeQualified(base).toString())
        if not qualified.startswith("file:"):
            return Storage(spark, hadoop, qualified)
        storage = _LocalStorage(spark, hadoop, qualified)
        if is_private:
            private_folder(storage.folder)
            flush(storage.folder.parent)
        return storage

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(name))

    def exists(self, name: str) -> bool:
        return bool(self._hadoop.exists(self._at(name)))

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder; none if it does not exist."""
        if not self.exists(folder):
            return []
        return sorted(str(status.getPath().getName()) for status in self._hadoop.listStatus(self._at(folder)))

    def read_bytes(self, name: str) -> bytes:
        with closing(self._hadoop.open(self._at(name))) as stream:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        with closing(self._hadoop.open(self._at(name))) as stream:
            stream.seek(offset)
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, length))

    def _write_draft(self, name: str, data: bytes) -> None:
        with closing(self._hadoop.create(self._at(_draft(name)), True)) as out:
            out.write(bytearray(data))
            out.hsync()

    def _rename_draft(self, name: str) -> None:
        if self.exists(name):
            self._hadoop.delete(self._at(name), False)
        if not self._hadoop.rename(self._at(_draft(name)), self._at(name)):
            raise OSError("the draft could not be renamed")

    def delete(self, name: str) -> None:
        """Delete a file or folder; it is no error if it is not there."""
        self._hadoop.delete(self._at(name), True)

    def persist(self, name: str) -> None:
        """Make sure that what tasks have written survives a power cut; Hadoop opens no closed file to flush it."""

    def seals(self, name: str) -> dict[str, Seal]:
        """Return the seals of the files in a folder, by name, or of a file, whose name here is empty.

        Files that Spark does not read, whose names begin with `_` or `.`, do not count.
        """
        if not self.exists(name):
            return {}
        top, found = self._at(name), {}
        if not self._hadoop.getFileStatus(top).isDirectory():
            return {"": self._seal_of(top)}
        prefix = f"{self._hadoop.makeQualified(top).toUri().getPath()}/"
        files = self._hadoop.listFiles(top, True)
        while files.hasNext():
            path = files.next().getPath()
            inside = str(path.toUri().getPath()).removeprefix(prefix)
            if not _is_hidden(inside.split("/")):
                found[inside] = self._seal_of(path)
        return found

    def _seal_of(self, path: Any) -> Seal:
        """Java computes the same checksum, without handing the bytes over."""
        checksum = self._jvm.java.util.zip.CRC32()
        with closing(self._jvm.java.util.zip.CheckedInputStream(self._hadoop.open(path), checksum)) as stream:
            size = self._jvm.org.apache.commons.io.IOUtils.consume(stream)
        return Seal(int(size), int(checksum.getValue()))

    # -- records and seals --------------------------------------------------------------------------------------------

    def read_record(self, name: str, type_: Any = Any) -> Any:
        """Read a record; StorageError if the file is not as it was written."""
        return opened(self.read_bytes(name), self.path(name), type_)

    def write_record(self, name: str, value: Any) -> None:
        """Write a record, with its checksum."""
        self.write_bytes(name, sealed(name, value))

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

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file under a temporary name and rename it: after a crash it is there whole, or not at all."""
        self.draft(name, data)
        self.publish(name)

    def draft(self, name: str, data: bytes) -> None:
        """Write what a file will hold under a temporary name, which readers of the folder pass over."""
        with self._writing(name):
            self._write_draft(name, data)

    def publish(self, name: str) -> None:
        """Give a drafted file its name, in place of an older one."""
        with self._writing(name):
            self._rename_draft(name)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise StorageError(
                f"{self.path(name)} could not be written: {_reason(error)}; nothing was committed, "
                "and the cycle is run again at the next start"
            ) from error


class _LocalStorage(Storage):
    """A local disk. Bytes that went through Java would be copied three times on the way."""

    @cached_property
    def folder(self) -> Path:
        return Path("/" + self.root.removeprefix("file:").lstrip("/"))

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def names(self, folder: str) -> list[str]:
        path = self.folder / folder
        return sorted(os.listdir(path)) if path.exists() else []

    def read_bytes(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def read_part(self, name: str, offset: int, length: int) -> bytes:
        with (self.folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def _write_draft(self, name: str, data: bytes) -> None:
        path = self.folder / name
        make_folder(path.parent)
        write_draft(path, data, is_private=False)

    def _rename_draft(self, name: str) -> None:
        path = self.folder / name
        publish(draft_path(path), path, is_flushed=True)

    def delete(self, name: str) -> None:
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def seals(self, name: str) -> dict[str, Seal]:
        path = self.folder / name
        if path.is_file():
            return {"": seal_of_file(path)}
        files = {file.relative_to(path): file for file in path.rglob("*") if file.is_file()}
        return {str(inside): seal_of_file(file) for inside, file in files.items() if not _is_hidden(inside.parts)}

    def persist(self, name: str) -> None:
        path = self.folder / name
        flush_all(path)
        for parent in path.parents:
            if not parent.is_relative_to(self.folder):
                break
            flush(parent)


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
