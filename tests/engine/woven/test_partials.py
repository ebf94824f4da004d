"""Partials on disk, and how they come back."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from weft.engine.woven.partials import CELL, Layout, Partials, encoded, pieces


def test_pieces_of_a_large_file_come_in_the_order_of_cells_whatever_order_it_has() -> None:
    rows = 450_000
    numbers = np.arange(rows)
    # Cycles follow each other, and the cells of each are in no order.
    cells = numbers // 150_000 * 60 + numbers * 7919 % 60
    table = pa.table({"k0": pa.array([f"s{n % 5}" for n in range(rows)]), CELL: cells, "p0": numbers})
    found = list(pieces(encoded(Partials(Layout(("c1",), {}, 0, ("sum(c2)",)), table))))
    assert len(found) > 1
    for earlier, later in pairwise(found):
        assert earlier.cells.max() <= later.cells.min()
    read = pa.concat_tables([each.table for each in found]).replace_schema_metadata(None)
    assert read.sort_by("p0").equals(table)
