"""Random windows, in every way to write them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis.strategies import DrawFn

from tests.support.generator_expressions import choose, one_in
from tests.support.generator_tables import Table
from weft.algebra import DataType
from weft.algebra.types import TIMESTAMP


@dataclass(frozen=True)
class Lengths:
    """A window in steps: seconds, or ordinals."""

    range: int
    slide: int
    origin: int

    @property
    def instances(self) -> int:
        """How many instances cover a clock value, at most."""
        return -(-self.range // self.slide)


@dataclass(frozen=True)
class Spelling:
    """A window that is written: `item` is the FROM item, `group` what GROUP BY begins with, if anything."""

    item: str
    group: str | None = None


_MOST_FAN_OUT = 60


def lengths(draw: DrawFn, table: Table) -> Lengths:
    """Tumbling, sliding, hopping, and now and then with gaps between the instances; the larger the table, the fewer."""
    range_ = choose(draw, (10, 1, 2, 3, 5, 7, 20))
    sliding = (each for each in (1, 2, 3, 5, 10) if each < range_ <= each * (_MOST_FAN_OUT // table.fan_out))
    slide = choose(draw, (range_, *sliding, range_ + 2))
    return Lengths(range_, slide, choose(draw, (0, 0, 0, 1, 4)))


def duration(draw: DrawFn, steps: int, clock: DataType) -> str:
    """So many seconds in one of the ways to write them, or so many ordinals."""
    if clock != TIMESTAMP:
        return str(steps)
    ways = (f"{steps} SECONDS", f"{steps * 1000} MILLISECONDS", f"INTERVAL {steps} SECONDS", f"'{steps} seconds'")
    return choose(draw, ways)


def retention(draw: DrawFn, clock: DataType) -> str:
    """What follows RETAIN."""
    return choose(draw, ("UNBOUNDED", duration(draw, choose(draw, (1, 3, 10)), clock)))


def bracket(draw: DrawFn, window: Lengths, clock: DataType) -> str:
    """`[RANGE r SLIDE s ORIGIN o]`, or ROWS for ordinals."""
    keyword = "RANGE" if clock == TIMESTAMP else choose(draw, ("ROWS", "RANGE"))
    origin = f" ORIGIN {_origin(draw, window.origin, clock)}" if window.origin else ""
    return f"[{keyword} {duration(draw, window.range, clock)} SLIDE {duration(draw, window.slide, clock)}{origin}]"


def _origin(draw: DrawFn, steps: int, clock: DataType) -> str:
    if clock == TIMESTAMP and one_in(draw, 3):
        return f"TIMESTAMP '1970-01-01 00:00:{steps:02}'"
    return duration(draw, steps, clock)


def window_call(clock: str, window: Lengths, type_: DataType) -> str:
    """Spark's `window(ts, '10 seconds', '5 seconds')`."""
    steps = [window.range, window.slide, window.origin]
    while len(steps) > 1 and steps[-1] == (0 if len(steps) == 3 else window.range):
        steps.pop()
    written = (f"'{step} seconds'" if type_ == TIMESTAMP else str(step) for step in steps)
    return f"window({clock}, {', '.join(written)})"


def spelling(draw: DrawFn, table: Table, alias: str | None, window: Lengths, grouped: bool) -> Spelling:
    """A window over the only FROM item, in any of the ways that fit it."""
    item, clock = table.item(alias), table.clock_text(alias)
    ways: list[Callable[[], Spelling]] = [lambda: Spelling(f"{item} {bracket(draw, window, table.clock_type)}")]
    if clock is not None and table.is_named:
        ways.append(lambda: Spelling(_window_table(draw, table, alias, window)))
    if clock is not None and grouped and table.clock != "window_end":
        ways.append(lambda: Spelling(item, window_call(clock, window, table.clock_type)))
    return choose(draw, ways)()


def _window_table(draw: DrawFn, table: Table, alias: str | None, window: Lengths) -> str:
    """HOP, slide first, or TUMBLE; as RisingWave writes them, or as Flink does."""
    is_tumbling = window.slide == window.range
    steps = [*([] if is_tumbling else [window.slide]), window.range, *([window.origin] if window.origin else [])]
    name = "TUMBLE" if is_tumbling else "HOP"
    written = ", ".join(f"INTERVAL {step} SECONDS" if table.clock_type == TIMESTAMP else str(step) for step in steps)
    ways = (
        f"{name}({table.text}, {table.clock}, {written})",
        f"TABLE({name}(TABLE {table.text}, DESCRIPTOR({table.clock}), {written}))",
    )
    text = choose(draw, ways)
    return f"{text} AS {alias}" if alias else text
