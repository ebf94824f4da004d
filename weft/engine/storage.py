"""Files of the state directory, through Hadoop's file systems, so that they can be anywhere Spark can reach."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from weft.engine.errors import StorageError


class Storage:
    """Small files under one root, written atomically: a reader sees all of a file or none of it."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm = spark.sparkContext._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self.root = root.rstrip("/")
        base = self._path(self.root)
        self._fs = base.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self.root = str(self._fs.makeQualified(base).toString())

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        return bool(self._fs.exists(self._path(self.path(name))))

    def names(self, folder: str) -> list[str]:
        """The names of the files and folders in a folder; none if it does not exist."""
        path = self._path(self.path(folder))
        if not self._fs.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._fs.listStatus(path))

    def read_bytes(self, name: str) -> bytes:
        stream = self._fs.open(self._path(self.path(name)))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def read_json(self, name: str) -> Any:
        try:
            return json.loads(self.read_bytes(name))
        except ValueError as error:
            raise StorageError(
                f"{self.path(name)} is damaged ({error}); restore the state directory from a copy"
            ) from error

    def write_json(self, name: str, value: Any) -> None:
        self.write_bytes(name, json.dumps(value, separators=(",", ":")).encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file under a temporary name and rename it: after a crash it is there whole, or not at all."""
        self.draft(name, data)
        self.publish(name)

    def draft(self, name: str, data: bytes) -> None:
        """Write what a file will hold under a temporary name, which readers of the folder pass over."""
        try:
            out = self._fs.create(self._draft(name), True)
            try:
                out.write(bytearray(data))
                out.hsync()
            finally:
                out.close()
        except Exception as error:
            raise self._unwritable(name, error) from error

    def publish(self, name: str) -> None:
        """Give a drafted file its name, in place of an older one."""
        target = self._path(self.path(name))
        try:
            if self._fs.exists(target):
                self._fs.delete(target, False)
            renamed = self._fs.rename(self._draft(name), target)
        except Exception as error:
            raise self._unwritable(name, error) from error
        if not renamed:
            raise StorageError(f"{self.path(name)} could not be put in place; nothing was committed")

    def _draft(self, name: str) -> Any:
        folder, _, file = name.rpartition("/")
        return self._path(self.path(f"{folder}/.{file}.draft" if folder else f".{file}.draft"))

    def _unwritable(self, name: str, error: Exception) -> StorageError:
        return StorageError(
            f"{self.path(name)} could not be written: {_reason(error)}; nothing was committed, "
            "and the cycle is run again at the next start"
        )

    def delete(self, name: str) -> None:
        """Delete a file or folder; it is no error if it is not there."""
        self._fs.delete(self._path(self.path(name)), True)


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() or java) if java is not None else str(error)
