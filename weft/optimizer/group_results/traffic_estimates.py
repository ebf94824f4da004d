"""What it costs to send a group's rows over its first link, estimated from what is known of streams and columns.

    cost of a form  =  rows per tick that meet, or groups that are answered     from rates, windows, schedules
                     × share of them that its members want                       on a sample of rows, one bit each
                     × bytes of the columns that are published                    filter columns and clocks included

The share of a union is seen by putting bits together, which no arithmetic on selectivities can do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from weft.algebra import Column, Expression, Kind, Literal, Stream, Table, Value
from weft.optimizer.group_results.forms import QueryFamily
from weft.predicates.comparisons import place_of
from weft.predicates.domains import Cut, Place
from weft.predicates.normal_forms import Box
from weft.predicates.subjects import Subject
from weft.predicates.terms import Term

#: Bytes of a value by the kind of its type; DECIMALs and HUGEINTs are sixteen bytes, texts are guessed.
_BYTES = {
    Kind.NULL: 1.0,
    Kind.BOOLEAN: 0.125,
    Kind.TINYINT: 1.0,
    Kind.SMALLINT: 2.0,
    Kind.INT: 4.0,
    Kind.FLOAT: 4.0,
    Kind.DATE: 4.0,
    Kind.HUGEINT: 16.0,
    Kind.DECIMAL: 16.0,
    Kind.STRING: 16.0,
    Kind.BINARY: 16.0,
}
_OTHER_BYTES = 8.0


@dataclass(frozen=True, slots=True)
class TrafficStatistics:
    """What is known of streams and columns; what is not in it is guessed.

    - `rates`: rows per tick, by stream.
    - `widths`: bytes of a column, by "stream.column".
    - `values`: some values of a column, by "stream.column"; of columns of one stream, those of the same rows.
    - `sample`: how many rows selectivities are estimated from.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    widths: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    sample: int = 1024


def column_width(statistics: TrafficStatistics, family: QueryFamily, expression: Expression) -> float:
    key = _known_as(family, expression)
    known = statistics.widths.get(key) if key else None
    return _BYTES.get(expression.type.kind, _OTHER_BYTES) if known is None else known


def _known_as(family: QueryFamily, expression: Expression | None) -> str | None:
    """A column of a stream as statistics know it."""
    if isinstance(expression, Column):
        for item in family.inputs:
            if item.alias == expression.source and isinstance(item.source, (Stream, Table)):
                return f"{item.source.name}.{expression.name}"
    return None


class Sample:
    """Some rows of every stream, to see conditions on. What is not known of their values is made up."""

    def __init__(self, statistics: TrafficStatistics) -> None:
        self.statistics = statistics
        self.size = statistics.sample
        self._columns: dict[tuple[str, str], tuple[list[Any], npt.NDArray[np.intp]]] = {}

    def rows(self, family: QueryFamily, box: Box) -> int:
        """The rows that lie in a box, one bit each."""
        found = np.ones(self.size, dtype=bool)
        for subject, values in box.items():
            keys, order = self._column(family, subject)
            inside = np.zeros(self.size, dtype=bool)
            for low, high in values.spans:
                inside[order[_position(keys, low) : _position(keys, high)]] = True
            found &= inside
        return int.from_bytes(np.packbits(found).tobytes(), "big")

    def _column(self, family: QueryFamily, subject: Subject) -> tuple[list[Any], npt.NDArray[np.intp]]:
        """The values that a subject has in the rows, in ascending order, and which rows these are."""
        term = subject.expression if isinstance(subject, Term) else None
        name = _known_as(family, term)
        alias = term.source if isinstance(term, Column) else ""
        place = (alias, name or subject.text)
        if place not in self._columns:
            known = self.statistics.values.get(name, ()) if name else ()
            if term is not None and known:
                # The same rows for all columns of an input, and others for the next input.
                chosen = _generator(f"rows of {alias}").integers(0, len(known), self.size)
                keys = [_key(place_of(Literal(known[each], term.type))) for each in chosen.tolist()]
            else:
                keys = _made_up(subject, self.size)
            order = np.array(sorted(range(self.size), key=keys.__getitem__), dtype=np.intp)
            self._columns[place] = [keys[each] for each in order], order
        return self._columns[place]


def _generator(seed: str) -> np.random.Generator:
    return np.random.default_rng(crc32(seed.encode()))


def _key(place: Place) -> Any:
    """Something that sorts as places do, and is compared quickly."""
    if isinstance(place, Fraction):
        return float(place)
    if isinstance(place, tuple):
        return float("inf") if place[0] else place[1]
    return place


def _position(keys: list[Any], cut: Cut) -> int:
    """How many of the keys lie below a cut."""
    if len(cut) == 1:
        return 0 if cut[0] < 0 else len(keys)
    return (bisect_right if cut[2] else bisect_left)(keys, _key(cut[1]))


def _made_up(subject: Subject, size: int) -> list[Any]:
    """Values of every size, as far as the domain has them."""
    generator = _generator(subject.text)
    low, high = subject.domain.low, subject.domain.high
    if isinstance(low, str | bytes):
        letters = generator.integers(ord("A"), ord("z") + 1, (size, 4))
        texts = ["".join(map(chr, each)) for each in letters.tolist()]
        return [text.encode() for text in texts] if isinstance(low, bytes) else texts
    sizes = np.exp(generator.uniform(0.0, 20.0, size)) - 1.0
    numbers = np.where(generator.random(size) < 0.25, -sizes, sizes)
    if isinstance(low, Fraction) and isinstance(high, Fraction):
        # Of truth values and signs there are two or three.
        numbers = np.clip(numbers, float(low), float(high)) if high - low > 2 else np.sign(generator.normal(size=size))
        numbers = np.maximum(numbers, float(low))
    return [float(each) for each in numbers]
