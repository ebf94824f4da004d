"""Statements that nobody would write: seeded mutations of the golden corpus."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.sql.given import BINDER
from tests.support.golden import read_golden
from weft.sql import split

_EXAMPLES = Path(__file__).parents[2] / "examples"
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")

_NUMBERS = [
    "0",
    "1",
    "-1",
    "99999999999999999999",
    "9" * 50,
    "9" * 5000,
    "1e999",
    "0." + "1" * 60,
    "1e-400",
    "0x1F",
    "²",
    "٣",
]
_WORDS = [
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "UNION",
        "EXCEPT",
        "JOIN",
        "ON",
        "USING",
        "AS",
        "NOT",
        "IN",
        "IS",
    ),
    *("NULL", "CASE", "WHEN", "END", "INTERVAL", "CAST", "BETWEEN", "LIKE", "DISTINCT", "RETAIN", "EMIT EMPTY", "WITH"),
    *(
        "[",
        "]",
        "(",
        ")",
        "[RANGE 1 HOUR SLIDE 1 HOUR]",
        "[NOW]",
        "window(ts, '1 hour')",
        "HOP(",
        "TABLE(",
        "DESCRIPTOR(",
    ),
    *(
        "*",
        "::",
        "||",
        "<=>",
        "->",
        "=>",
        "{",
        "}",
        "@",
        "?",
        ":x",
        "$1",
        "--",
        "/*",
        "*/",
        "/*+ x */",
        ";",
        "\\",
        "'",
        '"',
        "`",
    ),
    *(
        "CREATE",
        "STREAM",
        "CONTINUOUS QUERY",
        "WATERMARK FOR",
        "OPTIONS (",
        "SET",
        "EXPLAIN (",
        "DROP",
        "VALUES",
        "LATERAL",
    ),
]
_EXPRESSIONS = [
    *(
        "NULL",
        "''",
        "'x'",
        "1.5",
        "1e3",
        "-2147483648",
        "TRUE",
        "ts",
        "symbol",
        "price",
        "qty",
        "fee",
        "day",
        "ok",
        "raw",
    ),
    *("INTERVAL 1 DAY", "INTERVAL -5 MINUTES * 9999999999999", "TIMESTAMP '9999-12-31 23:59:59'", "DATE '0001-01-01'"),
    *(
        "COUNT(*)",
        "COUNT(DISTINCT symbol)",
        "SUM(fee)",
        "MAX_BY(symbol, raw)",
        "PERCENTILE(price, 0.5)",
        "MEDIAN(NULL)",
    ),
    *(
        "window_start",
        "window.end",
        "hot.window_end",
        "t.symbol",
        "*",
        "t.*",
        "(SELECT 1)",
        "x[0]",
        "x.y.z",
        "f(a => 1)",
    ),
    *("CASE WHEN NULL THEN 1 END", "NULL IN (NULL)", "(1, 2)", "CAST(NULL AS DECIMAL(38, 38))", "NULLIF(NULL, NULL)"),
    *(
        "ROUND(fee, -5)",
        "ROUND(fee, NULL)",
        "DATE_TRUNC(NULL, ts)",
        "ts - ts",
        "- - fee",
        "fee / 0",
        "fee * fee * fee * fee",
    ),
]
_ODD = [
    "\x00",
    "\x07",
    "\x1b[31m",
    "\u200b",
    "\u202e",
    "\u2028",
    "é",
    "e\u0301",
    "日本",
    "🙂",
    "\ud800",
    "\r\n",
    "\t",
    "\ufeff",
    "ı",
    "ß",
]

Mutation = Callable[[random.Random, list[str]], list[str]]


@cache
def corpus() -> tuple[str, ...]:
    """Every statement of the golden files and of the examples."""
    golden = [_whole(example.statement) for path in sorted(BINDER.glob("*.sql")) for example in read_golden(path)]
    scripts = [BINDER / "given.sql", *sorted(_EXAMPLES.glob("*.sql"))]
    return (*golden, *(piece.text for path in scripts for piece in split(path.read_text(encoding="utf-8"))))


def _whole(statement: str) -> str:
    """A SELECT as the query that the golden files take it for."""
    is_select = statement.startswith(("SELECT", "WITH", "("))
    return f"CREATE CONTINUOUS QUERY q AS\n{statement}" if is_select else statement


def mutants(seed: int, count: int) -> Iterator[str]:
    """`count` statements, each some mutations away from a good or a bad one; the same ones for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        # What comes before the SELECT is mostly left alone: mistakes there hide all others.
        head, as_, tail = chance.choice(corpus()).partition(" AS\n")
        if not as_ or chance.random() < 0.1:
            head, as_, tail = "", "", head + as_ + tail
        tokens = _TOKEN.findall(tail)
        for _ in range(chance.choice((1, 1, 1, 1, 2, 5))):
            tokens = chance.choice(_MUTATIONS)(chance, tokens or [""])
        yield head + as_ + "".join(tokens)


