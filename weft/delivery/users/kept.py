"""The answers of a query that the delivery log still has, read without waiting for more."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from weft.delivery.log import cycles, missing, parcel_path, read_parcel, read_routes
from weft.delivery.matching.members import Members


def kept_answers(directory: Path, query: str, most: int) -> list[pa.Table]:
    """A query's newest answers, oldest first: of as many cycles as it takes to have `most` of them, or of all.

    Raises DamagedLog if one of these cycles is missing.
    """
    route = read_routes(directory).get(query)
    if route is None:
        return []
    members = Members()
    members.put(route)
    found: list[pa.Table] = []
    rows = 0
    previous: int | None = None
    for cycle in reversed(cycles(directory)):
        if rows >= most:
            break
        if previous is not None and previous != cycle:
            raise missing(parcel_path(directory, previous))
        parcel = read_parcel(directory, cycle)
        if parcel is None:
            break
        previous = parcel.previous
        tables = [each.table for each in members.batches(parcel)]
        rows += sum(each.num_rows for each in tables)
        found = [*tables, *found]
    return found
