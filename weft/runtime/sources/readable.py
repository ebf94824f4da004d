"""Spark SQL for people: inside the engine a stream's columns go by position, c0, c1, …; users know them by name."""

from __future__ import annotations

import re

from weft.algebra import Stream

#: A column, or a string, in which there are none.
_COLUMN = re.compile(r"'(?:[^'\\]|\\.)*'|\bc(\d+)\b", re.DOTALL)


def readable(text: str, stream: Stream) -> str:
    """A text of Spark SQL over a stream's rows, with its columns by name."""

    def named(found: re.Match[str]) -> str:
        if found[1] is None or int(found[1]) >= len(stream.fields):
            return found[0]
        return stream.fields[int(found[1])].name

    return _COLUMN.sub(named, text)
