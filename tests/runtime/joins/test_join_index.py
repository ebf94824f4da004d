"""The rows that joins look for, in the driver."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.runtime.stages.joins.lookups import JoinIndex, Lookup, LookupKey


def test_the_memory_of_rows_counts_with_all_that_they_are_sorted_by() -> None:
    rows = 10_000
    table = pa.table({"k": [f"key {n % 100}" for n in range(rows)], "clock": np.arange(rows)})

    index = JoinIndex({})
    index.add(table, np.arange(rows))
    before = index.bytes_held
    assert before >= table.nbytes
    asked = Lookup(np.array([1]), np.array([0]), None, None)
    index.found(asked, LookupKey(("k",), "clock"), [("k", pa.string())])
    # A hash and a position, a number and a clock of each row.
    assert index.bytes_held >= before + 4 * 8 * rows