def _place(chance: random.Random, tokens: list[str]) -> int:
    return chance.randrange(len(tokens))


def _delete(chance: random.Random, tokens: list[str]) -> list[str]:
    start = _place(chance, tokens)
    return tokens[:start] + tokens[start + chance.choice((1, 1, 2, 5)) :]


def _duplicate(chance: random.Random, tokens: list[str]) -> list[str]:
    start = _place(chance, tokens)
    return tokens[:start] + tokens[start : start + 3] * chance.choice((2, 2, 3, 50)) + tokens[start + 3 :]


def _swap(chance: random.Random, tokens: list[str]) -> list[str]:
    swapped = list(tokens)
    first, second = _place(chance, tokens), _place(chance, tokens)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return swapped


def _truncate(chance: random.Random, tokens: list[str]) -> list[str]:
    cut = _place(chance, tokens)
    return tokens[:cut] if chance.random() < 0.7 else tokens[cut:]


def _insert_word(chance: random.Random, tokens: list[str]) -> list[str]:
    start = _place(chance, tokens)
    return [*tokens[:start], f" {chance.choice(_WORDS)} ", *tokens[start:]]


def _replace_word(chance: random.Random, tokens: list[str]) -> list[str]:
    start = _place(chance, tokens)
    return [*tokens[:start], f" {chance.choice(_WORDS)} ", *tokens[start + 1 :]]


def _insert_number(chance: random.Random, tokens: list[str]) -> list[str]:
    places = [i for i, token in enumerate(tokens) if token.isdigit()] or range(len(tokens))
    start = chance.choice(places)
    return [*tokens[:start], chance.choice(_NUMBERS), *tokens[start + 1 :]]


def _insert_odd(chance: random.Random, tokens: list[str]) -> list[str]:
    start = _place(chance, tokens)
    return [*tokens[:start], chance.choice(_ODD), *tokens[start:]]


def _insert_noise(chance: random.Random, tokens: list[str]) -> list[str]:
    noise = "".join(chr(chance.choice((chance.randrange(256), chance.randrange(0x3000)))) for _ in range(8))
    start = _place(chance, tokens)
    return [*tokens[:start], noise, *tokens[start:]]


def _replace_alike(chance: random.Random, tokens: list[str]) -> list[str]:
    """A name, number or text in the place of another: most of these can still be parsed."""
    kind = chance.choice((str.isidentifier, str.isdigit))
    places = [i for i, token in enumerate(tokens) if kind(token)]
    others = [token for token in _TOKEN.findall(chance.choice(corpus())) if kind(token)]
    if not places or not others:
        return tokens
    start = chance.choice(places)
    return [*tokens[:start], chance.choice(others), *tokens[start + 1 :]]


def _graft(chance: random.Random, tokens: list[str]) -> list[str]:
    """An expression in the place of a name."""
    places = [i for i, token in enumerate(tokens) if token.islower()]
    if not places:
        return tokens
    start = chance.choice(places)
    return [*tokens[:start], chance.choice(_EXPRESSIONS), *tokens[start + 1 :]]


def _splice(chance: random.Random, tokens: list[str]) -> list[str]:
    other = _TOKEN.findall(chance.choice(corpus()))
    return tokens[: _place(chance, tokens)] + other[_place(chance, other) :]


def _nest(chance: random.Random, tokens: list[str]) -> list[str]:
    opening, closing = chance.choice(
        (
            ("(", ")"),
            ("NOT ", ""),
            ("-", ""),
            ("abs(", ")"),
            ("CASE WHEN ok THEN ", " END"),
            ("(SELECT * FROM ", ") AS x"),
        )
    )
    depth = chance.choice((1, 3, 30, 60, 300))
    start = _place(chance, tokens)
    return [*tokens[:start], opening * depth, tokens[start], closing * depth, *tokens[start + 1 :]]


_MUTATIONS: tuple[Mutation, ...] = (
    *(_delete, _delete, _duplicate, _swap, _swap, _truncate, _insert_word, _replace_word, _replace_word),
    *(_insert_number, _insert_odd, _insert_noise, _splice, _nest),
    *(_replace_alike, _replace_alike, _replace_alike, _graft, _graft, _graft, _graft),
)
