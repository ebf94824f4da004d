"""The groups of aggregates that never close, as segments that describe themselves.

One table for all cohorts of a stream: a row for each group, its keys and its records in the columns that are named
after them. Cohorts follow one another; a column that a cohort does not have is NULL in its rows.

    cohort   k0 (sym)   k1 (venue)   m0_0 (count(1))   m1_0, m1_1 (sum(qty))
    0        a          NULL         7                 NULL NULL               SELECT sym, COUNT(*) …  GROUP BY sym
    1        NULL       x            2                 40   0                  SELECT venue, SUM(qty) … GROUP BY venue
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.kernels.statistic import Array, Columns

_METADATA = b"weft.totals"


@dataclass(frozen=True, slots=True)
class CohortSpec:
    """Who has groups in common: queries with the same conditions and keys that began in the same cycle."""

    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    first_cycle: int


@dataclass(frozen=True, slots=True)
class CohortRows:
    """Some groups of a cohort: their keys, column by column, and the records of each measure by its name."""

    keys: Sequence[pa.Array | pa.ChunkedArray]
    records: Mapping[str, Columns]

    def __len__(self) -> int:
        return len(next(iter(self.records.values()))[0])


#: What one segment holds.
Cohorts = Sequence[tuple[CohortSpec, CohortRows]]


def encoded(cohorts: Cohorts) -> bytes:
    """The bytes of a Parquet file."""
    keys = _numbered(key for spec, _ in cohorts for key in spec.keys)
    measures = _numbered(name for _, rows in cohorts for name in rows.records)
    tables = []
    for spec, rows in cohorts:
        columns = {f"k{keys[key]}": values for key, values in zip(spec.keys, rows.keys, strict=True)}
        for name, records in rows.records.items():
            columns |= {f"m{measures[name]}_{place}": _arrow(column) for place, column in enumerate(records)}
        tables.append(pa.table(columns))
    described = {
        "cohorts": [
            {
                "conditions": spec.conditions,
                "keys": spec.keys,
                "first_cycle": spec.first_cycle,
                "rows": len(rows),
                "measures": {name: len(records) for name, records in rows.records.items()},
            }
            for spec, rows in cohorts
        ],
        "keys": list(keys),
        "measures": list(measures),
    }
    whole = pa.concat_tables(tables, promote_options="default")
    whole = whole.replace_schema_metadata({_METADATA: json.dumps(described).encode()})
    buffer = pa.BufferOutputStream()
    pq.write_table(whole, buffer, compression="lz4", use_dictionary=[f"k{n}" for n in keys.values()])
    return bytes(buffer.getvalue().to_pybytes())


def decoded(data: bytes) -> Cohorts:
    """What the bytes of a file hold."""
    table = pq.ParquetFile(pa.BufferReader(data)).read().combine_chunks()
    described = json.loads(table.schema.metadata[_METADATA])
    keys, measures = _numbered(described["keys"]), _numbered(described["measures"])
    cohorts, begins = [], 0
    for each in described["cohorts"]:
        rows = table.slice(begins, each["rows"])
        begins += each["rows"]
        spec = CohortSpec(tuple(each["conditions"]), tuple(each["keys"]), each["first_cycle"])
        records = {
            name: tuple(_array(rows[f"m{measures[name]}_{place}"]) for place in range(fields))
            for name, fields in each["measures"].items()
        }
        cohorts.append((spec, CohortRows([rows[f"k{keys[key]}"] for key in spec.keys], records)))
    return cohorts


def _numbered(texts: Iterable[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(dict.fromkeys(texts))}


def _arrow(column: Array) -> pa.Array:
    # Records are numbers, or text.
    return pa.array(column, pa.string()) if column.dtype == object else pa.array(column)


def _array(column: pa.ChunkedArray) -> Array:
    return np.array(column.to_pylist(), dtype=object) if pa.types.is_string(column.type) else np.asarray(column)
