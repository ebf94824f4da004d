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
    a quote or comment that is never closed ends its statement at the first line that ends in a semicolon. In a script
    with such a quote, one that reaches over the beginning of a statement is not closed either, since it is the next
    quote, and not its own, that seems to close it.
    """
    is_whole = not any(mark["open"] for mark in _MARK.finditer(script))
    start = 0
    while start < len(script):
        end = _end_of_statement(script, start, is_whole)
        blank = _BLANK.match(script, start, end)
        assert blank is not None
        if blank.end() < end:
            yield StatementText(script[blank.end() : end].rstrip(), blank.end())
        start = end + 1


#: What ends a statement, something in which a semicolon does not, or the opening of such a thing that is never closed.
_MARK = re.compile(
    r""";|--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`(?:[^`]|``)*+`|(?P<open>['"`]|/\*)""",
    re.DOTALL,
)

#: White space and comments before a statement.
_BLANK = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*+", re.DOTALL)

#: A semicolon that ends a line.
_LAST_OF_LINE = re.compile(r";(?=[^\S\n]*(?:\n|\Z))")

#: The end of a line that ends a statement, and a line after it that begins one.
_NEXT_STATEMENT = re.compile(
    r";[ \t]*(--[^\n]*)?\n(\s|--[^\n]*\n)*(CREATE|DROP|ALTER|SHOW|DESCRIBE|EXPLAIN|SET)\s", re.IGNORECASE
)


def _end_of_statement(script: str, position: int, is_whole: bool) -> int:
    for mark in _MARK.finditer(script, position):
        if mark[0] == ";":
            return mark.start()
        if mark["open"] or (not is_whole and not mark[0].startswith("--") and _NEXT_STATEMENT.search(mark[0])):
            recovered = _LAST_OF_LINE.search(script, mark.start())
            return len(script) if recovered is None else recovered.start()
    return len(script)


@dataclass(frozen=True)
class CheckReport:
    """What a check found. `notes` say what is worth knowing of good statements.

    `skipped` counts statements that build on a refused one: nothing can be said of them.
    """

    good: tuple[statements.Statement, ...]
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
            match each:
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
    good: list[statements.Statement] = []
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
        good.append(statement)
    return CheckReport(tuple(good), tuple(problems), skipped, tuple(notes))


def _created(tree: exp.Expr) -> set[str]:
    return {tree.this.name.lower()} if tree.args.get("verb") == "CREATE" else set()


def _created_by_text(text: str) -> set[str]:
    """The name that a statement which cannot be parsed would have created, as far as one can tell."""
    words = re.sub(r"(?i)\bIF\s+NOT\s+EXISTS\b", "", text.replace("(", " ")).split()
    if len(words) > 2 and words[0].upper() == "CREATE":
        name = words[3] if words[1].upper() == "CONTINUOUS" and len(words) > 3 else words[2]
        return {name.strip("`").lower()}
    return set()


def _mentioned(tree: exp.Expr) -> set[str]:
    named = {table.name.lower() for table in tree.find_all(exp.Table)}
    if tree.args.get("verb") in ("DROP", "DESCRIBE", "ALTER", "EXPLAIN") and tree.this is not None:
        named.add(tree.this.name.lower())
    return named
