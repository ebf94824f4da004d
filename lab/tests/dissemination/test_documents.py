"""The page on dissemination shows what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PAGES = sorted((Path(__file__).parents[3] / "docs").glob("federation*.md"))


def test_the_example_does_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for page in _PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    (example,) = [block for block in blocks if "token_round" in block]
    exec(compile(example, "federation.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", example)
