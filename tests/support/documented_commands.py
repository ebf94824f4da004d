"""The command lines of weft in the documents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))

_LINE = re.compile(r"(?:    |\$ )?(weft [a-z].*)")
_INLINE = re.compile(r"`(weft [a-z][^`]*)`")
#: What a line says of its command: behind a #, or behind a gap that no option follows.
_REMARK = re.compile(r"\s+#.*| {2,}(?![-\s]).*")


@dataclass(frozen=True)
class Documented:
    """A command line, without `weft`. One in the middle of a sentence may leave arguments out."""

    file: str
    line: int
    words: tuple[str, ...]
    is_whole: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} weft {shlex.join(self.words)}"


def documented(path: Path) -> Iterator[Documented]:
    """The commands of a document: lines of listings, and what sentences quote."""
    is_listing = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            is_listing = not is_listing
        found = _LINE.fullmatch(line) if is_listing or line.startswith("    ") else None
        texts = [(_REMARK.sub("", found[1]), True)] if found else [(text, False) for text in _INLINE.findall(line)]
        for text, is_whole in texts:
            # `a | b` in a sentence names several commands.
            for each in text.split(" | "):
                words = shlex.split(each.removeprefix("weft "))
                yield Documented(path.name, number, tuple(words), is_whole)
