"""Advice for statements at which the parser stops: spellings of other systems, recognised by their words.

The parser knows the token at which it stopped. What was meant shows in the words there, or in the function whose
parentheses it stopped in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

_WINDOW = "put the window after the stream in FROM: FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES], or HOP, or TUMBLE"
_COLUMN = "a column has a name and a type, and no more"
_LIMIT = "answers have no order; keep the top rows where you read them"


@dataclass(frozen=True)
class Advice:
    """What is wrong, what to do, and the number of the token to point at."""

    message: str
    hint: str
    at: int


#: Words at which the parser stops, and what to say there.
_AT: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("WINDOW", "TUMBLING"), "WINDOW TUMBLING is not supported", _WINDOW),
    (("WINDOW", "HOPPING"), "WINDOW HOPPING is not supported", _WINDOW),
    (("WINDOW", "SESSION"), "WINDOW SESSION is not supported", "windows have a fixed length: [RANGE … SLIDE …]"),
    (("WINDOW",), "the WINDOW clause is not supported", "there is no OVER; aggregate over a window in FROM"),
    (("EMIT", "CHANGES"), "EMIT CHANGES is not supported", "drop it: without a window every change is an answer"),
    (("EMIT", "FINAL"), "EMIT FINAL is not supported", "drop it: with a window the answer comes when it has closed"),
    (("EMIT",), "EMIT is only followed by EMPTY", "write EMIT EMPTY, or drop it"),
    (("FETCH",), "FETCH is not supported", _LIMIT),
    (
        ("MATCH_RECOGNIZE",),
        "MATCH_RECOGNIZE is not supported",
        "patterns over rows are not supported; join the stream with itself",
    ),
    (("NOT", "NULL"), "NOT NULL is not supported", f"{_COLUMN}; a query can say WHERE x IS NOT NULL"),
    (("PRIMARY", "KEY"), "PRIMARY KEY is not supported", f"{_COLUMN}; SELECT DISTINCT … RETAIN … drops repetitions"),
    (("PRIMARY KEY",), "PRIMARY KEY is not supported", f"{_COLUMN}; SELECT DISTINCT … RETAIN … drops repetitions"),
    (("PARTITIONED", "BY"), "PARTITIONED BY is not supported", "folders such as day=1 are read as they are"),
    (("PARTITIONED BY",), "PARTITIONED BY is not supported", "folders such as day=1 are read as they are"),
    (("LOCATION",), "LOCATION is not supported", "write OPTIONS (path '…')"),
    (("WITH", "("), "WITH (…) is not supported", "write USING format OPTIONS (name 'value', …)"),
    (("CASCADE",), "CASCADE is not supported", "drop what reads it first"),
    (("RESTRICT",), "RESTRICT is not supported", "drop the word: what others read is never dropped"),
)

#: Calls in whose parentheses the parser stops, because it reads only arguments with commas between them.
_INSIDE: dict[str, tuple[str, str]] = {
    "SESSION": ("SESSION is not supported", "windows have a fixed length: [RANGE … SLIDE …], HOP or TUMBLE"),
    "CUMULATE": ("CUMULATE is not supported", "use [RANGE … SLIDE …], HOP or TUMBLE, or a query for each length"),
    "MATCH_RECOGNIZE": (
        "MATCH_RECOGNIZE is not supported",
        "patterns over rows are not supported; join the stream with itself",
    ),
    "TRIM": (
        "TRIM takes a text and nothing else",
        "write TRIM(s), LTRIM(s) or RTRIM(s); REPLACE(s, x) removes every x",
    ),
    "SUBSTRING": ("SUBSTRING takes its arguments with commas", "write SUBSTRING(s, 1, 2)"),
    "SUBSTR": ("SUBSTR takes its arguments with commas", "write SUBSTR(s, 1, 2)"),
    "OVERLAY": ("OVERLAY is not supported", "write SUBSTRING(s, 1, n) || x || SUBSTRING(s, m)"),
    "POSITION": ("POSITION is not supported", "CONTAINS(s, x) says whether x is in s"),
}


def advice(tokens: Sequence[Token], stopped: int) -> Advice | None:
    """What to say of a statement whose parser stopped at a token; None if nothing of it is known."""
    return at_token(tokens, stopped) or _inside_a_call(tokens, stopped)


def at_token(tokens: Sequence[Token], stopped: int) -> Advice | None:
    """What to say of the words at a token."""
    here = tuple(token.text.upper() for token in tokens[stopped : stopped + 2])
    for words, message, hint in _AT:
        if here[: len(words)] == words:
            return Advice(message, hint, stopped)
    if here and stopped and tokens[stopped - 1].text.upper() == "TOP":
        return Advice("TOP is not supported", _LIMIT, stopped - 1)
    return None


def _inside_a_call(tokens: Sequence[Token], stopped: int) -> Advice | None:
    # The parser may stop at the parenthesis itself, or anywhere behind it.
    at_opening = stopped < len(tokens) and tokens[stopped].token_type == TokenType.L_PAREN
    opening = stopped if at_opening else _enclosing(tokens, stopped)
    while opening:
        found = _INSIDE.get(tokens[opening - 1].text.upper())
        if found is not None:
            return Advice(*found, at=opening - 1)
        opening = _enclosing(tokens, opening)
    return None


def _enclosing(tokens: Sequence[Token], position: int) -> int | None:
    """The parenthesis that is open at a token, and was opened before it."""
    depth = 0
    for index in range(min(position, len(tokens)) - 1, -1, -1):
        if tokens[index].token_type == TokenType.R_PAREN:
            depth += 1
        elif tokens[index].token_type == TokenType.L_PAREN:
            if depth == 0:
                return index
            depth -= 1
    return None
