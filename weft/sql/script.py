"""Cuts a script into statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement of a script, without its semicolon, and where it starts."""

    text: str
    start: int


def split(script: str) -> Iterator[Piece]:
    """The statements of a script, separated by semicolons outside of quotes and comments.

    Cutting is done before parsing so that one bad statement does not hide the mistakes in the next. For the same reason
    a quote or comment that is never closed ends its statement at the first line that ends in a semicolon. A script with
    such a quote is cut a second time: then a quote that reaches over the beginning of a statement is not closed either,
    since it is the next quote, and not its own, that seems to close it.
    """
    try:
        yield from list(_pieces(script, is_whole=True))
    except _NeverClosed:
        yield from _pieces(script, is_whole=False)


class _NeverClosed(Exception):
    """A quote or comment of the script is not closed."""


def _pieces(script: str, *, is_whole: bool) -> Iterator[Piece]:
    """The statements; `is_whole` expects that all quotes are closed."""
    start = position = 0
    while position < len(script):
        position = _end_of_statement(script, position, is_whole)
        piece = _trimmed(script, start, position)
        if piece is not None:
            yield piece
        position += 1
        start = position


#: What ends a statement, or begins something in which a semicolon does not.
_MARK = re.compile(r";|['\"`]|--|/\*")

#: The end of a line that ends a statement, and a line after it that begins one.
_NEXT_STATEMENT = re.compile(
    r";[ \t]*(--[^\n]*)?\n(\s|--[^\n]*\n)*(CREATE|DROP|ALTER|SHOW|DESCRIBE|EXPLAIN|SET)\s", re.IGNORECASE
)


def _end_of_statement(script: str, position: int, is_whole: bool) -> int:
    while mark := _MARK.search(script, position):
        start = mark.start()
        if mark[0] == ";":
            return start
        if mark[0] == "--":
            end: int | None = _end_of_line(script, start)
        elif mark[0] == "/*":
            close = script.find("*/", start + 2)
            end = None if close < 0 else close + 2
        else:
            end = _end_of_quote(script, start)
        if end is None and is_whole:
            raise _NeverClosed
        if end is None or (not is_whole and mark[0] != "--" and _NEXT_STATEMENT.search(script, start, end)):
            return _recovery_point(script, start)
        position = end
    return len(script)


def _end_of_quote(script: str, position: int) -> int | None:
    quote = script[position]
    position += 1
    while position < len(script):
        if script[position] == "\\" and quote != "`":
            position += 2
        elif script[position] == quote:
            if not script.startswith(quote, position + 1):
                return position + 1
            position += 2
        else:
            position += 1
    return None


def _end_of_line(script: str, position: int) -> int:
    end = script.find("\n", position)
    return len(script) if end < 0 else end


def _recovery_point(script: str, position: int) -> int:
    """The semicolon that ends the first line, from `position` on, that ends in one."""
    while position < len(script):
        end = _end_of_line(script, position)
        line = script[position:end].rstrip()
        if line.endswith(";"):
            return position + len(line) - 1
        position = end + 1
    return len(script)


def _trimmed(script: str, start: int, end: int) -> Piece | None:
    """The statement without white space and comments around it, or None if nothing is left."""
    while start < end:
        if script[start].isspace():
            start += 1
        elif script.startswith("--", start):
            start = min(end, _end_of_line(script, start))
        elif script.startswith("/*", start) and (close := script.find("*/", start + 2, end)) >= 0:
            start = close + 2
        else:
            return Piece(script[start:end].rstrip(), start)
    return None
