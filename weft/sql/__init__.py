"""Text to bound statements.

for piece in split(script):
    statement = read(piece.text, names)     # raises SqlError
"""

from weft.sql import statements
from weft.sql.binder import bind, bind_or_repeat
from weft.sql.check import split
from weft.sql.dialect import parse
from weft.sql.names import Names, NamesInMemory
from weft.sql.problems import Code, Problem, Span, SqlError


def read(text: str, names: Names) -> statements.Statement:
    """The bound form of one statement. Raises SqlError; positions in it count from the start of `text`."""
    return bind(parse(text), names, text)


__all__ = [
    "Code",
    "Names",
    "NamesInMemory",
    "Problem",
    "Span",
    "SqlError",
    "bind",
    "bind_or_repeat",
    "parse",
    "read",
    "split",
    "statements",
]
