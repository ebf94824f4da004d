"""Workloads whose queries have much in common: all that can be shared, from a few conditions, keys and windows."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise

from tests.support.generator import Cycle, Workload
from weft.algebra import Value

_COLUMNS = "n BIGINT, k INT, p INT, amount DECIMAL(8, 2), price DOUBLE, tag STRING"
#: Tables have the columns of streams; `n` is no clock there.
_TABLES = ("r", "s")
_CONDITIONS = (
    "{a}.amount > 10",
    "{a}.amount > 20",
    "{a}.amount BETWEEN 5 AND 25",
    "{a}.tag = 'a'",
    "{a}.tag <> 'b'",
    "{a}.price > 0",
    "({a}.price < 2.5 OR {a}.tag IS NULL)",
    "{a}.k + {a}.p > 2",
    "UPPER({a}.tag) = 'A'",
    "{a}.k IN (1, 2)",
)
_KEYS = ("{a}.k = {b}.k", "{a}.p = {b}.k", "{a}.tag = {b}.tag", "{a}.price = {b}.price", "{a}.k = {b}.p")
_OTHERS = (
    "{b}.amount > {a}.amount / 2",
    "{a}.amount < {b}.amount",
    "{a}.price <= {b}.price",
    "{a}.n < {b}.n",
    "{a}.amount + {b}.amount > 30",
)
_OUTPUTS = ("{a}.n", "{a}.amount", "{a}.tag", "{a}.price", "{a}.amount * 2", "{a}.k + 1", "CONCAT({a}.tag, 'x')")


def workload(seed: int, cycles: int = 6, queries: int = 8) -> Workload:
    """A workload of two streams and two tables, whose queries come and go."""
    pick = random.Random(seed)
    delays = {name: pick.choice((0, 2, 4)) for name in ("f", "g")}
    backfill = pick.choice(("", "", " BACKFILL 10"))
    streams = {
        name: f"CREATE STREAM {name} ({_COLUMNS}) WATERMARK FOR n AS n - {delay} USING memory{backfill}"
        for name, delay in delays.items()
    }
    texts = {f"q{number}": _query(pick, number) for number in range(queries)}
    waiting = [name for name in texts if name != "q0"]
    standing: list[str] = []
    result = []
    for number in range(cycles):
        count = len(waiting) if number == cycles - 2 else pick.randint(0, 4)
        create = ["q0"] if number == 0 else []
        create += [waiting.pop(0) for _ in range(min(count, len(waiting)))]
        drop = [standing.pop()] if standing and pick.random() < 0.3 else []
        standing += [name for name in create if name != "q0"]
        rows = {name: _rows(pick, 6 * number) for name in streams if pick.random() < 0.85}
        changed = {name: _rows(pick, 12) for name in _TABLES if number == 0 or pick.random() < 0.15}
        result.append(Cycle(rows, {}, tuple(create), tuple(drop), changed))
    tables = {name: f"CREATE TABLE {name} ({_COLUMNS}) USING memory" for name in _TABLES}
    return Workload(streams, texts, tuple(result), tables)


def _rows(pick: random.Random, now: int) -> list[dict[str, Value]]:
    def row() -> dict[str, Value]:
        return {
            "n": now + pick.randint(-5, 5),
            "k": pick.choice((0, 1, 2, None)),
            "p": pick.choice((0, 1, 2)),
            "amount": pick.choice((Decimal("7.50"), Decimal("15.00"), Decimal("30.25"), None)),
            "price": pick.choice((0.0, -0.0, 1.5, 3.0, math.nan, math.inf)),
            "tag": pick.choice(("a", "A", "b", None)),
        }

    return [row() for _ in range(pick.randint(1, 7))]


def _query(pick: random.Random, number: int) -> str:
    kinds: tuple[tuple[Callable[[random.Random], str], int], ...] = (
        (_selection, 3),
        (_join, 6),
        (_join_with_answers, 2),
        (_aggregate_of_join, 3),
        (_windowed_aggregate_of_join, 2),
        (_empty_windows, 2),
        (_join_of_aggregates, 3),
        (_aggregate_of_aggregates, 2),
        (_selection_of_aggregates, 2),
        (_sets_over_history, 2),
        (_sets_of_a_few, 3),
        (_sets_of_instances, 2),
        (_distinct, 2),
        (_join_with_tables, 6),
        (_windowed_join_with_table, 1),
    )
    if number == 0:
        # The query that others read.
        return f"CREATE CONTINUOUS QUERY q0 AS SELECT n, k, p, amount, price, tag FROM f WHERE {_condition(pick, 'f')}"
    (kind,) = pick.choices([each for each, _ in kinds], [weight for _, weight in kinds])
    return f"CREATE CONTINUOUS QUERY q{number} AS {kind(pick)}"


def _condition(pick: random.Random, alias: str) -> str:
    return pick.choice(_CONDITIONS).format(a=alias)


def _outputs(pick: random.Random, aliases: list[str]) -> str:
    chosen = [f"{pick.choice(_OUTPUTS).format(a=alias)} AS o{number}" for number, alias in enumerate(aliases)]
    return ", ".join([*chosen, f"{aliases[-1]}.n AS last"])


def _selection(pick: random.Random) -> str:
    stream = pick.choice("fg")
    conditions = " AND ".join(_condition(pick, stream) for _ in range(pick.randint(1, 3)))
    return f"SELECT {_outputs(pick, [stream])} FROM {stream} WHERE {conditions}"


def _join(pick: random.Random, sources: tuple[str, ...] = ()) -> str:
    count = max(len(sources) + 1, pick.choice((2, 2, 2, 3, 3, 4)))
    read = [*sources, *(pick.choice("ffg") for _ in range(count - len(sources)))]
    pick.shuffle(read)
    aliases = [f"t{number}" for number in range(count)]
    flowing = [alias for source, alias in zip(read, aliases, strict=True) if source not in _TABLES]
    window, conditions = _windows(pick, flowing) if len(flowing) > 1 else (lambda: "", [])
    for first, second in pairwise(aliases):
        if pick.random() < 0.8:
            conditions.append(pick.choice(_KEYS).format(a=first, b=second))
        if pick.random() < 0.4:
            conditions.append(pick.choice(_OTHERS).format(a=first, b=second))
    conditions += [_condition(pick, alias) for alias in aliases if pick.random() < 0.7]
    listed = ", ".join(
        f"{source}{window() if alias in flowing else ''} {alias}" for source, alias in zip(read, aliases, strict=True)
    )
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {_outputs(pick, aliases)} FROM {listed}{where}"


def _windows(pick: random.Random, aliases: list[str]) -> tuple[Callable[[], str], list[str]]:
    """Windows of a join's inputs, or bounds on their clocks."""
    kind = pick.choice(("range", "range", "slide", "bounds", "bounds", "unbounded"))
    if kind == "range":
        return lambda: f" [ROWS {pick.randint(1, 9)}]", []
    if kind == "slide":
        slide = pick.choice((2, 3))
        return lambda: f" [ROWS {pick.randint(slide, 9)} SLIDE {slide}]", []
    if kind == "unbounded":
        return lambda: " [RANGE UNBOUNDED]", []
    bounds = [
        f"{later}.n BETWEEN {earlier}.n - {pick.randint(0, 3)} AND {earlier}.n + {pick.randint(0, 8)}"
        for earlier, later in pairwise(aliases)
    ]
    return lambda: "", bounds


