"""Random dashboards: many windowed aggregates over one stream, and what happens to the engine that answers them."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from tests.runtime.workload_run import UNCOMMITTED, Run
from tests.support.generator import Cycle, Row
from weft.algebra import Value

_COLUMNS = (
    "sym STRING, venue STRING, qty BIGINT, num INT, price DOUBLE, amount DECIMAL(8, 2), flag BOOLEAN, "
    "wide DECIMAL(38, 6)"
)
_WIDEST = Decimal("987654321098765432109876543210.987654")
_VALUES: Mapping[str, tuple[Value, ...]] = {
    "sym": ("a", "b", "c", "d", "", None),
    "venue": ("x", "y", None),
    "qty": (0, 1, 2, 5, -3, 9223372036854775807, -9223372036854775808, None),
    "num": (0, 1, 2, 7, -2147483648, None),
    "price": (0.0, -0.0, 0.5, 1.5, -2.25, 100.0, 1e9, math.nan, math.inf, -math.inf, None),
    "amount": (Decimal("0.00"), Decimal("1.25"), Decimal("-2.50"), Decimal("999999.99"), None),
    "flag": (True, False, None),
    "wide": (Decimal("0.000001"), Decimal("-123456789012345678901234567890.123456"), _WIDEST, Decimal(-7), None),
}
_FUNCTIONS = (
    "COUNT(*)",
    "COUNT({numeric})",
    "SUM({numeric})",
    "AVG({numeric})",
    "MIN({ordered})",
    "MAX({ordered})",
    "STDDEV({numeric})",
    "VAR_POP({numeric})",
    "MIN_BY({ordered}, {measured})",
    "MAX_BY({measured}, {ordered})",
    "ROUND(MAX(price), 1)",
    "COALESCE(SUM({numeric}), 0)",
    "SUM(amount) / NULLIF(COUNT({numeric}), 0)",
    "GREATEST(MIN(num), COUNT(*) % 3)",
    "CASE WHEN COUNT({numeric}) > 2 THEN 'many' WHEN MIN(sym) < 'c' THEN MIN(sym) END",
)
_FUNCTIONS_OF_ROWS = ("MEDIAN(price)", "COUNT(DISTINCT sym)")
_NUMERIC = ("qty", "num", "price", "amount", "price * 2", "qty % 3", "wide")
_ORDERED = ("qty", "num", "price", "amount", "n", "flag", "sym", "wide")
_KEYS = ("sym", "venue", "sym, venue", "num", "qty % 2", "flag", "", "", "amount")
_HAVINGS = (
    "",
    "",
    "",
    "COUNT(*) > 1",
    "SUM(qty) > 0",
    "MAX(price) >= 1.5",
    "AVG(price) < 10 OR COUNT(num) = 0",
    "ABS(SUM(amount)) > 1.25",
)


@dataclass(frozen=True)
class Story:
    """What an engine goes through: cycles of rows, queries that come and go, restarts and crashes, by cycle."""

    stream: str
    queries: Mapping[str, str]
    cycles: tuple[Cycle, ...]
    restarts: frozenset[int]
    crashes: Mapping[int, str]


def story(seed: int, most_queries: int, *, alone: float = 0.3, cycles: int = 6, rows: int = 14) -> Story:
    """A random story; a seed tells always the same. `alone` is the share of queries that are evaluated from rows."""
    chance = random.Random(seed)
    delay, backfill = chance.choice((0, 3, 12)), chance.choice(("", "", "", " BACKFILL 30", " BACKFILL 500"))
    stream = f"CREATE STREAM trades (n BIGINT, {_COLUMNS}) WATERMARK FOR n AS n - {delay} USING memory{backfill}"
    queries = {f"q{number}": _query(chance, number, alone) for number in range(chance.randint(1, most_queries))}
    waiting, standing, told = list(queries), [], []
    clock = chance.choice((0, -40, 1_000_000))
    for number in range(cycles):
        created = waiting if number == cycles - 2 else [name for name in waiting if chance.random() < 0.5]
        dropped = [name for name in standing if chance.random() < 0.1]
        waiting = [name for name in waiting if name not in created]
        standing = [name for name in [*standing, *created] if name not in dropped]
        clock += chance.choice((0, 4, 15, 15, 40, 300))
        arriving = [_row(chance, clock) for _ in range(chance.choice((0, rows, rows, rows)))]
        heartbeats = {"trades": clock + 30} if chance.random() < 0.15 else {}
        told.append(Cycle({"trades": arriving}, heartbeats, tuple(created), tuple(dropped)))
    later = range(1, cycles)
    return Story(
        stream,
        queries,
        tuple(told),
        frozenset(number for number in later if chance.random() < 0.25),
        {number: chance.choice(UNCOMMITTED) for number in later if chance.random() < 0.25},
    )


def _row(chance: random.Random, clock: int) -> Row:
    n = None if chance.random() < 0.02 else clock - chance.choice((0, 1, 2, 3, 5, 8, 13, 14, 30))
    return {"n": n, **{name: chance.choice(values) for name, values in _VALUES.items()}}


def _query(chance: random.Random, number: int, alone: float) -> str:
    range_ = chance.choice((1, 2, 5, 6, 10, 12, 20, 30))
    slide = chance.choice(tuple(each for each in (1, 2, 3, 4, 5, 6, 10, 12, 20, 33) if range_ / each <= 10))
    origin = chance.choice(("", "", "", " ORIGIN 1", " ORIGIN 3"))
    key = chance.choice(_KEYS)
    listed = [_function(chance) for _ in range(chance.randint(1, 3))]
    having, sharing = chance.choice(_HAVINGS), ""
    if chance.random() < alone:
        listed, sharing = chance.choice((([*listed, chance.choice(_FUNCTIONS_OF_ROWS)], ""), (listed, " SHARING OFF")))
    select = ", ".join([*([key] if key else []), *(f"{each} AS v{place}" for place, each in enumerate(listed))])
    window = f" [ROWS {range_} SLIDE {slide}{origin}]"
    if chance.random() < 0.25:
        # An aggregate that never closes; one that keeps all values must say so.
        window = " [RANGE UNBOUNDED]" if any("DISTINCT" in each or "MEDIAN" in each for each in listed) else ""
    empty = " EMIT EMPTY" if not key and "SLIDE" in window and chance.random() < 0.4 else ""
    return (
        f"CREATE CONTINUOUS QUERY q{number}{sharing} AS SELECT {select} "
        f"FROM trades{window}{_where(chance)}"
        f"{f' GROUP BY {key}' if key else ''}{f' HAVING {having}' if having else ''}{empty}"
    )


def _function(chance: random.Random) -> str:
    drawn = {"numeric": _NUMERIC, "ordered": _ORDERED, "measured": _ORDERED}
    return chance.choice(_FUNCTIONS).format(**{name: chance.choice(values) for name, values in drawn.items()})


def _where(chance: random.Random) -> str:
    kinds = (
        lambda: f"qty {chance.choice(('<', '<=', '>', '>=', '='))} {chance.randint(-4, 6)}",
        lambda: (
            f"price {chance.choice(('<', '<=', '>', '>=', '='))} {chance.choice((-2.25, 0.0, 0.5, 1.0, 1.5, 99.5))}"
        ),
        lambda: f"sym {chance.choice(('=', '<>'))} '{chance.choice('abc')}'",
        lambda: "venue IS NOT NULL",
        lambda: f"(flag OR num > {chance.randint(-1, 8)})",
        lambda: f"amount > {chance.choice(('0', '1.25', '-3.5'))}",
    )
    chosen = [chance.choice(kinds)() for _ in range(chance.choice((0, 0, 1, 1, 2)))]
    return f" WHERE {' AND '.join(chosen)}" if chosen else ""


def disagreement(spark: SparkSession, told: Story, settings: Sequence[str] = ()) -> str:
    """How the engine differs from the oracle in the first cycle in which it does, or nothing.

    Of several settings each cycle takes the next one, and begins with a restart, since engines read them once.
    """
    with TemporaryDirectory(prefix="weft-woven-") as directory:
        run = Run(spark, Path(directory))
        try:
            run.queries = told.queries
            run.execute(told.stream)
            for number, arriving in enumerate(told.cycles):
                if settings and (number == 0 or len(settings) > 1):
                    run.loom.execute(settings[number % len(settings)])
                    run.restart()
                if number in told.restarts:
                    run.restart()
                run.crash_at = told.crashes.get(number)
                differs = run.cycle(arriving)
                if differs:
                    return differs
            return ""
        finally:
            run.close()
