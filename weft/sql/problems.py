"""What the front end says when it cannot accept a statement.

Every error has a stable code (listed in `docs/errors.md`), a place in the text, and a sentence that says what to do.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum

from weft.algebra.secrets import shown_sql


class Code(Enum):
    """Stable error codes: the first digit is the part of the language."""

    SYNTAX = "W101"
    UNTERMINATED = "W102"
    UNKNOWN_STATEMENT = "W103"
    TOO_DEEP = "W104"
    UNKNOWN_SOURCE = "W201"
    UNKNOWN_COLUMN = "W202"
    AMBIGUOUS_COLUMN = "W203"
    ALREADY_EXISTS = "W204"
    DUPLICATE_ALIAS = "W205"
    DUPLICATE_OUTPUT = "W206"
    UNKNOWN_NAME = "W207"
    IN_USE = "W208"
    TYPE_MISMATCH = "W301"
    BAD_ARGUMENTS = "W302"
    UNKNOWN_FUNCTION = "W303"
    UNKNOWN_TYPE = "W304"
    BAD_LITERAL = "W305"
    NOT_BOOLEAN = "W306"
    BAD_WINDOW = "W401"
    NEEDS_WINDOW = "W402"
    WINDOWS_DIFFER = "W403"
    NOT_THE_CLOCK = "W404"
    BAD_DURATION = "W405"
    UNBOUNDED_JOIN = "W406"
    NEEDS_RETAIN = "W407"
    MISPLACED_OPTION = "W408"
    NOTHING_FLOWS = "W409"
    READS_VERSIONS = "W410"
    NOT_GROUPED = "W501"
    MISPLACED_AGGREGATE = "W502"
    BAD_STREAM = "W601"
    BAD_WATERMARK = "W602"
    BAD_TABLE = "W603"
    BAD_NAME = "W604"
    BAD_SETTING = "W701"
    FOLDER_TAKEN = "W702"
    NOT_ALLOWED = "W703"
    NO_ORDER = "W801"
    UNSUPPORTED = "W901"

    @property
    def is_note(self) -> bool:
        """Whether it says something about a statement that is good."""
        return self is Code.NO_ORDER


#: Characters of a line that are shown around the caret, and of a sentence.
_WIDEST_LINE = 160
_LONGEST_SENTENCE = 400


@dataclass(frozen=True)
class Span:
    """The characters [start, end) of a script."""

    start: int
    end: int


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where, and what to do about it."""

    code: Code
    message: str
    span: Span
    hint: str = ""

    def shifted(self, by: int) -> Problem:
        """The same problem in a text that starts `by` characters earlier."""
        return replace(self, span=Span(self.span.start + by, self.span.end + by))

    def line_and_column(self, text: str) -> tuple[int, int]:
        """Where it is in `text`, both counted from 1."""
        start = min(self.span.start, len(text))
        return text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1

    def render(self, text: str, file: str = "<sql>") -> str:
        """The problem as a person reads it: code, place, the line with a caret under it, and the advice.

        error[W201]: stream 'trade' is unknown
         --> app.sql:3:18
          |
        3 | SELECT * FROM trade
          |               ^^^^^ did you mean 'trades'?
        """
        line, column = self.line_and_column(text)
        source = _printable(shown_sql(text).split("\n")[line - 1].rstrip("\r"))
        source, start = _around(source, column - 1)
        before, marked = source[:start], source[start:][: self.span.end - self.span.start]
        # A caret lines up only if tabs before it are kept as tabs.
        pad = "".join("\t" if ch == "\t" else " " * _cells(ch) for ch in before)
        width = max(1, sum(_cells(ch) for ch in marked))
        gutter = " " * len(str(line))
        return (
            f"{'note' if self.code.is_note else 'error'}[{self.code.value}]: {_printable(self.message)}\n"
            f"{gutter}--> {file}:{line}:{column}\n"
            f"{gutter} |\n"
            f"{line} | {source}\n"
            f"{gutter} | {pad}{'^' * width} {_printable(self.hint)}".rstrip()
        )


def _around(line: str, place: int) -> tuple[str, int]:
    """The part of a line that is shown, and where a place of the line is in it. Programs write lines of a megabyte."""
    if len(line) <= _WIDEST_LINE:
        return line, place
    first = max(0, min(place - _WIDEST_LINE // 4, len(line) - _WIDEST_LINE))
    last = first + _WIDEST_LINE
    front, back = "…" * (first > 0), "…" * (last < len(line))
    return f"{front}{line[first:last]}{back}", place - first + len(front)


def _shortened(sentence: str) -> str:
    """A sentence that may quote the statement, without the middle of it if it is long."""
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    half = _LONGEST_SENTENCE // 2
    return f"{sentence[:half]}…{sentence[-half:]}"


def _printable(line: str) -> str:
    """A line without characters that would move the cursor of a terminal."""
    return "".join(ch if ch == "\t" or unicodedata.category(ch) not in ("Cc", "Zl", "Zp") else "\ufffd" for ch in line)


def _cells(character: str) -> int:
    """How many columns of a terminal a character fills."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


class SqlError(Exception):
    """A statement was refused. `problems` says why; there is always at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.code.value}: {p.message}" for p in self.problems))

    @classmethod
    def one(cls, code: Code, message: str, span: Span, hint: str = "") -> SqlError:
        return cls([Problem(code, _shortened(message), span, _shortened(hint))])

    def shifted(self, by: int) -> SqlError:
        """The same error in a text that starts `by` characters earlier."""
        return SqlError(problem.shifted(by) for problem in self.problems)

    def render(self, text: str, file: str = "<sql>") -> str:
        return "\n\n".join(problem.render(text, file) for problem in self.problems)


class ProblemList:
    """The problems of several clauses: a mistake in one does not hide those in the next."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Add the problems of an SqlError raised inside, and go on."""
        try:
            yield
        except SqlError as error:
            self._problems.extend(problem for problem in error.problems if problem not in self._problems)

    def raise_any(self) -> None:
        """Raise SqlError if there are problems, in the order of their places."""
        if self._problems:
            raise SqlError(sorted(self._problems, key=lambda problem: problem.span.start))


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint that names the known name which is a slip of the finger away, if there is one."""
    # One letter in three may be wrong: most words of two letters are no misspelt others.
    name, most = name.lower(), 1 if len(name) < 6 else 2
    near = [
        (distance, folded, each)
        for folded, each in {each.lower(): each for each in known}.items()
        if abs(len(folded) - len(name)) <= most
        and (distance := _slips(name, folded)) <= min(most, max(len(name), len(folded)) // 3)
    ]
    return f"did you mean '{min(near)[2]}'?" if near else otherwise


def _slips(left: str, right: str) -> int:
    """How many letters are added, left out, replaced or swapped with their neighbour."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        earlier, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
    return row[-1]