_AGGREGATES = (
    "COUNT(*)",
    "COUNT(j.amount)",
    "SUM(j.amount)",
    "AVG(j.amount)",
    "MIN(j.tag)",
    "MAX(j.price)",
    "SUM(j.price)",
    "STDDEV(j.k)",
    "MAX_BY(j.tag, j.p)",
    "MIN(j.amount + j.k)",
)
_GROUPED = "SELECT {keys}, {aggregates} FROM {source} j{window} GROUP BY {keys}{having}"


def _grouped(pick: random.Random, source: str, window: str = "") -> str:
    """An aggregate by one or two columns of rows that have k, p, amount, price and tag."""
    keys = ", ".join(pick.sample(("j.k", "j.p", "j.tag", "j.price"), pick.choice((1, 1, 2))))
    chosen = pick.sample(_AGGREGATES, pick.randint(1, 3))
    having = pick.choice(("", "", " HAVING COUNT(*) > 1", " HAVING SUM(j.amount) > 20"))
    aggregates = ", ".join(f"{each} AS a{number}" for number, each in enumerate(chosen))
    return _GROUPED.format(keys=keys, aggregates=aggregates, source=source, window=window, having=having)


def _slide(pick: random.Random) -> str:
    slide = pick.choice((2, 3))
    return f" [ROWS {slide * pick.choice((1, 2))} SLIDE {slide}]"


def _joined_rows(pick: random.Random) -> str:
    """A join that gives what aggregates are computed from."""
    window, bounds = _windows(pick, ["a", "b"])
    conditions = [*bounds, pick.choice(_KEYS).format(a="a", b="b")]
    conditions += [_condition(pick, alias) for alias in "ab" if pick.random() < 0.5]
    listed = "a.k, b.p, a.amount, b.price, b.tag"
    return f"(SELECT {listed} FROM f{window()} a, {pick.choice('fg')}{window()} b WHERE {' AND '.join(conditions)})"


def _aggregate_of_join(pick: random.Random) -> str:
    return _grouped(pick, _joined_rows(pick))


def _windowed_aggregate_of_join(pick: random.Random) -> str:
    return _grouped(pick, _joined_rows(pick), _slide(pick))


