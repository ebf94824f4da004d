"""What plans go by: how fast a stream is, how long its cycles are, and how many keys there are, in steps of four.

A plan that followed a stream through all its moods would be made anew all the time, and every new plan has trees to
build. So a number is known by the nearest power of four, and a step is left only for good: when what is measured is
four times as much, or a quarter.

    step      …  −1    0     1     2   …
    stands for   1/4   1     4    16            step 1 is kept while 1 < measured < 16
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

_ROWS, _TICKS, _KEYS = "rows", "ticks", "keys "


@dataclass(frozen=True)
class Facts:
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

    def seen(self, pace: Sequence[tuple[int, int]], keys: Mapping[str, int]) -> Facts:
        """The facts after some cycles: the rows that came in each, and the ticks by which the clock went on.

        The cycle in the middle decides: one that is out of the ordinary changes nothing.
        """
        rates = sorted(Fraction(rows, ticks) for rows, ticks in pace if rows and ticks)
        lengths = sorted(ticks for _, ticks in pace if ticks)
        return Facts(
            _stepped(self.rows, rates[len(rates) // 2]) if rates else self.rows,
            _stepped(self.ticks, lengths[len(lengths) // 2]) if lengths else self.ticks,
            {**self.keys, **{name: _stepped(self.keys.get(name), count) for name, count in keys.items() if count}},
        )

    def numbers(self) -> dict[str, int]:
        """The steps by name, as they are written down."""
        steps = {_ROWS: self.rows, _TICKS: self.ticks, **{f"{_KEYS}{name}": step for name, step in self.keys.items()}}
        return {name: step for name, step in steps.items() if step is not None}


def facts_of(numbers: Mapping[str, int | float]) -> Facts:
    """The facts that were written down."""
    steps = {name: int(step) for name, step in numbers.items()}
    keys = {name.removeprefix(_KEYS): step for name, step in steps.items() if name.startswith(_KEYS)}
    return Facts(steps.get(_ROWS), steps.get(_TICKS), keys)


def key_set(keys: Sequence[str]) -> str:
    """A key set as text."""
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
