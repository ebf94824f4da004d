"""Golden files: statements and what is expected of each, in one text file that a person can read.

    -- A comment above a statement belongs to it.
    SELECT symbol FROM trades;

    query q: symbol STRING; clock hidden
      select
      …

    SELECT symbol FROM trade;

    error[W201]: stream 'trade' is unknown
    …

Blank lines separate: a paragraph that ends in a semicolon is a statement, and the paragraph after it is what is
expected. `pytest --rewrite-golden` puts what the code says now in place of what is expected; read the diff.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures"


@dataclass(frozen=True)
class Example:
    """One statement of a golden file, the line it begins at, and what is expected of it."""

    statement: str
    expected: str
    line: int


@dataclass(frozen=True)
class _Paragraph:
    text: str
    line: int

    @property
    def statement(self) -> str:
        """The paragraph without the comments above it and its semicolon, if it is a statement at all."""
        lines = self.text.split("\n")
        while lines and lines[0].startswith("--"):
            lines.pop(0)
        text = "\n".join(lines)
        return text[:-1] if text.endswith(";") else ""


def read_golden(path: Path) -> list[Example]:
    """The examples of a golden file; those that have never been answered expect nothing."""
    paragraphs = [*_paragraphs(path.read_text(encoding="utf-8")), _Paragraph("", 0)]
    examples = []
    for here, after in pairwise(paragraphs):
        if here.statement:
            line = here.line + here.text[: here.text.index(here.statement)].count("\n")
            examples.append(Example(here.statement, after.text if _is_answer(after) else "", line))
    return examples


def rewrite_golden(path: Path, answer: Callable[[str], str]) -> None:
    """Put `answer(statement)` after every statement of a golden file, and leave the comments as they are."""
    written: list[str] = []
    for paragraph in _paragraphs(path.read_text(encoding="utf-8")):
        if paragraph.statement:
            written += [paragraph.text, answer(paragraph.statement)]
        elif not _is_answer(paragraph):
            written.append(paragraph.text)
    path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


def _is_answer(paragraph: _Paragraph) -> bool:
    return not paragraph.statement and not paragraph.text.startswith("--")


def _paragraphs(text: str) -> Iterator[_Paragraph]:
    for match in re.finditer(r"(?:^.+\n?)+", text, re.MULTILINE):
        yield _Paragraph(match[0].rstrip("\n"), text.count("\n", 0, match.start()) + 1)