def _empty_windows(pick: random.Random) -> str:
    """Windows over joins, or over other windows, that are answered though no row is in them."""
    source = pick.choice((_joined_rows(pick), f"({_sums(pick, ' [ROWS 2 SLIDE 2]', 'r')})"))
    aggregates = pick.choice(("COUNT(*) AS c", "COUNT(*) AS c, MAX(j.k) AS most", "SUM(j.k) AS total"))
    where = pick.choice(("", "", " WHERE j.k > 0"))
    return f"SELECT {aggregates} FROM {source} j{_slide(pick)}{where} EMIT EMPTY"


def _sums(pick: random.Random, window: str, alias: str) -> str:
    having = pick.choice(("", f" HAVING SUM({alias}.amount) > {pick.choice((10, 20))}"))
    stream = pick.choice("fg")
    return (
        f"SELECT {alias}.k, SUM({alias}.amount) AS total, COUNT(*) AS c FROM {stream}{window} {alias} "
        f"GROUP BY {alias}.k{having}"
    )


def _join_of_aggregates(pick: random.Random) -> str:
    window = _slide(pick)
    return (
        f"WITH x AS ({_sums(pick, window, 'r')}), y AS ({_sums(pick, window, 's')}) "
        "SELECT x.k, x.total, y.total AS other FROM x [NOW] x, y [NOW] y "
        f"WHERE x.k = y.k AND x.c >= {pick.choice((0, 1, 2))}"
    )


def _aggregate_of_aggregates(pick: random.Random) -> str:
    inner = _sums(pick, " [ROWS 2 SLIDE 2]", "r")
    outer = pick.choice((" [ROWS 4 SLIDE 4]", " [ROWS 4 SLIDE 2]", " [RANGE UNBOUNDED]"))
    return f"SELECT j.k, MAX(j.total) AS most, SUM(j.c) AS rows_counted FROM ({inner}) j{outer} GROUP BY j.k"


def _selection_of_aggregates(pick: random.Random) -> str:
    inner = _sums(pick, pick.choice((_slide(pick), "")), "r")
    return f"SELECT j.k + 1 AS next, j.total FROM ({inner}) j WHERE j.c > {pick.choice((0, 1))}"


def _operand(pick: random.Random) -> str:
    if pick.random() < 0.3:
        return f"SELECT j.k, j.tag FROM {_joined_rows(pick)} j"
    return f"SELECT k, tag FROM {pick.choice('fg')} WHERE {_condition(pick, 'f')}".replace("f.", "")


def _sets_over_history(pick: random.Random) -> str:
    count = pick.choice((2, 2, 3))
    operator = pick.choice(("UNION", "INTERSECT", "EXCEPT", "UNION ALL"))
    text = f" {operator} ".join(_operand(pick) for _ in range(count))
    return text if operator == "UNION ALL" else f"{text} RETAIN {pick.choice(('4', '9', 'UNBOUNDED'))}"


def _sets_of_a_few(pick: random.Random) -> str:
    """Operands that other queries have as well, in any order."""
    operands = [f"SELECT k, tag FROM {stream} WHERE p = {p}" for stream, p in (("f", 0), ("f", 1), ("g", 0), ("g", 2))]
    operator = pick.choice(("UNION", "UNION", "INTERSECT", "EXCEPT", "UNION ALL"))
    text = f" {operator} ".join(pick.choices(operands, k=pick.choice((2, 3, 4))))
    return text if operator == "UNION ALL" else f"{text} RETAIN {pick.choice(('9', 'UNBOUNDED', 'UNBOUNDED'))}"


def _sets_of_instances(pick: random.Random) -> str:
    window, operator = _slide(pick), pick.choice(("UNION", "INTERSECT", "EXCEPT", "UNION ALL", "EXCEPT ALL"))
    sides = (f"SELECT {a}.k FROM {pick.choice('fg')}{window} {a} GROUP BY {a}.k HAVING COUNT(*) > 0" for a in "rs")
    return f" {operator} ".join(sides)


def _distinct(pick: random.Random) -> str:
    rows = pick.choice(("SELECT DISTINCT k, tag FROM f", "SELECT DISTINCT j.k, j.price FROM {joined} j"))
    return f"{rows.format(joined=_joined_rows(pick))} RETAIN {pick.choice(('5', 'UNBOUNDED'))}"


def _join_with_answers(pick: random.Random) -> str:
    return _join(pick, ("q0",))


def _join_with_tables(pick: random.Random) -> str:
    return _join(pick, pick.choice((("r",), ("r",), ("s",), ("r", "s"), ("r", "r"), ("q0", "r"))))


def _windowed_join_with_table(pick: random.Random) -> str:
    """A window on the only input that flows is that of the select."""
    key, condition = pick.choice(_KEYS).format(a="a", b="b"), _condition(pick, "b")
    return f"SELECT b.tag, COUNT(*) AS c FROM f [ROWS 6 SLIDE 3] a, r b WHERE {key} AND {condition} GROUP BY b.tag"
