"""Statistics of published rows: how wide columns are, which values they have, how long the first link takes.

Groups are decided by them from the next round on: merging costs the columns that are published, widths included, and
what two conditions have in common is seen on rows. These rows are those that representatives answer, and not all of a
stream: but what lies outside of all members' conditions makes no difference between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from weft.algebra import Column, Relation, Select, Stream, Table, Value
from weft.optimizer.group_results import TrafficStatistics

#: Rows of a stream that are remembered.
_SAMPLE: Final = 1024


@dataclass
class PublishedStatistics:
    """The newest widths and values, by "stream.column", and the seconds that the first hop takes."""

    widths: dict[str, float] = field(default_factory=dict)
    latency: float | None = None
    _values: dict[str, dict[str, list[Value]]] = field(default_factory=dict)

    def rows(self, relation: Relation, rows: pa.Table) -> None:
        """See what a representative answered."""
        of_stream: dict[str, dict[str, pa.ChunkedArray]] = {}
        for stream, name, published in _columns(relation):
            if published in rows.column_names:
                column = rows[published]
                self.widths[f"{stream}.{name}"] = column.nbytes / rows.num_rows
                of_stream.setdefault(stream, {})[f"{stream}.{name}"] = column
        every = -(-rows.num_rows // _SAMPLE)
        for stream, columns in of_stream.items():
            # The representative that shows most of a stream is the one to learn from.
            if len(columns) >= len(self._values.get(stream, {})):
                self._values[stream] = {
                    key: plain for key, column in columns.items() if (plain := _plain(column, every)) is not None
                }

    def statistics(self, rates: Mapping[str, float]) -> TrafficStatistics:
        """All that is known when members are grouped."""
        values = {key: found for columns in self._values.values() for key, found in columns.items()}
        latencies = {} if self.latency is None else {"": self.latency}
        return TrafficStatistics(rates, dict(self.widths), values, latencies=latencies)


def _columns(relation: Relation) -> list[tuple[str, str, str]]:
    """The columns that a representative shows as they are: whose, which, and published as what."""
    if not isinstance(relation, Select) or relation.is_grouped:
        return []
    sources = {each.alias: each.source.name for each in relation.inputs if isinstance(each.source, Stream | Table)}
    return [
        (sources[each.expression.source], each.expression.name, each.name)
        for each in relation.outputs
        if isinstance(each.expression, Column) and each.expression.source in sources
    ]


def _plain(column: pa.ChunkedArray, every: int) -> list[Value] | None:
    """Some values of a column, as constants have them; None if some are NULL or have no such form."""
    if column.null_count:
        return None
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.int64())
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_boolean, pa.types.is_decimal)
    if not any(is_kind(column.type) for is_kind in kinds):
        return None
    found: list[Any] = column.combine_chunks()[::every].to_pylist()
    return found
