"""Scripts: cutting them into statements, and finding every mistake in them without registering anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from weft.algebra import Query
from weft.sql import dialect, statements
from weft.sql.binder import bind_or_repeat
from weft.sql.names import Names, NamesInMemory
from weft.sql.problems import Problem, SqlError


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a script, without its semicolon, and where it starts."""

    text: str
    start: int


def split(script: str) -> Iterator[StatementText]:
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


def _pieces(script: str, *, is_whole: bool) -> Iterator[StatementText]:
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


def _trimmed(script: str, start: int, end: int) -> StatementText | None:
    """The statement without white space and comments around it, or None if nothing is left."""
    while start < end:
        if script[start].isspace():
            start += 1
        elif script.startswith("--", start):
            start = min(end, _end_of_line(script, start))
        elif script.startswith("/*", start) and (close := script.find("*/", start + 2, end)) >= 0:
            start = close + 2
        else:
            return StatementText(script[start:end].rstrip(), start)
    return None


@dataclass(frozen=True)
class CheckedStatement:
    """One statement of a script that was found good, and where it starts."""

    statement: statements.Statement
    start: int


@dataclass(frozen=True)
class CheckReport:
    """What a check found. `notes` say what is worth knowing of good statements.

    `skipped` counts statements that build on a refused one: nothing can be said of them.
    """

    good: tuple[CheckedStatement, ...]
    problems: tuple[Problem, ...]
    skipped: int
    notes: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def good_count(self) -> int:
        return len(self.good)

    @property
    def queries(self) -> tuple[Query, ...]:
        """The queries that the script creates and does not drop again, in order."""
        left: dict[str, Query] = {}
        for each in self.good:
            match each.statement:
                case statements.Create(Query() as query):
                    left[query.name.lower()] = query
                case statements.Drop(_, name):
                    left.pop(name.lower(), None)
        return tuple(left.values())


def check(script: str, names: Names | None = None) -> CheckReport:
    """Reads and binds every statement of a script, each on top of the good ones before it.

    A statement that names an object whose own CREATE was refused is skipped: the first mistake is the one to mend.
    """
    known = NamesInMemory(names)
    refused: set[str] = set()
    good: list[CheckedStatement] = []
    problems: list[Problem] = []
    notes: list[Problem] = []
    skipped = 0
    for piece in split(script):
        tree: exp.Expr | None = None
        try:
            tree = dialect.parse(piece.text)
            if _mentioned(tree) & refused:
                refused |= _created(tree)
                skipped += 1
                continue
            statement = bind_or_repeat(tree, known, piece.text)
        except SqlError as error:
            problems.extend(error.shifted(piece.start).problems)
            refused |= _created(tree) if tree is not None else _created_by_text(piece.text)
            continue
        if isinstance(statement, statements.Create):
            notes += [note.shifted(piece.start) for note in statement.notes]
            known.add(statement.definition)
        elif isinstance(statement, statements.Drop):
            known.drop(statement.name)
        good.append(CheckedStatement(statement, piece.start))
    return CheckReport(tuple(good), tuple(problems), skipped, tuple(notes))


def _created(tree: exp.Expr) -> set[str]:
    if isinstance(tree, (dialect.StreamNode, dialect.TableNode, dialect.QueryNode, dialect.ViewNode)):
        return {tree.this.name.lower()}
    return set()


def _created_by_text(text: str) -> set[str]:
    """The name that a statement which cannot be parsed would have created, as far as one can tell."""
    words = re.sub(r"(?i)\bIF\s+NOT\s+EXISTS\b", "", text.replace("(", " ")).split()
    if len(words) > 2 and words[0].upper() == "CREATE":
        name = words[3] if words[1].upper() == "CONTINUOUS" and len(words) > 3 else words[2]
        return {name.strip("`").lower()}
    return set()


def _mentioned(tree: exp.Expr) -> set[str]:
    named = {table.name.lower() for table in tree.find_all(exp.Table)}
    if isinstance(tree, (dialect.DropNode, dialect.DescribeNode, dialect.ResumeNode)) or (
        isinstance(tree, dialect.ExplainNode) and tree.this is not None
    ):
        named.add(tree.this.name.lower())
    return named
