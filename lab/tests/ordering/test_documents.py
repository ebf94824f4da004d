"""The page on adaptation shows what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[3] / "docs" / "adaptation.md"


def test_the_example_does_what_its_comments_say(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    exec(compile(example, _PAGE.name, "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", example)
