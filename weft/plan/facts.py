"""StreamFacts, by which plans are made, and what cycles measured.

StreamFacts are the rate of a stream, the length of its cycles, and its numbers of keys, in steps of four. A plan that
followed every change of a stream would be replaced all the time, and every new plan has trees to build. So a number is
known as the nearest power of four, and its step changes only when what is measured is four times as much, or a quarter.

    step     …  −1    0     1     2   …
    means       1/4   1     4    16            step 1 is kept while 1 < measured < 16
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

_ROWS, _TICKS, _KEYS = "rows", "ticks", "keys "


@dataclass(frozen=True)
class StreamFacts:
    """What is known of a stream, as powers of four; None, or not there, as long as nothing has been seen."""

    #: Rows per tick, and ticks per cycle.
    rows: int | None = None
    ticks: int | None = None
    #: How many different keys there are, by the text of the key set.
    keys: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_per_tick(self) -> Fraction | None:
        return None if self.rows is None else power(self.rows)

    @property
    def ticks_per_cycle(self) -> Fraction | None:
        return None if self.ticks is None else power(self.ticks)

    def number_of_keys(self, keys: Sequence[str]) -> int | None:
        """About how many groups a key set has; without keys there is one."""
        step = self.keys.get(key_set(keys)) if keys else 0
        return None if step is None else int(power(step))

    def seen(self, pace: Sequence[tuple[int, int]], keys: Mapping[str, int]) -> StreamFacts:
        """The facts after some cycles: the rows that came in each, and the ticks by which the clock went on.

        The cycle in the middle decides: one that is out of the ordinary changes nothing.
        """
        rates = sorted(Fraction(rows, ticks) for rows, ticks in pace if rows and ticks)
        lengths = sorted(ticks for _, ticks in pace if ticks)
        return StreamFacts(
            _stepped(self.rows, rates[len(rates) // 2]) if rates else self.rows,
            _stepped(self.ticks, lengths[len(lengths) // 2]) if lengths else self.ticks,
            {**self.keys, **{name: _stepped(self.keys.get(name), count) for name, count in keys.items() if count}},
        )

    def numbers(self) -> dict[str, int]:
        """The steps by name, as they are written down."""
        steps = {_ROWS: self.rows, _TICKS: self.ticks, **{f"{_KEYS}{name}": step for name, step in self.keys.items()}}
        return {name: step for name, step in steps.items() if step is not None}


def facts_of(numbers: Mapping[str, int | float]) -> StreamFacts:
    steps = {name: int(step) for name, step in numbers.items()}
    keys = {name.removeprefix(_KEYS): step for name, step in steps.items() if name.startswith(_KEYS)}
    return StreamFacts(steps.get(_ROWS), steps.get(_TICKS), keys)


def key_set(keys: Sequence[str]) -> str:
    return ", ".join(keys)


def nearest_power(number: Fraction | int) -> Fraction:
    """The power of four that is nearest to a positive number, by their ratio.

    >>> [int(nearest_power(number)) for number in (1, 2, 7, 8, 31, 32)]
    [1, 4, 4, 16, 16, 64]
    """
    return power(_nearest_step(Fraction(number)))


def power(step: int) -> Fraction:
    return Fraction(4) ** step


def _stepped(before: int | None, measured: Fraction | int) -> int:
    if before is not None and power(before - 1) < measured < power(before + 1):
        return before
    return _nearest_step(Fraction(measured))


def _nearest_step(number: Fraction) -> int:
    # Twice or half as much is half a step; between them lie two powers of two for each of four.
    return (octave(number) + 1) // 2


def octave(number: Fraction) -> int:
    """The exponent of the greatest power of two that is not above a positive number."""
    found = number.numerator.bit_length() - number.denominator.bit_length()
    return found if Fraction(2) ** found <= number else found - 1


# -- what cycles measured ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamMeasured:
    """What one cycle measured of a stream."""

    rows: int
    late: int
    bad: int
    #: How many partials its rows were reduced to; None if no query that is woven reads them.
    partials: int | None = None
    #: By how much the stream's clock went on.
    ticks: int = 0
    #: Rows by time: that of the stream if its clock is a TIMESTAMP, and that of the wall since the cycle before.
    rows_per_event_second: float | None = None
    rows_per_second: float | None = None
    #: How many different keys there have been, by key set.
    keys: Mapping[str, int] = field(default_factory=dict)
    #: Rows that were left out, if it may shed.
    shed: int = 0


@dataclass(frozen=True, slots=True)
class CycleMeasured:
    """What one cycle measured: its time, in all and by stage, the Spark jobs it ran, and its streams."""

    cycle: int
    seconds: float
    answers: int
    jobs: int | None
    stages: Mapping[str, float]
    streams: Mapping[str, StreamMeasured]
    #: By how many seconds the cycle after it was late.
    behind: float = 0.0


@dataclass(frozen=True, slots=True)
class Measurements:
    """What the last cycles measured, the newest last; by stream the share of rows that satisfy a condition, and facts.

    `network` is what is known of selections and joins, as a document.
    """

    cycles: tuple[CycleMeasured, ...] = ()
    selectivities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    facts: Mapping[str, StreamFacts] = field(default_factory=dict)
    network: Mapping[str, object] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """What cycles measured, as JSON has it."""
        told = {"cycles": self.cycles, "selectivities": self.selectivities}
        return {**msgspec.json.decode(msgspec.json.encode(told)), "network": dict(self.network)}


NOT_MEASURED = Measurements()
