"""What it costs to send a group's rows over its first link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.algebra import Value


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of streams and columns; what is not in it is guessed.

    - `rates`: rows per tick, by stream.
    - `widths`: bytes of a published column, by its name; other columns are as wide as their types.
    - `values`: some values of a column, as they come, by the name of the column as it is published.
    - `matches`: of the pairs of rows that meet, the share that satisfies an equation, by its text.
    - `groups`: how many groups an aggregate has, by the names of its keys, sorted.
    - `latencies`: of the first link, by first hop.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    matches: Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    latencies: Mapping[str, float] = field(default_factory=dict)
    sample: int = 1024
