"""Sealing what a cycle wrote, before its commit; and checking what the last commit names, before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from weft.runtime.failures.errors import StorageError
from weft.runtime.state.commits import Commit, held_rows
from weft.runtime.state.seals import Seals, check, seal_of
from weft.runtime.state.storage import Storage


def with_seals(commit: Commit, last: Commit, storage: Storage, answers: Mapping[str, Seals]) -> Commit:
    """Return a commit with the seals of all files that it names, which are on disk then.

    `answers` has the seals of the files of answers.
    """
    parts = [commit, *(each.commit for each in commit.islands.values())]
    rows = {each.path: each.rows for part in parts for segments in part.logs.values() for each in segments}
    rows |= {held_rows(each.cycle): each.rows for each in commit.held}
    files = {
        path: last.seals[path] if path in last.seals else seals_of_written(storage, path, rows.get(path))
        for path in sorted(commit.paths)
    }
    return replace(commit, seals={**files, **answers})


def seals_of_written(storage: Storage, path: str, rows: int | None) -> Seals:
    """Return the seals of a file, or of a folder to which Spark's tasks have written so many `rows` as Parquet.

    StorageError if they are not there: then executors have written to a disk that the driver does not see.
    """
    found = storage.seals(path)
    if "" in found:
        return found
    contents = {name: storage.read_bytes(f"{path}/{name}") for name in found}
    there = sum(pq.read_metadata(pa.BufferReader(each)).num_rows for each in contents.values())
    if not found or (rows is not None and rows != there):
        wrote = "the rows of a cycle" if rows is None else f"{rows:,} rows"
        raise StorageError(
            f"Spark's executors wrote {wrote} to {storage.path(path)}, where the driver finds {there:,}: the project "
            "must be in a directory that all machines share, under one path; see 'On a cluster' in docs/running.md"
        )
    storage.persist(path)
    return {name: seal_of(data) for name, data in contents.items()}


def check_files(commit: Commit, storage: Storage) -> None:
    """Raise StorageError unless all files that a commit names, but for tables and answers, are as it sealed them."""
    for path in sorted(commit.paths):
        check(storage.path(path), commit.seals[path], storage.seals(path))
